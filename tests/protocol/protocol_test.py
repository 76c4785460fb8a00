"""The protocol, used by a client that was written from the .proto files alone.

    protocol_test.py PROTOC PROTO_FOLDER LOCKSTEPD LOCKSTEPCTL

proto/lockstep/v1/session.proto states each rule that a client depends on; a rule that changes
there changes here, too.
"""

import importlib
import os
import subprocess
import sys
import tempfile
import unittest

import grpc

from plan_digest import digest_of
from worker import Stream, Worker, bring_to_start, method

PROTOC, PROTO_FOLDER, LOCKSTEPD, LOCKSTEPCTL = sys.argv[1:5]
FILES = ("common", "session", "plan", "admin")
WORKER_TOKEN, OPERATOR_TOKEN = "for-workers", "for-operators"


class Wire:
    """Every message, enum and service of the files, by name."""

    def __init__(self, folder):
        subprocess.run(
            [PROTOC, f"--proto_path={PROTO_FOLDER}", f"--python_out={folder}",
             *(f"lockstep/v1/{name}.proto" for name in FILES)], check=True)
        sys.path.insert(0, folder)
        self._modules = [importlib.import_module(f"lockstep.v1.{name}_pb2") for name in FILES]

    def __getattr__(self, name):
        for module in self._modules:
            if hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(name)

    def service(self, name):
        for module in self._modules:
            if name in module.DESCRIPTOR.services_by_name:
                return module.DESCRIPTOR.services_by_name[name]
        raise KeyError(name)

    def message(self, descriptor):
        return getattr(self, descriptor.name)


SCRATCH = tempfile.TemporaryDirectory()
WIRE = Wire(SCRATCH.name)


def parameter(name, *shape):
    return WIRE.Parameter(name=name, shape=shape, dtype=WIRE.DType.DTYPE_F32,
                          op=WIRE.ReduceOp.REDUCE_OP_MEAN)


def spec(name, ranks, sync="STATIC"):
    result = WIRE.JobSpec(
        name=name, sync=getattr(WIRE.SyncMode, f"SYNC_MODE_{sync}"), transport="gloo",
        on_stuck=WIRE.OnStuck.ON_STUCK_REPORT, uneven=WIRE.Uneven.UNEVEN_STOP,
        on_unsubmitted=WIRE.OnUnsubmitted.ON_UNSUBMITTED_WARN,
        overlap=WIRE.Overlap.OVERLAP_AUTO)
    result.mesh.axes.add(name="data", size=ranks)
    result.buckets.first_bytes_max = 1 << 20
    result.buckets.bytes_max = 25 << 20
    result.buckets.rebuild = WIRE.Rebuild.REBUILD_ON_DEMAND
    for field, seconds in (("join", 60), ("lease", 20), ("resume", 20), ("progress", 60),
                           ("connect", 30)):
        getattr(result.timeouts, field).seconds = seconds
    result.limits.parameters_max = 1000
    result.limits.restart_window.seconds = 600
    return result


PARAMETERS = """parameters:
- {name: w, shape: [300, 7], dtype: f32}
- {name: b, shape: [], dtype: f64}
"""
PLANS = {
    "plain": "mesh: data=2,model=2\n" + PARAMETERS,
    "halves": "mesh: data=4\nbuckets: {wire_dtype: bf16, error_feedback: true}\n" + PARAMETERS,
    "slices": "mesh: data=4\nsync: reduce_scatter\n" + PARAMETERS,
    "leaves": "mesh: data=4\nreproducible: {leaves: 8}\n" + PARAMETERS,
    "pipeline": """mesh: data=2,pipe=4
pipeline: {schedule: 1f1b, micro_batches: 8, shared: [embedding],
           activations: "bf16[4,16]"}
parameters:
- {name: embedding, shape: [300, 7], stage: [0, 3], replicated_over: [pipe]}
- {name: head, shape: [7], stage: 3}
""",
}


def add_halo(plan):
    """Adds an exchange of a field of 3 and 2 cells on two ranks, with one more cell on each side
    of a block; beyond the field the constant is 0.5."""
    own, constant = (3, 2), 0.5
    group = len(plan.communicators)
    plan.communicators.add(name="halo/lat@0", ranks=[0, 1])
    halo = plan.halos.add(name="u", ranks=[0, 1], communicator=group + 1)
    halo.mesh.axes.add(name="lat", size=2)
    field = halo.fields.add(dtype=WIRE.DType.DTYPE_F32)
    field.dims.add(axis=1, bounds=[0, own[0], sum(own)], low=1, high=1,
                   edge=WIRE.HaloEdge.HALO_EDGE_CONSTANT, constant=constant)

    def segment(box, source, out, count, step):
        box.dims.add(out=out, count=count, step=step, **{"in": source})

    # The cell that the rank receives, as (source, out).
    received = ((0, own[0] + 1), (own[0] - 1, 0))
    for number, rank in enumerate(plan.ranks):
        peer = 1 - number
        routes = rank.halos.add(halo=0)
        segment(routes.own.add(), 0, 1, own[number], 1)
        fill = routes.fills.add(value=constant)
        segment(fill.box, 0, 0 if number == 0 else own[number] + 1, 1, 0)
        for messages, of in ((routes.sends, peer), (routes.receives, number)):
            segment(messages.add(peer=peer, bytes=4).boxes.add(), *received[of], 1, 1)
        lane = rank.lanes.add(kind=WIRE.LaneKind.LANE_KIND_HALO, name="halo lat@0")
        order = list(rank.launch_order)
        del rank.launch_order[:]
        for tag in (1, 2):
            for kind in ("SEND", "RECV"):
                lane.transfers.add(
                    kind=getattr(WIRE.TransferKind, f"TRANSFER_KIND_{kind}"),
                    communicator=group, dtype=WIRE.DType.DTYPE_U8, shape=[4], root=-1, peer=peer,
                    tag=tag, bucket=-1, group=tag, halo=1, op=WIRE.ReduceOp.REDUCE_OP_SUM)
                rank.launch_order.add(lane=len(rank.lanes) - 1, index=len(lane.transfers) - 1)
        rank.launch_order.extend(order)  # the verdict


class DigestTest(unittest.TestCase):
    """plan.proto's rules for the digest, for plans of every kind."""

    def compile(self, name, text, plan_file):
        spec_file = os.path.join(SCRATCH.name, name + ".yaml")
        with open(spec_file, "w", encoding="utf-8") as file:
            file.write(f"name: {name}\n{text}")
        subprocess.run([LOCKSTEPCTL, "plan", "compile", "-f", spec_file, "-o", plan_file],
                       check=True, stdout=subprocess.DEVNULL)

    def verified(self, plan_file):
        return subprocess.run([LOCKSTEPCTL, "plan", "verify", plan_file], check=False,
                              capture_output=True, text=True).stdout.strip()

    def test_the_digest_of_every_kind_of_plan(self):
        for name, text in PLANS.items():
            with self.subTest(name):
                plan_file = os.path.join(SCRATCH.name, name + ".pb")
                self.compile(name, text, plan_file)
                with open(plan_file, "rb") as file:
                    plan = WIRE.Plan.FromString(file.read())
                self.assertEqual(self.verified(plan_file), f"verified {digest_of(plan)}")

    def test_the_digest_of_a_plan_with_a_halo_exchange(self):
        plan_file = os.path.join(SCRATCH.name, "halo.pb")
        self.compile("halo", "mesh: lat=2\n", plan_file)
        with open(plan_file, "rb") as file:
            plan = WIRE.Plan.FromString(file.read())
        add_halo(plan)
        with open(plan_file, "wb") as file:
            file.write(plan.SerializeToString())
        self.assertEqual(self.verified(plan_file), f"verified {digest_of(plan)}")

    def test_the_digest_of_a_plan_with_state(self):
        plan_file = os.path.join(SCRATCH.name, "state.pb")
        self.compile("state", "mesh: data=2,model=3\n", plan_file)
        with open(plan_file, "rb") as file:
            plan = WIRE.Plan.FromString(file.read())
        f32 = WIRE.DType.DTYPE_F32
        whole = plan.state.add(name="w", dtype=f32)  # ranks and bounds are left out
        whole.dims.add(axes=["model", "data"], bounds=[17])
        sliced = plan.state.add(name="w.m", dtype=f32, ranks=[0, 2, 3, 5],
                                slice_offsets=[0, 0, 2, 2], slice_counts=[2, 2, 3, 3])
        sliced.dims.add(bounds=[5])
        uneven = plan.state.add(name="bytes", dtype=WIRE.DType.DTYPE_U8)
        uneven.dims.add(axes=["data"], bounds=[0, 9, 10])
        plan.state.add(name="step", dtype=WIRE.DType.DTYPE_I64, ranks=[4])
        with open(plan_file, "wb") as file:
            file.write(plan.SerializeToString())
        self.assertEqual(self.verified(plan_file), f"verified {digest_of(plan)}")


class ProtocolTest(unittest.TestCase):
    """Each test has its own coordinator, with a token for workers and one for operators."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        flags = []
        for flag, token in (("token", OPERATOR_TOKEN), ("worker_token", WORKER_TOKEN)):
            path = os.path.join(folder.name, flag)
            with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w",
                      encoding="ascii") as file:
                file.write(token + "\n")
            flags += [f"--{flag}_file", path]
        self.flags = flags
        self.address = self.start_daemon("127.0.0.1:0")
        self.addCleanup(self.stop_daemon)
        self.channel = grpc.insecure_channel(
            self.address, options=[("grpc.initial_reconnect_backoff_ms", 50),
                                   ("grpc.max_reconnect_backoff_ms", 300)])
        self.addCleanup(self.channel.close)

    def start_daemon(self, address):
        """Returns its address."""
        self.daemon = subprocess.Popen(
            [LOCKSTEPD, "--listen", address, "--log_level", "off", *self.flags],
            stdout=subprocess.PIPE, text=True)
        return self.daemon.stdout.readline().split()[-1]

    def stop_daemon(self):
        self.daemon.kill()
        self.daemon.wait()
        self.daemon.stdout.close()

    def restart_daemon(self):
        self.stop_daemon()
        self.assertEqual(self.start_daemon(self.address), self.address)

    def worker(self, job, name, parameters=None):
        return Worker(self.channel, WIRE, job, name,
                      parameters or [parameter("w", 4), parameter("b")], WORKER_TOKEN)

    def job(self, name="foreign", sync="STATIC", parameters=None):
        job = spec(name, 2, sync)
        return [self.worker(job, f"w{rank}", parameters) for rank in range(2)]

    def describe(self, name="foreign"):
        request = WIRE.DescribeJobRequest(token=OPERATOR_TOKEN)
        request.header.job = name
        return method(self.channel, WIRE, "DescribeJob", "Admin")(request).view

    def assert_state(self, state):
        self.assertEqual(self.describe().state, getattr(WIRE.JobState, f"JOB_STATE_{state}"))

    def assert_refused(self, client, code, **changes):
        """A Hello gets Refused with this code, and the stream ends with it."""
        client.say_hello(**changes)
        message = client.stream.receive()
        self.assertEqual(message.WhichOneof("body"), "refused", message)
        self.assertEqual(message.refused.code, code.value[0], message.refused.message)
        self.assertIsNone(client.stream.receive())
        self.assertEqual(client.stream.code(), code)

    def assert_ends_epoch(self, workers, kind):
        """The epoch ends for all because of the previous message."""
        for worker in workers:
            message = worker.stream.receive()
            while message.WhichOneof("body") != "epoch_ended":
                message = worker.stream.receive()
            self.assertEqual(message.epoch_ended.cause.kind,
                             getattr(WIRE.CauseKind, f"CAUSE_KIND_{kind}"), message)

    def assert_closes(self, workers, number, reductions):
        """All receive the same reductions of a pass in one order, whichever it is."""
        heard = [worker.await_close(number) for worker in workers]
        self.assertEqual(heard, [heard[0]] * len(workers))
        self.assertEqual(sorted(heard[0]), reductions)

    # --- Whole jobs -------------------------------------------------------------

    def test_a_static_job_from_hello_to_left(self):
        workers = self.job(parameters=[parameter(f"layer.{i}", 3, i + 1) for i in range(250)])
        bring_to_start(workers)
        self.assertEqual([member.worker for member in workers[0].members], ["w0", "w1"])
        self.assertEqual([worker.rank for worker in workers], [0, 1])
        for worker in workers:
            self.assertEqual(worker.handles[0], [b"w0/0", b"w1/0"])
        self.assert_state("RUNNING")
        for step in range(3):
            for phase in ("COMPUTE", "TRANSFER", "VERDICT"):
                for worker in workers:
                    worker.progress(step, getattr(WIRE.Phase, f"PHASE_{phase}"))
        for worker in workers:
            worker.say(heartbeat=WIRE.Heartbeat())
            worker.leave(steps=3)
        self.assert_state("COMPLETED")

    def test_a_negotiated_job(self):
        workers = self.job(sync="NEGOTIATED")
        bring_to_start(workers)
        one, two = workers
        first = one.first_step
        for number in range(first, first + 4):
            one.announce(number, [0, 1])
            two.announce(number, [1])
            two.submit([1])
            one.submit([1])
            one.submit([0])
            self.assert_closes(workers, number, [(0, 1), (1, 2)])
        # A rank without gradients announces an empty list; without it no pass closes.
        one.announce(first + 4, [0])
        one.submit([0])
        two.announce(first + 4, [])
        self.assert_closes(workers, first + 4, [(0, 1)])
        for worker in workers:
            worker.announce(first + 5, [])
        self.assert_closes(workers, first + 5, [])
        for worker in workers:
            worker.leave(steps=first + 6)
        self.assert_state("COMPLETED")

    def test_an_epoch_fails_and_the_next_completes(self):
        job = spec("foreign", 2)
        job.limits.max_restarts = 1
        workers = [self.worker(job, f"w{rank}") for rank in range(2)]
        bring_to_start(workers)
        workers[0].say(local_failure=WIRE.LocalFailure(
            step=workers[0].first_step, call="forward", code=13, message="not a number"))
        self.assert_ends_epoch(workers, "LOCAL_FAILURE")
        for worker in workers:
            worker.say(epoch_report=WIRE.EpochReport(position=worker.position()))
            worker.stream.cancel()
        again = [self.worker(job, worker.name) for worker in workers]
        bring_to_start(again)
        self.assertEqual([worker.epoch for worker in again], [2, 2])
        for worker in again:
            worker.leave(steps=worker.first_step)
        self.assert_state("COMPLETED")

    # --- Broken streams ---------------------------------------------------------

    def test_a_stream_breaks_at_each_stage(self):
        workers = self.job()
        one, two = workers
        one.say_hello()
        one.hear("welcome")
        one.resume()
        two.say_hello()
        for worker in workers:
            worker.hear("epoch_formed")
        one.resume()
        two.register()
        for worker in workers:
            worker.hear("plan_ready")
            worker.fetch_plan()
            worker.acknowledge()
        one.resume()
        for worker in workers:
            worker.publish()
        one.resume()
        for worker in workers:
            worker.connect()
        one.resume()
        for worker in workers:
            if not worker.started:
                worker.hear("start")
        one.resume()
        one.hear("start")  # sent again, too
        for worker in workers:
            worker.progress(one.first_step, WIRE.Phase.PHASE_VERDICT)
            worker.leave(steps=one.first_step + 1)
        self.assert_state("COMPLETED")
        self.assertEqual(self.describe().epoch, 1)

    def test_a_stream_breaks_in_every_part_of_a_pass(self):
        workers = self.job(sync="NEGOTIATED")
        bring_to_start(workers)
        one, two = workers
        for number in range(one.first_step, one.first_step + 3):
            one.resume()
            one.announce(number, [0, 1])
            one.resume()
            two.announce(number, [0])
            two.submit([0])
            one.submit([0])
            one.resume()
            two.resume()
            one.submit([1])
            one.resume()
            self.assert_closes(workers, number, [(0, 2), (1, 1)])
        for worker in workers:
            worker.leave(steps=one.first_step + 3)
        self.assert_state("COMPLETED")
        self.assertEqual(self.describe().epoch, 1)

    def test_a_restarted_coordinator_gets_the_plan_from_one_worker(self):
        self.flags += ["--journal", os.path.join(self.folder, "journal")]
        self.restart_daemon()
        workers = self.job(sync="NEGOTIATED")
        bring_to_start(workers)
        one, two = workers
        plan = one.plan_bytes
        for number, held in enumerate((plan, plan[::-1], b""), one.first_step):
            self.restart_daemon()
            one.plan_bytes = held
            one.resume(wait_for_ready=True)
            one.hear("plan_wanted")
            two.resume()
            if held != plan:
                two.hear("plan_wanted")  # one has sent another, or none
            for worker in workers:
                worker.announce(number, [0, 1])
                worker.submit([0, 1])
            self.assert_closes(workers, number, [(0, 2), (1, 2)])
            self.assertEqual([entry.name for entry in self.describe().parameters], ["w", "b"])
        for worker in workers:
            worker.leave(steps=one.first_step + 3)
        self.assert_state("COMPLETED")
        self.assertEqual(self.describe().epoch, one.epoch)
        self.assertEqual([worker.registrations for worker in workers], [1, 1])

    def test_a_coordinator_that_starts_anew_adopts_the_job(self):
        workers = self.job(sync="NEGOTIATED")
        bring_to_start(workers)
        one, two = workers
        first = one.first_step
        for worker in workers:
            worker.announce(first, [0])
            worker.submit([0])
        self.assert_closes(workers, first, [(0, 2)])
        self.restart_daemon()
        # The first one is told to retry: not all ranks have offered the job.
        one.stream.cancel()
        one.say_hello(wait_for_ready=True)
        self.assertIsNone(one.stream.receive())
        self.assertEqual(one.stream.code(), grpc.StatusCode.UNAVAILABLE)
        two.resume()
        one.resume()
        for worker in workers:
            worker.hear("registration_wanted")
        for worker in workers:
            worker.announce(first + 1, [1])
            worker.submit([1])
        self.assert_closes(workers, first + 1, [(1, 2)])
        for worker in workers:
            worker.leave(steps=first + 2)
        self.assert_state("COMPLETED")
        self.assertEqual(self.describe().epoch, one.epoch)

    # --- Refusals -------------------------------------------------------------

    def test_a_hello_is_refused_with_the_documented_code(self):
        code = grpc.StatusCode
        first, second = self.job()
        self.assert_refused(first, code.UNAUTHENTICATED, token="wrong")
        self.assert_refused(first, code.FAILED_PRECONDITION, version=2)
        self.assert_refused(first, code.INVALID_ARGUMENT, worker="")
        self.assert_refused(first, code.INVALID_ARGUMENT, worker="a\nb")
        self.assert_refused(first, code.INVALID_ARGUMENT, worker="x" * 254)
        self.assert_refused(first, code.INVALID_ARGUMENT, incarnation=0)
        first.say_hello()
        first.hear("welcome")
        guess = self.worker(first.spec, "w0")
        for known in ({}, {"incarnation": first.incarnation}, {"secret": first.secret}):
            guess.generation = first.generation
            guess.say_hello(**known)
            self.assertIsNone(guess.stream.receive(), "a stranger gets no message")
            self.assertEqual(guess.stream.code(), code.PERMISSION_DENIED)
        self.assert_refused(self.worker(first.spec, "w0"), code.ALREADY_EXISTS)
        self.assert_refused(self.worker(spec("foreign", 3), "w1"), code.INVALID_ARGUMENT)
        second.say_hello()
        second.hear("epoch_formed")
        self.assert_refused(self.worker(first.spec, "w2"), code.FAILED_PRECONDITION)

    def test_a_job_that_nobody_has_specified_is_not_found(self):
        worker = self.worker(WIRE.JobSpec(name="nobody"), "w0")
        worker.stream = Stream(self.channel, WIRE)
        worker.say(hello=WIRE.Hello(version=1, worker="w0", incarnation=7, token=WORKER_TOKEN,
                                    process=WIRE.ProcessInfo(host="python", pid=1)))
        self.assertEqual(worker.stream.receive().refused.code,
                         grpc.StatusCode.NOT_FOUND.value[0])

    def test_a_message_before_hello_is_refused(self):
        stream = Stream(self.channel, WIRE)
        stream.send(WIRE.ToCoordinator(heartbeat=WIRE.Heartbeat()))
        self.assertEqual(stream.receive().refused.code,
                         grpc.StatusCode.INVALID_ARGUMENT.value[0])

    def test_what_is_too_large_ends_the_stream(self):
        code = grpc.StatusCode
        parameters = [parameter("w")] * 65537
        handle = WIRE.GroupHandle(handle=b"x" * 65537)
        for body, expected in (
                ({"register_chunk": WIRE.RegisterChunk(parameters=parameters)},
                 code.INVALID_ARGUMENT),
                ({"leave": WIRE.Leave(reason="x" * ((1 << 20) + 1))}, code.INVALID_ARGUMENT),
                ({"publish_handles": WIRE.PublishHandles(handles=[handle])},
                 code.INVALID_ARGUMENT),
                ({"leave": WIRE.Leave(reason="x" * (4 << 20))}, code.RESOURCE_EXHAUSTED),
                ({}, code.INVALID_ARGUMENT)):
            worker = self.job(name="limits")[0]
            worker.say_hello()
            worker.hear("welcome")
            worker.say(**body)
            while worker.stream.receive() is not None:
                pass
            self.assertEqual(worker.stream.code(), expected, str(body)[:80])
            worker.resume()
            worker.leave(steps=0)

    def test_what_contradicts_the_protocol_ends_the_epoch(self):
        cases = {
            "index": lambda one: one.say(
                register_chunk=WIRE.RegisterChunk(index=1, last=True)),
            "early": lambda one: one.say(plan_ack=WIRE.PlanAck(revision=1, digest="0")),
        }
        for name, contradict in cases.items():
            workers = self.job(name)
            for worker in workers:
                worker.say_hello()
            for worker in workers:
                worker.hear("epoch_formed")
            contradict(workers[0])
            self.assert_ends_epoch(workers, "MISMATCH")

    def test_what_contradicts_a_pass_ends_the_epoch(self):
        def submit_unannounced(one):
            one.say(submitted=WIRE.Submitted(**{"pass": one.first_step}, parameters=[0]))

        def announce_too_early(one):
            one.announce(one.first_step + 1, [0])

        def announce_differently(one):
            one.announce(one.first_step, [0])
            one.announce(one.first_step, [1])

        def announce_what_there_is_not(one):
            one.announce(one.first_step, [2])

        for contradict in (submit_unannounced, announce_too_early, announce_differently,
                           announce_what_there_is_not):
            workers = self.job(contradict.__name__, "NEGOTIATED")
            bring_to_start(workers)
            contradict(workers[0])
            self.assert_ends_epoch(workers, "MISMATCH")

    def test_the_workers_token_operates_nothing(self):
        worker = self.worker(spec("foreign", 1), "w0")
        worker.say_hello()
        worker.hear("welcome")
        for call in WIRE.service("Admin").methods:
            # For launchers, which have the workers' token.
            if call.name in ("ReportEvidence", "SaveJob"):
                continue
            for token, code in ((WORKER_TOKEN, "PERMISSION_DENIED"),
                                ("wrong", "UNAUTHENTICATED"), ("", "UNAUTHENTICATED")):
                request = WIRE.message(call.input_type)(token=token)
                request.header.job = "foreign"
                with self.assertRaises(grpc.RpcError, msg=call.name) as refused:
                    list(method(self.channel, WIRE, call.name, "Admin")(request, timeout=30))
                self.assertEqual(refused.exception.code(), grpc.StatusCode[code])
        self.assert_state("SEALED")

    def test_plans_are_fetched_with_a_token_and_their_digest(self):
        worker = self.worker(spec("foreign", 1), "w0")
        worker.say_hello()
        worker.hear("epoch_formed")
        worker.register()
        worker.hear("plan_ready")

        def code_of(**fields):
            request = WIRE.FetchPlanRequest(**fields)
            request.header.job = "foreign"
            call = method(self.channel, WIRE, "FetchPlan")(request)
            try:
                self.assertTrue(list(call))
            except grpc.RpcError:
                pass
            return call.code()

        code = grpc.StatusCode
        self.assertEqual(code_of(token=WORKER_TOKEN, digest=worker.digest), code.OK)
        self.assertEqual(code_of(digest=worker.digest), code.UNAUTHENTICATED)
        self.assertEqual(code_of(token=WORKER_TOKEN, digest="0"), code.NOT_FOUND)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
