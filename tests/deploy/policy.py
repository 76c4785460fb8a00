"""The rules that the rendered overlays keep.

Each rule is a function of a Cluster that yields a sentence for each violation. RULES has all by
name. policy_test.py shows that the overlays keep them, and that each rule notices when it is
broken.
"""

from collections.abc import Callable

import yaml

from deployment import (Cluster, bytes_of, container_of, environment_of, flags_of,
                        launcher_and_program, pod_of, port_of)

RULES: dict[str, Callable] = {}

USER = 65532
GPU = "nvidia.com/gpu"


def rule(function):
    RULES[function.__name__] = function
    return function


def violations(cluster: Cluster):
    return [f"{name}: {said}" for name, check in RULES.items() for said in check(cluster)]


def name_of(found):
    return f"{found['kind']} {found['metadata']['name']}"


def labels_of(workload):
    return workload["spec"]["template"]["metadata"]["labels"]


def selects(selector, labels):
    return bool(selector) and selector.items() <= labels.items()


def journal_of(cluster):
    return flags_of(container_of(cluster.coordinator)["args"]).get("--journal") or "memory"


def is_in_etcd(cluster):
    return journal_of(cluster).startswith("etcd://")


def named(entries, name):
    """The entry of that name; {} if there is none."""
    return next((entry for entry in entries if entry["name"] == name), {})


# --- Pods -----------------------------------------------------------------------------------


@rule
def pods_are_not_root(cluster):
    for workload in cluster.workloads:
        context = pod_of(workload).get("securityContext", {})
        if context.get("runAsNonRoot") is not True:
            yield f"{name_of(workload)} may run as root"
        if (context.get("runAsUser"), context.get("runAsGroup"), context.get("fsGroup")) != (USER, USER, USER):
            yield f"{name_of(workload)} does not run as {USER}"


@rule
def pods_have_a_seccomp_profile(cluster):
    for workload in cluster.workloads:
        context = pod_of(workload).get("securityContext", {})
        if context.get("seccompProfile") != {"type": "RuntimeDefault"}:
            yield f"{name_of(workload)} has no seccomp profile"


@rule
def containers_have_no_privileges(cluster):
    for workload in cluster.workloads:
        pod = pod_of(workload)
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            context = container.get("securityContext", {})
            if context.get("allowPrivilegeEscalation") is not False:
                yield f"{name_of(workload)} may gain privileges"
            if context.get("capabilities") != {"drop": ["ALL"]}:
                yield f"{name_of(workload)} keeps capabilities"
            if context.get("readOnlyRootFilesystem") is not True:
                yield f"{name_of(workload)} may write to its image"
            if context.get("privileged"):
                yield f"{name_of(workload)} is privileged"


@rule
def pods_do_not_reach_the_node(cluster):
    for workload in cluster.workloads:
        pod = pod_of(workload)
        for word in ("hostNetwork", "hostPID", "hostIPC"):
            if pod.get(word):
                yield f"{name_of(workload)} has {word}"
        for volume in pod.get("volumes", []):
            if "hostPath" in volume:
                yield f"{name_of(workload)} mounts a path of the node"
        for port in container_of(workload).get("ports", []):
            if "hostPort" in port:
                yield f"{name_of(workload)} has a port of the node"


@rule
def pods_have_no_rights_in_the_cluster(cluster):
    for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"):
        for found in cluster.all(kind):
            yield f"{name_of(found)} gives rights that nothing needs"
    for workload in cluster.workloads:
        pod = pod_of(workload)
        account = cluster.get("ServiceAccount", pod.get("serviceAccountName"))
        if account is None:
            yield f"{name_of(workload)} has no account of its own"
        elif account.get("automountServiceAccountToken") is not False:
            yield f"{name_of(account)} gets a token"
        if pod.get("automountServiceAccountToken") is not False:
            yield f"{name_of(workload)} gets a token"
        # Variables such as LOCKSTEP_COORDINATOR_PORT.
        if pod.get("enableServiceLinks") is not False:
            yield f"{name_of(workload)} gets variables for each Service"
    accounts = [pod_of(workload).get("serviceAccountName") for workload in cluster.workloads]
    if len(set(accounts)) != len(accounts):
        yield "coordinator and workers share an account"


@rule
def everything_is_in_a_restricted_namespace(cluster):
    spaces = cluster.all("Namespace")
    if len(spaces) != 1:
        yield f"there are {len(spaces)} namespaces"
        return
    if spaces[0]["metadata"].get("labels", {}).get("pod-security.kubernetes.io/enforce") != "restricted":
        yield "the namespace admits pods that are not restricted"
    for found in cluster.objects:
        if found["kind"] != "Namespace" and found["metadata"].get("namespace") != spaces[0]["metadata"]["name"]:
            yield f"{name_of(found)} is in another namespace"


@rule
def pods_have_resources(cluster):
    for workload in cluster.workloads:
        resources = container_of(workload).get("resources", {})
        requests, limits = resources.get("requests", {}), resources.get("limits", {})
        if "cpu" not in requests or "memory" not in requests:
            yield f"{name_of(workload)} requests no cpu or memory"
        if "memory" not in limits:
            yield f"{name_of(workload)} has no limit of memory"
        elif bytes_of(limits["memory"]) < bytes_of(requests.get("memory", "0Ki")):
            yield f"{name_of(workload)} requests more memory than its limit"


@rule
def mounts_have_volumes(cluster):
    for workload in cluster.workloads:
        volumes = {volume["name"] for volume in pod_of(workload).get("volumes", [])}
        volumes |= {claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", [])}
        mounts = {mount["name"] for mount in container_of(workload).get("volumeMounts", [])}
        if mounts != volumes:
            yield f"{name_of(workload)} mounts {sorted(mounts)} of {sorted(volumes)}"


@rule
def what_is_mounted_exists(cluster):
    for workload in cluster.workloads:
        for volume in pod_of(workload).get("volumes", []):
            if "configMap" in volume and cluster.get("ConfigMap", volume["configMap"]["name"]) is None:
                yield f"{name_of(workload)} mounts ConfigMap {volume['configMap']['name']}, which is not there"
            claim = volume.get("persistentVolumeClaim", {}).get("claimName")
            if claim and cluster.get("PersistentVolumeClaim", claim) is None:
                yield f"{name_of(workload)} mounts the claim {claim}, which is not there"
        for entry in container_of(workload).get("env", []):
            config = entry.get("valueFrom", {}).get("configMapKeyRef")
            if config and config["key"] not in (cluster.get("ConfigMap", config["name"]) or {}).get("data", {}):
                yield f"{name_of(workload)}: {entry['name']} is of no ConfigMap"


# --- Secrets and TLS ------------------------------------------------------------------------


@rule
def secrets_are_readable_by_the_daemon_only(cluster):
    """As base/secret_file.h wants: root's, with at most mode 0640."""
    for workload in cluster.workloads:
        mounts = container_of(workload).get("volumeMounts", [])
        for volume in pod_of(workload).get("volumes", []):
            if "secret" not in volume:
                continue
            if volume["secret"].get("defaultMode") != 0o440:
                yield f"{name_of(workload)}: others can read {volume['name']}"
            if named(mounts, volume["name"]).get("readOnly") is not True:
                yield f"{name_of(workload)} may write to {volume['name']}"
        for entry in container_of(workload).get("env", []):
            if "secretKeyRef" in entry.get("valueFrom", {}):
                yield f"{name_of(workload)}: a secret is in the environment"


@rule
def nothing_but_probes_is_in_plaintext(cluster):
    flags = flags_of(container_of(cluster.coordinator)["args"])
    if "--insecure" in flags:
        yield "the coordinator serves in plaintext"
    for workload in cluster.workloads:
        if flags_of(container_of(workload)["args"]).get("--tls") != "/etc/lockstep/tls":
            yield f"{name_of(workload)} has no certificates"


@rule
def files_of_secrets_are_mounted(cluster):
    files = {"StatefulSet": ("--tls", "--token_file", "--worker_token_file"), "Job": ("--tls", "--token-file")}
    for workload in cluster.workloads:
        flags = flags_of(container_of(workload)["args"])
        volumes = pod_of(workload).get("volumes", [])
        mounted = {mount["mountPath"] for mount in container_of(workload).get("volumeMounts", [])
                   if "secret" in named(volumes, mount["name"])}
        is_client = workload is cluster.coordinator and is_in_etcd(cluster)
        for flag in (*files[workload["kind"]], *(["--etcd_tls"] if is_client else [])):
            path = flags.get(flag) or ""
            if path not in mounted and path.rpartition("/")[0] not in mounted:
                yield f"{name_of(workload)}: {flag} is not in a secret"


@rule
def certificates_are_those_that_are_mounted(cluster):
    """With cert-manager."""
    made = {one["spec"]["secretName"]: one["spec"] for one in cluster.all("Certificate")}
    if not made:
        return
    service = cluster.of("Service", "coordinator")["metadata"]["name"]
    wanted = {}
    for workload, usage in zip(cluster.workloads, ("server auth", "client auth")):
        wanted[named(pod_of(workload)["volumes"], "tls")["secret"]["secretName"]] = usage
    wanted["lockstep-operator-tls"] = "client auth"
    for secret, usage in wanted.items():
        if secret not in made:
            yield f"no Certificate makes {secret}"
        elif made[secret].get("usages") != ["digital signature", usage]:
            yield f"the certificate in {secret} is not for {usage} alone"
        elif usage == "server auth" and service not in made[secret].get("dnsNames", []):
            yield f"the certificate in {secret} is not for {service}"
    for secret, spec in made.items():
        units = spec.get("subject", {}).get("organizationalUnits", [])
        if ("operator" in units) != (secret == "lockstep-operator-tls"):
            yield f"the certificate in {secret} is an operator's, or the operators' is none"
        if spec.get("isCA", False) != (secret not in wanted):
            yield f"the certificate in {secret} is an authority, or no one uses it"


# --- The coordinator ------------------------------------------------------------------------


@rule
def one_coordinator_has_the_journal(cluster):
    spec = cluster.coordinator["spec"]
    if spec.get("podManagementPolicy") != "Parallel":
        yield "a pod that is never ready blocks its successor"
    if is_in_etcd(cluster):
        return
    if spec.get("replicas") != 1:
        yield f"{spec.get('replicas')} coordinators would use one journal each"
    journal = journal_of(cluster)
    mount = named(container_of(cluster.coordinator)["volumeMounts"], "journal")
    claims = {claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", [])}
    # Below the mount, whose mode is the volume's: the daemon wants a folder of its own.
    if "journal" not in claims or journal.rpartition("/")[0] != mount.get("mountPath"):
        yield f"the journal {journal} is not on the volume"


@rule
def several_coordinators_share_a_journal(cluster):
    """In etcd: one leads, and the others refuse connections."""
    if not is_in_etcd(cluster):
        return
    spec, pod = cluster.coordinator["spec"], pod_of(cluster.coordinator)
    if spec.get("replicas") not in (2, 3):
        yield f"{spec.get('replicas')} coordinators: one leads, and one or two wait"
    if spec.get("volumeClaimTemplates"):
        yield "a pod waits for a volume that nothing uses"
    members = journal_of(cluster).removeprefix("etcd://").partition("/")[0]
    if members != "$(ETCD_MEMBERS)" or "ETCD_MEMBERS" not in environment_of(container_of(cluster.coordinator)):
        yield f"the members of etcd, {members}, are not those of the ConfigMap"
    service = cluster.of("Service", "coordinator")["spec"]
    if service.get("clusterIP") != "None" or service.get("publishNotReadyAddresses") is not True:
        yield "clients would be sent to a coordinator that waits, and to no other one"
    hosts = pod.get("affinity", {}).get("podAntiAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", [])
    if not any(term["topologyKey"] == "kubernetes.io/hostname"
               and selects(term["labelSelector"]["matchLabels"], labels_of(cluster.coordinator)) for term in hosts):
        yield "two coordinators may be on one node"
    if "topology.kubernetes.io/zone" not in {one["topologyKey"] for one in pod.get("topologySpreadConstraints", [])}:
        yield "all coordinators may be in one zone"


@rule
def the_journal_stays_private(cluster):
    """A start with fsGroup gives the group access to all files, unless the root has it already."""
    if pod_of(cluster.coordinator)["securityContext"].get("fsGroupChangePolicy") != "OnRootMismatch":
        yield "the daemon would refuse its journal, because its group may write to it"


@rule
def the_coordinator_is_probed(cluster):
    container = container_of(cluster.coordinator)
    health = port_of(flags_of(container["args"]).get("--health_address") or ":0")
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        if container.get(probe, {}).get("grpc", {}).get("port") != health:
            yield f"{probe} does not ask port {health}"
        # If the one that leads alone were ready, a rollout would wait for the others for ever, and
        # the budget would forbid to evict it.
        if is_in_etcd(cluster) and container.get(probe, {}).get("grpc", {}).get("service") != "alive":
            yield f"{probe} fails while a coordinator waits"
    startup = container.get("startupProbe", {})
    if startup.get("periodSeconds", 10) * startup.get("failureThreshold", 3) < 30:
        yield "it gets less than 30 s to read its journal"


@rule
def ports_agree(cluster):
    container = container_of(cluster.coordinator)
    flags = flags_of(container["args"])
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    wanted = {"grpc": port_of(flags["--listen"]), "health": port_of(flags["--health_address"])}
    if "--metrics_address" in flags:
        wanted["metrics"] = port_of(flags["--metrics_address"])
    if ports != wanted:
        yield f"the ports {ports} are not those of its flags"
    service = cluster.of("Service", "coordinator")
    if [port["targetPort"] for port in service["spec"]["ports"]] != ["grpc"]:
        yield "the Service serves more than grpc, or less"
    address = f"{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
    if flags_of(container_of(cluster.workers)["args"]).get("--address") != address:
        yield f"workers do not connect to {address}"


@rule
def what_clients_send_fits_into_memory(cluster):
    container = container_of(cluster.coordinator)
    flags = flags_of(container["args"])
    held = sum(bytes_of(flags.get(flag) or default) for flag, default in
               (("--incoming_bytes_max", "1024MiB"), ("--client_bytes_max", "256MiB")))
    if held > bytes_of(container["resources"].get("limits", {}).get("memory", "0Ki")) * 3 // 4:
        yield f"clients can make it hold {held} bytes"


@rule
def services_select_their_pods(cluster):
    for component, workload in zip(("coordinator", "worker"), cluster.workloads):
        service = cluster.of("Service", component)
        if service is None:
            yield f"there is no Service of the {component}"
        elif not selects(service["spec"].get("selector"), labels_of(workload)):
            yield f"{name_of(service)} selects nothing"
    if cluster.coordinator["spec"].get("serviceName") != cluster.of("Service", "coordinator")["metadata"]["name"]:
        yield "the StatefulSet names another Service"


# --- Workers --------------------------------------------------------------------------------


def nodes_and_workers(cluster):
    environment = environment_of(container_of(cluster.workers))
    return int(environment["NODES"]), int(environment["WORKERS_PER_POD"])


@rule
def each_pod_is_a_node_of_the_launch(cluster):
    spec = cluster.workers["spec"]
    nodes, _ = nodes_and_workers(cluster)
    if spec.get("completionMode") != "Indexed":
        yield "pods have no index"
    if (spec.get("completions"), spec.get("parallelism")) != (nodes, nodes):
        yield f"{nodes} pods do not run at once"
    environment = environment_of(container_of(cluster.workers))
    if environment.get("NODE_RANK") != "metadata.annotations['batch.kubernetes.io/job-completion-index']":
        yield "the rank of the node is not the index of the pod"
    if environment.get("POD_ADDRESS") != "status.podIP":
        yield "the address of the node is not the pod's"
    launcher, _ = launcher_and_program(container_of(cluster.workers)["args"])
    flags = flags_of(launcher)
    wanted = {"--workers": "$(WORKERS_PER_POD)", "--nodes": "$(NODES)", "--node-rank": "$(NODE_RANK)",
              "--host-address": "$(POD_ADDRESS)"}
    if container_of(cluster.workers).get("command") != ["lockstepctl"] or "run" not in launcher:
        yield "no launcher starts the workers"
    for flag, value in wanted.items():
        if flags.get(flag) != value:
            yield f"{flag} is {flags.get(flag)}"


@rule
def each_pod_is_replaced_by_itself(cluster):
    spec = cluster.workers["spec"]
    if pod_of(cluster.workers).get("restartPolicy") != "Never":
        yield "restarts count for no index"
    if spec.get("backoffLimitPerIndex", 0) < 1 or "backoffLimit" in spec:
        yield "the failures of one pod count for all"
    if spec.get("maxFailedIndexes") != 0:
        yield "the others wait for a pod that is given up"
    if spec.get("podReplacementPolicy") != "TerminatingOrFailed" or "podFailurePolicy" in spec:
        yield "a pod on a lost node is not replaced"
    if "ttlSecondsAfterFinished" in spec:
        yield "a Job that is over is removed, and made again by whoever keeps the manifests applied"
    if not int(flags_of(container_of(cluster.workers)["args"]).get("--restarts") or 0):
        yield "a failed worker costs its pod"
    seconds = {toleration["key"]: toleration.get("tolerationSeconds")
               for toleration in pod_of(cluster.workers).get("tolerations", [])}
    for key in ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"):
        if (seconds.get(key) or 300) > 60:
            yield f"a node is waited for too long: {key}"


@rule
def the_spec_is_that_of_the_pods(cluster):
    spec = yaml.safe_load(cluster.spec_text)
    nodes, workers = nodes_and_workers(cluster)
    ranks = 1
    for axis in spec["mesh"].split(","):
        ranks *= int(axis.partition("=")[2])
    if ranks != nodes * workers:
        yield f"the mesh has {ranks} ranks, the pods have {nodes} x {workers} workers"
    if spec.get("data_plane") != "trusted":
        yield "workers of several pods are refused"
    if not spec.get("limits", {}).get("max_restarts"):
        yield "the loss of a worker ends the job"
    if not spec.get("timeouts", {}).get("join", "5m").endswith("m") or int(spec["timeouts"]["join"][:-1]) < 10:
        yield "the job does not wait for a pod that is replaced"
    if spec["name"] != labels_of(cluster.workers).get("app.kubernetes.io/instance"):
        yield "the job has another name than its pods' instance"


@rule
def a_running_job_keeps_its_spec(cluster):
    spec = cluster.of("ConfigMap", "worker")
    if spec.get("immutable") is not True:
        yield "the spec may change under a running job"
    launcher, _ = launcher_and_program(container_of(cluster.workers)["args"])
    path = flags_of(launcher).get("--spec") or ""
    mount = named(container_of(cluster.workers)["volumeMounts"], "spec")
    if path != f"{mount.get('mountPath')}/job.yaml" or mount.get("readOnly") is not True:
        yield f"{path} is not the mounted spec"


@rule
def pods_have_names(cluster):
    service = cluster.of("Service", "worker")["spec"]
    if service.get("clusterIP") != "None" or service.get("publishNotReadyAddresses") is not True:
        yield "the Service of the workers is not headless"
    if pod_of(cluster.workers).get("subdomain") != cluster.of("Service", "worker")["metadata"]["name"]:
        yield "the pods are in no subdomain"


@rule
def gpus_are_one_for_each_worker(cluster):
    container = container_of(cluster.workers)
    gpus = container["resources"].get("limits", {}).get(GPU, 0)
    transport = yaml.safe_load(cluster.spec_text).get("transport", "auto")
    if (gpus > 0) != (transport == "nccl") or (gpus > 0) != ("--device=cuda" in container["args"]):
        yield f"{gpus} GPUs with the transport {transport}"
    if gpus == 0:
        return
    if gpus != nodes_and_workers(cluster)[1]:
        yield f"{gpus} GPUs for {nodes_and_workers(cluster)[1]} workers"
    if GPU not in {toleration["key"] for toleration in pod_of(cluster.workers).get("tolerations", [])}:
        yield "the pods do not tolerate nodes with GPUs"
    mount = next((m for m in container["volumeMounts"] if m["mountPath"] == "/dev/shm"), {"name": ""})
    shm = named(pod_of(cluster.workers)["volumes"], mount["name"]).get("emptyDir", {})
    if shm.get("medium") != "Memory" or "sizeLimit" not in shm:
        yield "NCCL gets 64 MiB of shared memory"
    elif bytes_of(shm["sizeLimit"]) * 2 > bytes_of(container["resources"]["limits"]["memory"]):
        yield "the shared memory takes half of the pod's memory, or more"


# --- JobSet and Kueue -----------------------------------------------------------------------


@rule
def a_jobset_is_one_job_that_is_never_restarted(cluster):
    if cluster.jobset is None:
        return
    spec = cluster.jobset["spec"]
    if cluster.all("Job"):
        yield "a Job has the names of the JobSet's workers"
    if [one.get("replicas", 1) for one in spec["replicatedJobs"]] != [1]:
        yield "several Jobs have one name for several workers"
    if spec.get("failurePolicy") != {"maxRestarts": 0}:
        yield "a Job that has failed starts again, after ten replacements of one pod"
    if spec.get("network") != {"enableDNSHostnames": False}:
        yield "the JobSet makes names for the pods, which have some"
    if "ttlSecondsAfterFinished" in spec:
        yield "a JobSet that is over is removed, and made again by whoever keeps the manifests applied"


def words_of_kueue(metadata):
    return [word for field in ("labels", "annotations") for word in metadata.get(field, {})
            if "kueue.x-k8s.io/" in word]


@rule
def a_queue_admits_all_pods_or_none(cluster):
    gang = cluster.jobset or cluster.workers
    for found in cluster.objects:
        if found is not gang and words_of_kueue(found["metadata"]):
            yield f"{name_of(found)} waits in a queue"
    inside = [cluster.workers["spec"]["template"]["metadata"]]
    if cluster.jobset is not None:
        inside += [one["template"].get("metadata", {}) for one in gang["spec"]["replicatedJobs"]]
    if any(map(words_of_kueue, inside)):
        yield "a part of the job waits in a queue by itself"
    if set(words_of_kueue(gang["metadata"])) - {"kueue.x-k8s.io/queue-name"}:
        yield "Kueue may admit some pods without the others"
    queue = gang["metadata"]["labels"].get("kueue.x-k8s.io/queue-name")
    if queue and "--save-on-term" not in flags_of(container_of(cluster.workers)["args"]):
        yield "a job whose place in the queue is taken loses its state"
    if queue == "default":
        yield "the coordinator may wait in the queue, too: it is that of all workloads without a label"
    if "suspend" in gang["spec"] or "suspend" in cluster.workers["spec"]:
        yield "manifests that are applied again end the pods of a running job"


# --- Metrics --------------------------------------------------------------------------------


def is_for_metrics(way, flags):
    """Whether an entry of ingress is for that port alone."""
    port = port_of(flags.get("--metrics_address") or ":0")
    return [one.get("port") for one in way.get("ports", [])] == [port]


@rule
def metrics_are_for_prometheus_alone(cluster):
    flags = flags_of(container_of(cluster.coordinator)["args"])
    monitors = cluster.all("PodMonitor")
    if "--metrics_address" not in flags:
        if monitors or cluster.all("PrometheusRule"):
            yield "nothing serves what is monitored"
        return
    if len(monitors) != 1 or len(cluster.all("PrometheusRule")) != 1:
        yield "metrics are not scraped, or nobody is alerted"
        return
    spec = monitors[0]["spec"]
    if not selects(spec["selector"].get("matchLabels"), labels_of(cluster.coordinator)):
        yield "Prometheus looks at other pods"
    if [(one.get("port"), one.get("path")) for one in spec["podMetricsEndpoints"]] != [("metrics", "/metrics")]:
        yield "Prometheus looks at another port or path"
    ingress = (cluster.of("NetworkPolicy", "coordinator") or {"spec": {}})["spec"].get("ingress", [])
    peers = [way.get("from") for way in ingress if is_for_metrics(way, flags)]
    wanted = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}},
              "podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}}}
    if peers != [[wanted]]:
        yield f"the metrics are reached by {peers}"


# --- Both -----------------------------------------------------------------------------------


@rule
def connections_are_limited(cluster):
    policies = {component: (cluster.of("NetworkPolicy", component) or {"spec": {}})["spec"]
                for component in ("coordinator", "worker")}
    for component, workload in zip(policies, cluster.workloads):
        if not selects(policies[component].get("podSelector", {}).get("matchLabels"), labels_of(workload)):
            yield f"no NetworkPolicy selects the {component}"
            return
        if "Ingress" not in policies[component].get("policyTypes", []):
            yield f"everybody reaches the {component}"
    egress = policies["coordinator"].get("egress", [])
    reached = sorted(str(port.get("port")) for way in egress for port in way.get("ports", [{}]))
    wanted = ["2379", "53", "53"] if is_in_etcd(cluster) else []
    if "Egress" not in policies["coordinator"]["policyTypes"] or reached != wanted:
        yield f"the coordinator connects to others: {reached}"
    if not all(way.get("to") and all("podSelector" in peer for peer in way["to"]) for way in egress):
        yield "the coordinator connects to everybody at a port"
    flags = flags_of(container_of(cluster.coordinator)["args"])
    ways = [way for way in policies["coordinator"].get("ingress", []) if not is_for_metrics(way, flags)]
    ports = [port for way in ways for port in way.get("ports", [{}])]
    if [port.get("port") for port in ports] != [port_of(flags["--listen"])]:
        yield f"the coordinator is reached at {ports}, not at its grpc port alone"
    peers = [peer for way in ways for peer in way.get("from", [{}])]
    admitted = [peer.get("podSelector", {}).get("matchLabels", {}).get("app.kubernetes.io/component")
                for peer in peers]
    if sorted(map(str, admitted)) != ["operator", "worker"] or any(set(peer) != {"podSelector"} for peer in peers):
        yield f"the coordinator is reached by {admitted}"
    own = {"podSelector": {"matchLabels": labels_of(cluster.workers)}}
    if policies["worker"].get("ingress") != [{"from": [own]}]:
        yield "workers are reached by others than workers of their job"


@rule
def evictions_are_limited(cluster):
    budgets = {component: (cluster.of("PodDisruptionBudget", component) or {"spec": {}})["spec"]
               for component in ("coordinator", "worker")}
    for component, workload in zip(budgets, cluster.workloads):
        if not selects(budgets[component].get("selector", {}).get("matchLabels"), labels_of(workload)):
            yield f"no budget selects the {component}"
        if budgets[component].get("unhealthyPodEvictionPolicy") != "AlwaysAllow":
            yield f"a {component} that fails blocks the drain of its node"
    if budgets["coordinator"].get("maxUnavailable") != 1:
        yield "the only coordinator blocks the drain of its node"
    # Kubernetes counts the pods of a Job in absolute numbers only.
    if budgets["worker"].get("minAvailable") != nodes_and_workers(cluster)[0] - 1:
        yield "not one pod of the workers at a time is evicted"


@rule
def pods_get_time_to_end(cluster):
    coordinator = pod_of(cluster.coordinator).get("terminationGracePeriodSeconds", 0)
    # server/lockstepd.cc: kDrainPatience is 5 s.
    if coordinator < 15:
        yield f"the coordinator is killed after {coordinator} s"
    workers = pod_of(cluster.workers).get("terminationGracePeriodSeconds", 0)
    flags = flags_of(container_of(cluster.workers)["args"])
    grace = int(flags.get("--grace") or 10)
    saves = int(flags.get("--save-on-term") or 0)
    if workers < saves + grace + 5:
        yield f"the launcher is killed after {workers} s, saves for {saves} s and gives its workers {grace} s"


@rule
def what_is_saved_is_shared_and_read_again(cluster):
    launcher, program = launcher_and_program(container_of(cluster.workers)["args"])
    folder = flags_of(program).get("--state")
    if not folder:
        if flags_of(launcher).get("--save-on-term"):
            yield "SIGTERM waits for a checkpoint that the program does not write"
        return
    if not {"--resume", "--if-saved"} <= set(flags_of(program)):
        yield "a job that is applied again does not begin with its checkpoint"
    mounts = container_of(cluster.workers).get("volumeMounts", [])
    inside = [mount["name"] for mount in mounts if folder.startswith(mount["mountPath"] + "/")]
    claims = [volume["persistentVolumeClaim"]["claimName"] for volume in pod_of(cluster.workers)["volumes"]
              if volume["name"] in inside and "persistentVolumeClaim" in volume]
    if not any((cluster.get("PersistentVolumeClaim", claim) or {}).get("spec", {}).get("accessModes") ==
               ["ReadWriteMany"] for claim in claims):
        yield f"{folder} is on no volume that all pods share"


def one_pod_a_node(cluster):
    """Not a rule of overlay local, which has one node."""
    terms = pod_of(cluster.workers).get("affinity", {}).get("podAntiAffinity", {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution", [])
    if not any(term["topologyKey"] == "kubernetes.io/hostname"
               and selects(term["labelSelector"]["matchLabels"], labels_of(cluster.workers)) for term in terms):
        yield "two pods of the job may be on one node"
