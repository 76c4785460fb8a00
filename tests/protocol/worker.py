"""A worker of Lockstep's protocol, written from proto/lockstep/v1/*.proto alone.

It has no data plane: its handles are arbitrary bytes, and nothing is reduced. A test runs all
workers of a job, each for one message at a time, so there are no threads here.
"""

import os
import queue
import random

import grpc

from plan_digest import digest_of, members_digest_of

CALL_SECONDS = 30  # a call that takes longer fails the test


def method(channel, wire, name, service="Coordinator"):
    """The callable of one method of a service, as grpcio makes them."""
    descriptor = wire.service(service).methods_by_name[name]
    request = wire.message(descriptor.input_type)
    response = wire.message(descriptor.output_type)
    kinds = {"Session": channel.stream_stream, "FetchPlan": channel.unary_stream,
             "WatchJob": channel.unary_stream}
    return kinds.get(name, channel.unary_unary)(
        f"/lockstep.v1.{service}/{name}", request_serializer=request.SerializeToString,
        response_deserializer=response.FromString)


class Stream:
    """One call of Session: messages are sent and received one at a time."""

    def __init__(self, channel, wire, wait_for_ready=False):
        self._out = queue.SimpleQueue()
        self._call = method(channel, wire, "Session")(
            iter(self._out.get, None), timeout=CALL_SECONDS, wait_for_ready=wait_for_ready)

    def send(self, message):
        self._out.put(message)

    def receive(self):
        """The next message; None once the coordinator has ended the stream."""
        try:
            return next(self._call, None)
        except grpc.RpcError:
            return None

    def code(self):
        return self._call.code()

    def cancel(self):
        self._call.cancel()
        self._out.put(None)


class Worker:
    """The state of one worker. `parameters` are Parameter messages."""

    def __init__(self, channel, wire, spec, name, parameters, token=""):
        self.channel, self.wire, self.spec = channel, wire, spec
        self.name, self.parameters, self.token = name, parameters, token
        self.incarnation = random.getrandbits(64) | 1
        self.secret = b""
        self.generation = self.epoch = self.rank = self.first_step = 0
        self.members, self.revision, self.digest, self.plan = [], 0, "", None
        self.plan_bytes = b""
        self.registrations = 0  # sent
        self.handles = {}  # by communicator, in its rank order
        self.acknowledged = self.published = self.connected = self.started = False
        self.step, self.phase = 0, wire.Phase.PHASE_IDLE
        self.decisions, self.announced, self.submitted = [], None, []
        self.stream = None

    # --- Messages ---------------------------------------------------------------

    def say(self, **body):
        message = self.wire.ToCoordinator(**body)
        message.header.job = self.spec.name
        message.header.epoch = self.epoch
        self.stream.send(message)

    def hear(self, kind):
        """The next message of this kind; earlier messages are handled too."""
        while True:
            message = self.stream.receive()
            if message is None:
                raise AssertionError(f"{self.name} waits for {kind}: {self.stream.code()}")
            body = message.WhichOneof("body")
            self.take(body, getattr(message, body), message.header.epoch)
            if body == kind:
                return getattr(message, body)
            if body in ("refused", "epoch_ended"):
                raise AssertionError(f"{self.name} waits for {kind}: {message}")

    def take(self, kind, body, epoch):
        if kind == "welcome":
            self.generation = body.generation
            self.take_secret(body)
        elif kind == "epoch_formed":
            self.epoch, self.rank, self.members = epoch, body.rank, list(body.members)
            self.take_first_step(body)
        elif kind == "plan_ready":
            self.revision, self.digest = body.revision, body.digest
        elif kind == "group_handles":
            known = self.handles.setdefault(body.communicator, [])
            del known[getattr(body, "first", 0):]
            known.extend(body.handles)
        elif kind == "start":
            self.started = True
        elif kind == "decide":
            known = len(self.decisions)
            assert body.first <= known, "a gap in the decisions"
            self.decisions += body.decisions[known - body.first:]
        elif kind == "plan_wanted":
            self.give_plan_back(body.digest)
        elif kind == "registration_wanted":
            self.register()

    def take_secret(self, welcome):
        self.secret = getattr(welcome, "secret", b"") or self.secret

    def take_first_step(self, formed):
        self.first_step = getattr(formed, "first_step", 0)
        if not self.started:
            self.step = self.first_step

    # --- From Hello to Start --------------------------------------------------

    def say_hello(self, wait_for_ready=False, **changes):
        self.stream = Stream(self.channel, self.wire, wait_for_ready)
        hello = self.wire.Hello(
            version=1, worker=self.name, generation=self.generation, incarnation=self.incarnation,
            spec=self.spec, token=self.token,
            process=self.wire.ProcessInfo(host="python", pid=os.getpid(), boot_id="none"))
        if self.generation:
            hello.resume.epoch = self.epoch
            if self.acknowledged:
                hello.resume.revision = self.revision
                hello.resume.plan_digest = self.digest
            hello.resume.position.CopyFrom(self.position())
            hello.resume.started = self.started
            hello.resume.rank = self.rank if self.epoch else -1
            if self.epoch:
                hello.resume.members_digest = members_digest_of(self.members)
            if "secret" in hello.DESCRIPTOR.fields_by_name:
                hello.secret = self.secret
        for field, value in changes.items():
            setattr(hello, field, value)
        self.say(hello=hello)

    def position(self):
        return self.wire.Position(step=self.step, phase=self.phase)

    def register(self, per_chunk=100):
        self.registrations += 1
        chunks = [self.parameters[i:i + per_chunk]
                  for i in range(0, len(self.parameters), per_chunk)]
        for index, chunk in enumerate(chunks):
            self.say(register_chunk=self.wire.RegisterChunk(
                index=index, last=index == len(chunks) - 1, parameters=chunk))

    def fetch_plan(self):
        fetch = method(self.channel, self.wire, "FetchPlan")
        request = self.wire.FetchPlanRequest(token=self.token, digest=self.digest)
        request.header.job = self.spec.name
        pieces = b""
        for chunk in fetch(request, timeout=CALL_SECONDS):
            assert chunk.offset == len(pieces) and chunk.data
            pieces += chunk.data
        assert len(pieces) == chunk.total_bytes
        self.plan_bytes = pieces
        self.plan = self.wire.Plan.FromString(pieces)
        assert digest_of(self.plan) == self.digest, "the plan has another digest"

    def give_plan_back(self, digest, per_part=100):
        held = self.plan_bytes if digest == self.digest else b""
        for offset in range(0, max(len(held), 1), per_part):
            self.say(plan_part=self.wire.PlanPart(
                digest=digest, total_bytes=len(held), offset=offset,
                data=held[offset:offset + per_part]))

    def acknowledge(self):
        self.acknowledged = True
        self.say(plan_ack=self.wire.PlanAck(revision=self.revision, digest=self.digest))

    def own_communicators(self):
        return [index for index, communicator in enumerate(self.plan.communicators)
                if self.rank in communicator.ranks]

    def publish(self):
        self.published = True
        self.say(publish_handles=self.wire.PublishHandles(handles=[
            self.wire.GroupHandle(communicator=index, handle=f"{self.name}/{index}".encode())
            for index in self.own_communicators()]))

    def has_all_handles(self):
        return all(len(self.handles.get(index, [])) == len(self.plan.communicators[index].ranks)
                   for index in self.own_communicators())

    def connect(self):
        while not self.has_all_handles():
            self.hear("group_handles")
        self.connected = True
        self.say(connected=self.wire.Connected(groups=[
            self.wire.GroupTransport(communicator=index, transport="none")
            for index in self.own_communicators()]))

    # --- Steps ------------------------------------------------------------------

    def progress(self, step, phase):
        self.step, self.phase = step, phase
        self.say(progress=self.wire.Progress(
            position=self.position(), revision=self.revision,
            overlap=self.wire.Overlap.OVERLAP_AUTO))

    def announce(self, number, parameters):
        self.announced, self.submitted = (number, parameters), []
        self.say(announce=self.wire.Announce(**{"pass": number}, parameters=parameters))

    def submit(self, parameters):
        self.submitted += parameters
        self.say(submitted=self.wire.Submitted(**{"pass": self.announced[0]},
                                               parameters=parameters))

    def decided(self, number):
        return [decision for decision in self.decisions if getattr(decision, "pass") == number]

    def await_close(self, number):
        """Receives decisions until the pass is closed; returns its reductions, in order."""
        while all(decision.announcers for decision in self.decided(number)):
            self.hear("decide")
        *reductions, close = self.decided(number)
        assert close.announcers == 0, "something was decided in a closed pass"
        return [(decision.parameter, decision.announcers) for decision in reductions]

    # --- Resuming and leaving ---------------------------------------------------

    def resume(self, wait_for_ready=False):
        """Opens a new stream in place of the broken one, and repeats the required messages."""
        self.stream.cancel()
        self.say_hello(wait_for_ready)
        assert self.hear("welcome").resumed
        if self.epoch and not self.started:
            self.register()
        if not self.started:
            if self.acknowledged:
                self.acknowledge()
            if self.published:
                self.publish()
            if self.connected:
                self.connect()
        elif self.spec.sync == self.wire.SyncMode.SYNC_MODE_NEGOTIATED:
            self.say(held=self.wire.Held(first=0, decisions=self.decisions))
            if self.announced:
                submitted = self.submitted
                self.announce(*self.announced)
                if submitted:
                    self.submit(submitted)

    def leave(self, steps):
        self.say(leave=self.wire.Leave(clean=True, steps=steps))
        self.hear("left")


def bring_to_start(workers):
    """Takes all workers of a job from Hello to Start."""
    for worker in workers:
        worker.say_hello()
    for worker in workers:
        worker.hear("epoch_formed")
        worker.register()
    for worker in workers:
        worker.hear("plan_ready")
        worker.fetch_plan()
        worker.acknowledge()
        worker.publish()
    for worker in workers:
        worker.connect()
    for worker in workers:
        worker.hear("start")
