"""The overlays of deploy/kubernetes: golden files, schemas, and the rules of policy.py.

deploy_test.py runs these cases. LOCKSTEP_UPDATE_GOLDEN=1 renders the golden files again, with
kubectl 1.27 or later.
"""

import json
import os
import unittest

import jsonschema
import kubernetes_validate
import yaml

import policy
from deployment import (DEPLOY, GOLDEN, KUBECTL_MIN, OVERLAYS, container_of,
                        environment_of, golden, kubectl_version, launcher_and_program, pod_of,
                        render, sources)
from dockerfile import PROGRAMS, Dockerfile

# The oldest whose Jobs replace each pod by itself without a feature gate, one between, and the
# newest known.
VERSIONS = ("1.29.0", "1.32.0", kubernetes_validate.latest_version())


# Custom resources, whose schemas are here.
OTHERS = ("cert-manager.io/", "jobset.x-k8s.io/", "monitoring.coreos.com/")


def validate_by(schema_name, definition, document):
    schema = json.loads((DEPLOY / f"schemas/{schema_name}.json").read_text())
    jsonschema.validate(document, {**schema, "$ref": f"#/$defs/{definition}"})


def validate(document, version):
    group = document["apiVersion"]
    validate_by("kueue.x-k8s.io", "metadata", document["metadata"])
    if group.startswith(OTHERS):
        validate_by(group.replace("/", "_"), document["kind"], document)
    else:
        kubernetes_validate.validate(document, version, strict=True)
    if document["kind"] == "JobSet":
        for one in document["spec"]["replicatedJobs"]:
            validate({"apiVersion": "batch/v1", "kind": "Job", "metadata": {}, **one["template"]}, version)


class GoldenTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        if os.environ.get("LOCKSTEP_UPDATE_GOLDEN"):
            for overlay in OVERLAYS:
                (GOLDEN / f"{overlay}.yaml").write_text(render(overlay))
            (GOLDEN / "sources.sha256").write_text(sources())

    def test_overlays_render_to_the_golden_files(self):
        version = kubectl_version()
        if version is None or version < KUBECTL_MIN:
            self.skipTest(f"needs kubectl {KUBECTL_MIN[0]}.{KUBECTL_MIN[1]}, there is {version}")
        for overlay in OVERLAYS:
            with self.subTest(overlay):
                self.assertEqual(render(overlay), (GOLDEN / f"{overlay}.yaml").read_text(),
                                 "render it again with LOCKSTEP_UPDATE_GOLDEN=1, and review")

    def test_golden_files_are_of_these_sources(self):
        """Also where there is no kubectl."""
        self.assertEqual(sources(), (GOLDEN / "sources.sha256").read_text())


class SchemaTest(unittest.TestCase):

    def test_every_object_is_valid_in_every_version(self):
        for overlay in OVERLAYS:
            for document in golden(overlay).objects:
                for version in VERSIONS:
                    with self.subTest(overlay, name=policy.name_of(document), version=version):
                        validate(document, version)

    def assert_refused(self, document, version):
        with self.assertRaises((kubernetes_validate.ValidationError, jsonschema.ValidationError)):
            validate(document, version)

    def test_a_wrong_word_is_noticed(self):
        for overlay in ("production", "jobset"):
            for kind in {document["kind"] for document in golden(overlay).objects} - {"ConfigMap"}:
                for version in VERSIONS:
                    with self.subTest(kind, overlay=overlay, version=version):
                        document = golden(overlay).all(kind)[0]
                        document.get("spec", document)["completion_mode"] = "Indexed"
                        self.assert_refused(document, version)

    def test_a_wrong_word_in_a_jobset_is_noticed(self):
        breaks = [
            lambda c: c.jobset["spec"]["failurePolicy"].update(max_restarts=1),
            lambda c: c.jobset["spec"]["network"].update(enableDnsHostnames=False),
            lambda c: c.jobset["spec"]["replicatedJobs"][0].update(completions=4),
            lambda c: c.jobset["spec"]["replicatedJobs"][0].update(replicas="1"),
            lambda c: c.jobset["spec"]["replicatedJobs"][0]["template"].pop("spec"),
            lambda c: c.workers["spec"].update(backoff_limit=1),
            lambda c: pod_of(c.workers).update(grace=30),
        ]
        for number, break_it in enumerate(breaks):
            for version in VERSIONS:
                with self.subTest(number=number, version=version):
                    cluster = golden("jobset")
                    break_it(cluster)
                    self.assert_refused(cluster.jobset, version)

    def test_a_wrong_word_for_kueue_is_noticed(self):
        for overlay in ("jobset", "kueue"):
            for field, word, value in (("labels", "kueue.x-k8s.io/queue_name", "lockstep"),
                                       ("labels", "kueue.x-k8s.io/queue-name", "the queue"),
                                       ("annotations", "kueue.x-k8s.io/queue-name", "lockstep")):
                with self.subTest(overlay, field=field, word=word):
                    cluster = golden(overlay)
                    queued = cluster.jobset or cluster.workers
                    queued["metadata"].setdefault(field, {})[word] = value
                    self.assert_refused(queued, VERSIONS[0])


class PolicyTest(unittest.TestCase):

    def test_overlays_keep_the_rules(self):
        for overlay in OVERLAYS:
            with self.subTest(overlay):
                self.assertEqual(policy.violations(golden(overlay)), [])

    def test_production_has_one_pod_on_a_node(self):
        for overlay in ("production", "jobset"):
            with self.subTest(overlay):
                cluster = golden(overlay)
                self.assertEqual(list(policy.one_pod_a_node(cluster)), [])
                del pod_of(cluster.workers)["affinity"]
                self.assertNotEqual(list(policy.one_pod_a_node(cluster)), [])

    def test_each_rule_notices_what_breaks_it(self):
        for overlay, name, breaks in [*(("production", *entry) for entry in BROKEN.items()),
                                      *(("jobset", *entry) for entry in BROKEN.items()),
                                      *(("jobset", *entry) for entry in BROKEN_JOBSET.items()),
                                      *(("kueue", *entry) for entry in BROKEN_KUEUE.items()),
                                      *(("ha", *entry) for entry in BROKEN_HA.items())]:
            for number, break_it in enumerate(breaks):
                with self.subTest(name, overlay=overlay, number=number):
                    cluster = golden(overlay)
                    break_it(cluster)
                    self.assertNotEqual(list(policy.RULES[name](cluster)), [])

    def test_each_rule_has_what_breaks_it(self):
        self.assertEqual({*BROKEN, *BROKEN_HA, *BROKEN_JOBSET, *BROKEN_KUEUE}, set(policy.RULES))

    def test_images_are_those_of_the_dockerfile(self):
        cluster = golden("local")
        for workload in cluster.workloads:
            name = container_of(workload)["image"].partition(":")[0]
            self.assertIn(name.removeprefix("lockstep/"), Dockerfile().stages)
        _, program = launcher_and_program(container_of(cluster.workers)["args"])
        self.assertEqual(set(PROGRAMS["worker"]), {*container_of(cluster.workers)["command"], program[0]})
        for stage in PROGRAMS:
            self.assertEqual(Dockerfile().one(stage, "USER"), f"{policy.USER}:{policy.USER}")

    def test_what_the_manual_makes_is_what_the_pods_mount(self):
        manual = (DEPLOY.parent / "docs/kubernetes.md").read_text()
        for overlay in OVERLAYS:
            cluster = golden(overlay)
            for workload in cluster.workloads:
                for volume in pod_of(workload)["volumes"]:
                    if "secret" in volume:
                        self.assertIn(volume["secret"]["secretName"], manual)

    def test_every_variable_is_used(self):
        container = container_of(golden("local").workers)
        for name in environment_of(container):
            self.assertIn(f"$({name})", " ".join(container["args"]))


# --- What breaks each rule ------------------------------------------------------------------


def context_of(workload):
    return container_of(workload)["securityContext"]


def replace_flag(workload, old, new=None):
    args = container_of(workload)["args"]
    (index,) = [number for number, word in enumerate(args) if word == old or word.startswith(old + "=")]
    args[index:index + 1] = [new] if new else []


def change_spec(cluster, **fields):
    spec = yaml.safe_load(cluster.spec_text)
    spec.update(fields)
    cluster.of("ConfigMap", "worker")["data"]["job.yaml"] = yaml.safe_dump(spec)


def set_variable(cluster, name, value):
    (entry,) = [entry for entry in container_of(cluster.workers)["env"] if entry["name"] == name]
    entry.clear()
    entry.update({"name": name, "value": value})


def secret_volume(workload, name):
    (volume,) = [volume for volume in pod_of(workload)["volumes"] if volume["name"] == name]
    return volume["secret"]


def certificate(cluster, name):
    return cluster.get("Certificate", name)["spec"]


def remove(cluster, kind, component):
    cluster.objects.remove(cluster.of(kind, component))


def copy_of(cluster, kind, name, **fields):
    cluster.objects.append({"kind": kind, "metadata": {"name": name, "namespace": "lockstep"}, **fields})


def admit(cluster, component, peer):
    cluster.of("NetworkPolicy", component)["spec"]["ingress"][0]["from"].append(peer)


QUEUE = {"kueue.x-k8s.io/queue-name": "lockstep"}

BROKEN = {
    "pods_are_not_root": [
        lambda c: pod_of(c.coordinator)["securityContext"].pop("runAsNonRoot"),
        lambda c: pod_of(c.workers)["securityContext"].update(runAsUser=0),
        lambda c: pod_of(c.coordinator)["securityContext"].pop("fsGroup"),
    ],
    "pods_have_a_seccomp_profile": [
        lambda c: pod_of(c.coordinator)["securityContext"].pop("seccompProfile"),
        lambda c: pod_of(c.workers)["securityContext"].update(seccompProfile={"type": "Unconfined"}),
    ],
    "containers_have_no_privileges": [
        lambda c: context_of(c.coordinator).pop("allowPrivilegeEscalation"),
        lambda c: context_of(c.workers).update(readOnlyRootFilesystem=False),
        lambda c: context_of(c.workers)["capabilities"].update(add=["IPC_LOCK"]),
        lambda c: context_of(c.coordinator).update(capabilities={"drop": ["NET_RAW"]}),
        lambda c: context_of(c.workers).update(privileged=True),
        lambda c: pod_of(c.workers).update(initContainers=[{"name": "fix-permissions"}]),
    ],
    "pods_do_not_reach_the_node": [
        lambda c: pod_of(c.workers).update(hostNetwork=True),
        lambda c: pod_of(c.workers).update(hostIPC=True),
        lambda c: pod_of(c.workers)["volumes"].append({"name": "data", "hostPath": {"path": "/data"}}),
        lambda c: container_of(c.coordinator)["ports"][0].update(hostPort=7070),
    ],
    "pods_have_no_rights_in_the_cluster": [
        lambda c: pod_of(c.workers).pop("automountServiceAccountToken"),
        lambda c: c.get("ServiceAccount", "lockstep-coordinator").pop("automountServiceAccountToken"),
        lambda c: pod_of(c.coordinator).pop("serviceAccountName"),
        lambda c: pod_of(c.workers).update(serviceAccountName="lockstep-coordinator"),
        lambda c: pod_of(c.workers).pop("enableServiceLinks"),
        lambda c: copy_of(c, "ClusterRole", "lockstep"),
    ],
    "everything_is_in_a_restricted_namespace": [
        lambda c: c.all("Namespace")[0]["metadata"].pop("labels"),
        lambda c: c.workers["metadata"].pop("namespace"),
        lambda c: c.objects.remove(c.all("Namespace")[0]),
    ],
    "pods_have_resources": [
        lambda c: container_of(c.workers).pop("resources"),
        lambda c: container_of(c.coordinator)["resources"]["limits"].pop("memory"),
        lambda c: container_of(c.coordinator)["resources"]["requests"].pop("cpu"),
        lambda c: container_of(c.workers)["resources"]["requests"].update(memory="1Ti"),
    ],
    "mounts_have_volumes": [
        lambda c: pod_of(c.coordinator)["volumes"].pop(),
        lambda c: container_of(c.workers)["volumeMounts"].pop(),
    ],
    "what_is_mounted_exists": [
        lambda c: remove(c, "ConfigMap", "worker"),
    ],
    "secrets_are_readable_by_the_daemon_only": [
        lambda c: secret_volume(c.coordinator, "tls").pop("defaultMode"),
        lambda c: secret_volume(c.workers, "token").update(defaultMode=0o444),
        lambda c: container_of(c.coordinator)["volumeMounts"][1].pop("readOnly"),
        lambda c: container_of(c.workers)["env"].append(
            {"name": "LOCKSTEP_TOKEN", "valueFrom": {"secretKeyRef": {"name": "lockstep-worker-token"}}}),
    ],
    "nothing_but_probes_is_in_plaintext": [
        lambda c: replace_flag(c.coordinator, "--tls", "--insecure"),
        lambda c: replace_flag(c.workers, "--tls"),
    ],
    "files_of_secrets_are_mounted": [
        lambda c: replace_flag(c.coordinator, "--token_file"),
        lambda c: replace_flag(c.workers, "--token-file", "--token-file=/tmp/token"),
        lambda c: container_of(c.coordinator)["volumeMounts"].pop(),
    ],
    "certificates_are_those_that_are_mounted": [
        lambda c: certificate(c, "lockstep-worker").update(secretName="worker-tls"),
        lambda c: certificate(c, "lockstep-worker")["usages"].append("server auth"),
        lambda c: certificate(c, "lockstep-coordinator").update(dnsNames=["localhost"]),
        lambda c: certificate(c, "lockstep-worker").update(subject={"organizationalUnits": ["operator"]}),
        lambda c: certificate(c, "lockstep-operator").pop("subject"),
        lambda c: certificate(c, "lockstep-operator").update(isCA=True),
    ],
    "one_coordinator_has_the_journal": [
        lambda c: c.coordinator["spec"].update(replicas=2),
        lambda c: c.coordinator["spec"].pop("podManagementPolicy"),
        lambda c: c.coordinator["spec"].pop("volumeClaimTemplates"),
        lambda c: replace_flag(c.coordinator, "--journal"),
        lambda c: replace_flag(c.coordinator, "--journal", "--journal=/var/lib/lockstep"),
    ],
    "the_journal_stays_private": [
        lambda c: pod_of(c.coordinator)["securityContext"].pop("fsGroupChangePolicy"),
    ],
    "the_coordinator_is_probed": [
        lambda c: container_of(c.coordinator).pop("startupProbe"),
        lambda c: container_of(c.coordinator)["livenessProbe"]["grpc"].update(port=7070),
        lambda c: container_of(c.coordinator).update(readinessProbe={"tcpSocket": {"port": 7071}}),
        lambda c: container_of(c.coordinator)["startupProbe"].update(failureThreshold=5),
    ],
    "ports_agree": [
        lambda c: replace_flag(c.coordinator, "--listen", "--listen=0.0.0.0:7000"),
        lambda c: c.of("Service", "coordinator")["spec"]["ports"].append(
            {"name": "health", "port": 7071, "targetPort": "health"}),
        lambda c: replace_flag(c.workers, "--address", "--address=coordinator:7070"),
        lambda c: replace_flag(c.coordinator, "--metrics_address", "--metrics_address=0.0.0.0:7073"),
        lambda c: container_of(c.coordinator)["ports"].pop(),
        lambda c: c.of("Service", "coordinator")["spec"]["ports"].append(
            {"name": "metrics", "port": 7072, "targetPort": "metrics"}),
    ],
    "what_clients_send_fits_into_memory": [
        lambda c: replace_flag(c.coordinator, "--incoming_bytes_max"),
        lambda c: container_of(c.coordinator)["resources"]["limits"].update(memory="256Mi"),
    ],
    "services_select_their_pods": [
        lambda c: c.of("Service", "coordinator")["spec"]["selector"].update(tier="control"),
        lambda c: c.of("Service", "worker")["spec"].pop("selector"),
        lambda c: remove(c, "Service", "worker"),
        lambda c: c.coordinator["spec"].update(serviceName="lockstep"),
    ],
    "each_pod_is_a_node_of_the_launch": [
        lambda c: c.workers["spec"].pop("completionMode"),
        lambda c: c.workers["spec"].update(parallelism=1),
        lambda c: set_variable(c, "NODE_RANK", "0"),
        lambda c: set_variable(c, "POD_ADDRESS", "127.0.0.1"),
        lambda c: replace_flag(c.workers, "--node-rank"),
        lambda c: container_of(c.workers).update(command=["digits"]),
    ],
    "each_pod_is_replaced_by_itself": [
        lambda c: pod_of(c.workers).update(restartPolicy="OnFailure"),
        lambda c: c.workers["spec"].update(backoffLimit=6),
        lambda c: c.workers["spec"].pop("backoffLimitPerIndex"),
        lambda c: c.workers["spec"].pop("maxFailedIndexes"),
        lambda c: c.workers["spec"].update(podReplacementPolicy="Failed"),
        lambda c: c.workers["spec"].update(ttlSecondsAfterFinished=60),
        lambda c: replace_flag(c.workers, "--restarts", "--restarts=0"),
        lambda c: pod_of(c.workers)["tolerations"].pop(0),
    ],
    "the_spec_is_that_of_the_pods": [
        lambda c: change_spec(c, mesh="data=8,pipe=2"),
        lambda c: set_variable(c, "WORKERS_PER_POD", "4"),
        lambda c: change_spec(c, data_plane="local"),
        lambda c: change_spec(c, limits={}),
        lambda c: change_spec(c, timeouts={"join": "1m"}),
        lambda c: change_spec(c, name="other"),
    ],
    "a_running_job_keeps_its_spec": [
        lambda c: c.of("ConfigMap", "worker").pop("immutable"),
        lambda c: replace_flag(c.workers, "--spec"),
        lambda c: container_of(c.workers)["volumeMounts"][0].pop("readOnly"),
    ],
    "pods_have_names": [
        lambda c: c.of("Service", "worker")["spec"].pop("clusterIP"),
        lambda c: c.of("Service", "worker")["spec"].pop("publishNotReadyAddresses"),
        lambda c: pod_of(c.workers).pop("subdomain"),
    ],
    "gpus_are_one_for_each_worker": [
        lambda c: container_of(c.workers)["resources"]["limits"].update({policy.GPU: 4}),
        lambda c: container_of(c.workers)["resources"]["limits"].pop(policy.GPU),
        lambda c: change_spec(c, transport="gloo"),
        lambda c: replace_flag(c.workers, "--device"),
        lambda c: pod_of(c.workers)["tolerations"].pop(),
        lambda c: policy.named(pod_of(c.workers)["volumes"], "shm").update(emptyDir={}),
        lambda c: policy.named(pod_of(c.workers)["volumes"], "shm")["emptyDir"].update(sizeLimit="63Gi"),
        lambda c: policy.named(container_of(c.workers)["volumeMounts"], "shm").update(mountPath="/tmp"),
    ],
    "connections_are_limited": [
        lambda c: remove(c, "NetworkPolicy", "worker"),
        lambda c: remove(c, "NetworkPolicy", "coordinator"),
        lambda c: c.of("NetworkPolicy", "coordinator")["spec"]["podSelector"]["matchLabels"].update(tier="control"),
        lambda c: c.of("NetworkPolicy", "coordinator")["spec"].update(policyTypes=["Ingress"]),
        lambda c: c.of("NetworkPolicy", "coordinator")["spec"].update(egress=[{}]),
        lambda c: c.of("NetworkPolicy", "coordinator")["spec"]["ingress"][0]["ports"].append({"port": 7071}),
        lambda c: c.of("NetworkPolicy", "coordinator")["spec"]["ingress"][0]["ports"].append({"port": 7072}),
        lambda c: c.of("NetworkPolicy", "coordinator")["spec"]["ingress"][1]["ports"].append({"port": 7070}),
        lambda c: c.of("NetworkPolicy", "coordinator")["spec"]["ingress"][0].pop("ports"),
        lambda c: c.of("NetworkPolicy", "coordinator")["spec"]["ingress"].append({"ports": [{"port": 7071}]}),
        lambda c: c.of("NetworkPolicy", "coordinator")["spec"]["ingress"][0]["from"].pop(),
        lambda c: admit(c, "coordinator", {"ipBlock": {"cidr": "0.0.0.0/0"}}),
        lambda c: c.of("NetworkPolicy", "coordinator")["spec"]["ingress"][0]["from"][0].update(
            namespaceSelector={}),
        lambda c: admit(c, "worker", {"podSelector": {}}),
        lambda c: c.of("NetworkPolicy", "worker")["spec"].update(policyTypes=["Egress"]),
    ],
    "metrics_are_for_prometheus_alone": [
        lambda c: replace_flag(c.coordinator, "--metrics_address"),
        lambda c: c.objects.remove(c.all("PodMonitor")[0]),
        lambda c: c.objects.remove(c.all("PrometheusRule")[0]),
        lambda c: c.all("PodMonitor")[0]["spec"]["selector"]["matchLabels"].update(tier="control"),
        lambda c: c.all("PodMonitor")[0]["spec"]["podMetricsEndpoints"][0].update(port="grpc"),
        lambda c: c.of("NetworkPolicy", "coordinator")["spec"]["ingress"][1].pop("from"),
        lambda c: c.of("NetworkPolicy", "coordinator")["spec"]["ingress"][1]["from"][0].pop("podSelector"),
        lambda c: c.of("NetworkPolicy", "coordinator")["spec"]["ingress"][1]["from"].append({"podSelector": {}}),
        lambda c: c.of("NetworkPolicy", "coordinator")["spec"]["ingress"].pop(),
    ],
    "evictions_are_limited": [
        lambda c: remove(c, "PodDisruptionBudget", "coordinator"),
        lambda c: remove(c, "PodDisruptionBudget", "worker"),
        lambda c: c.of("PodDisruptionBudget", "coordinator")["spec"].update(maxUnavailable=0),
        lambda c: c.of("PodDisruptionBudget", "worker")["spec"].update(minAvailable=4),
        lambda c: c.of("PodDisruptionBudget", "worker")["spec"].pop("unhealthyPodEvictionPolicy"),
        lambda c: c.of("PodDisruptionBudget", "worker")["spec"].pop("selector"),
    ],
    "pods_get_time_to_end": [
        lambda c: pod_of(c.coordinator).update(terminationGracePeriodSeconds=1),
        lambda c: pod_of(c.workers).update(terminationGracePeriodSeconds=20),
        lambda c: replace_flag(c.workers, "--grace", "--grace=30"),
    ],
}

# With three coordinators.
BROKEN_HA = {
    "pods_get_time_to_end": [
        lambda c: pod_of(c.workers).update(terminationGracePeriodSeconds=30),
    ],
    "what_is_saved_is_shared_and_read_again": [
        lambda c: replace_flag(c.workers, "--state"),
        lambda c: replace_flag(c.workers, "--resume"),
        lambda c: replace_flag(c.workers, "--if-saved"),
        lambda c: replace_flag(c.workers, "--state", "--state=/tmp/digits"),
        lambda c: c.of("PersistentVolumeClaim", "worker")["spec"].update(accessModes=["ReadWriteOnce"]),
    ],
    "several_coordinators_share_a_journal": [
        lambda c: c.coordinator["spec"].update(replicas=1),
        lambda c: c.coordinator["spec"].update(volumeClaimTemplates=[{"metadata": {"name": "journal"}}]),
        lambda c: replace_flag(c.coordinator, "--journal", "--journal=etcd://etcd:2379/lockstep"),
        lambda c: container_of(c.coordinator).pop("env"),
        lambda c: c.of("Service", "coordinator")["spec"].pop("clusterIP"),
        lambda c: c.of("Service", "coordinator")["spec"].pop("publishNotReadyAddresses"),
        lambda c: pod_of(c.coordinator).pop("affinity"),
        lambda c: pod_of(c.coordinator).pop("topologySpreadConstraints"),
    ],
    "what_is_mounted_exists": [
        lambda c: c.get("ConfigMap", "lockstep-etcd")["data"].pop("members"),
        lambda c: remove(c, "PersistentVolumeClaim", "worker"),
    ],
    "files_of_secrets_are_mounted": [
        lambda c: replace_flag(c.coordinator, "--etcd_tls"),
    ],
    "secrets_are_readable_by_the_daemon_only": [
        lambda c: secret_volume(c.coordinator, "etcd-tls").pop("defaultMode"),
    ],
    "the_coordinator_is_probed": [
        lambda c: container_of(c.coordinator)["readinessProbe"]["grpc"].pop("service"),
        lambda c: container_of(c.coordinator)["livenessProbe"]["grpc"].pop("service"),
    ],
    "connections_are_limited": [
        lambda c: c.of("NetworkPolicy", "coordinator")["spec"].update(egress=[]),
        lambda c: c.of("NetworkPolicy", "coordinator")["spec"]["egress"][0].pop("to"),
        lambda c: c.of("NetworkPolicy", "coordinator")["spec"]["egress"][1].pop("ports"),
    ],
    "evictions_are_limited": [
        lambda c: c.of("PodDisruptionBudget", "coordinator")["spec"].update(maxUnavailable=2),
    ],
}

# With a JobSet, in a queue.
BROKEN_JOBSET = {
    "a_jobset_is_one_job_that_is_never_restarted": [
        lambda c: c.objects.append(golden("production").workers),
        lambda c: c.jobset["spec"]["replicatedJobs"][0].update(replicas=2),
        lambda c: c.jobset["spec"]["replicatedJobs"].append(c.jobset["spec"]["replicatedJobs"][0]),
        lambda c: c.jobset["spec"]["failurePolicy"].update(maxRestarts=3),
        lambda c: c.jobset["spec"]["failurePolicy"].update(restartStrategy="InPlaceRestart"),
        lambda c: c.jobset["spec"].pop("failurePolicy"),
        lambda c: c.jobset["spec"].pop("network"),
        lambda c: c.jobset["spec"].update(ttlSecondsAfterFinished=60),
    ],
    "a_queue_admits_all_pods_or_none": [
        lambda c: c.jobset["spec"]["replicatedJobs"][0]["template"]["metadata"]["labels"].update(QUEUE),
        lambda c: c.jobset["spec"].update(suspend=True),
    ],
}

# In a queue.
BROKEN_KUEUE = {
    "a_queue_admits_all_pods_or_none": [
        lambda c: c.coordinator["metadata"]["labels"].update(QUEUE),
        lambda c: policy.labels_of(c.workers).update(QUEUE),
        lambda c: c.workers["metadata"]["labels"].update({"kueue.x-k8s.io/queue-name": "default"}),
        lambda c: c.workers["metadata"].update(annotations={"kueue.x-k8s.io/job-min-parallelism": "1"}),
        lambda c: c.workers["metadata"].update(annotations={"kueue.x-k8s.io/elastic-job": "true"}),
        lambda c: c.workers["spec"].update(suspend=True),
        lambda c: replace_flag(c.workers, "--save-on-term"),
    ],
}


if __name__ == "__main__":
    unittest.main()
