#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/text/count.h"
#include "base/text/units.h"
#include "tools/doctor/checks.h"

namespace lockstep::doctor {
namespace {

// A worker of the example `minimal` has 31 MiB, 15 threads and 24 descriptors;
// gRPC takes more threads on machines with many cores.
constexpr uint64_t kWorkerBytes = uint64_t{64} << 20;
constexpr uint64_t kWorkerTasks = 64;
constexpr uint64_t kWorkerFiles = 32;
// Two for each rank: its connection, and its process or segment.
constexpr uint64_t kFilesOfRank = 2;

// NCCL makes segments of 9.2 MiB for each peer and channel that it does not
// reach from GPU to GPU. Docker's default of 64 MiB is for all of them.
constexpr uint64_t kNcclBytes = uint64_t{128} << 20;

// lockstepd's --connections_max, and what it needs besides.
constexpr uint64_t kFilesOfDaemon = 20'000 + 64;

std::string SizeOf(uint64_t bytes) {
  return bytes == kUnlimited ? "unlimited" : RoundedSizeText(bytes);
}

std::string NumberOf(uint64_t number) {
  return number == kUnlimited ? "unlimited" : absl::StrCat(number);
}

bool MayUseGpu(const Facts& facts) {
  return facts.assignment.uses_gpu.value_or(facts.gpu &&
                                            facts.gpu->devices > 0);
}

// Which limit is the least, and how it is raised.
struct Bound {
  std::string name;
  std::string fix;
};

Bound BoundOf(const transport::MemoryRoom& room, uint64_t need) {
  const std::string wanted = RoundedSizeText(need);
  if (room.file == room.Least()) {
    return {"by ulimit -f", "ulimit -f unlimited"};
  }
  if (room.group == room.Least()) {
    return {
        "in the control group of this process",
        absl::StrCat("raise the memory limit by what is missing of ", wanted,
                     ": in Kubernetes resources.limits.memory of the "
                     "container, with Docker --memory, with systemd "
                     "MemoryMax=")};
  }
  return {"on this machine", "start fewer workers here: lockstepctl run -n"};
}

}  // namespace

Findings CheckMemory(const Facts& facts) {
  if (!facts.machine) return {};
  const MachineFacts& machine = *facts.machine;
  const int workers = facts.assignment.workers;
  const uint64_t need =
      workers * (kWorkerBytes + facts.assignment.worker_bytes);
  const uint64_t room = machine.room.Least();
  const Bound bound = BoundOf(machine.room, need);
  const std::string left = absl::StrCat(SizeOf(room), " is left ", bound.name);
  if (room >= need && !machine.shared_memory.ok()) {
    return {{Severity::kError,
             absl::StrCat("a segment of shared memory cannot be made: ",
                          machine.shared_memory.message()),
             "workers of one host would send their gradients over TCP "
             "(transport: auto), or fail (transport: shm)",
             "allow memfd_create and mmap in the sandbox or the seccomp "
             "profile of the container"}};
  }
  if (room >= need) {
    return {
        {Severity::kOk, absl::StrCat(left, " for ", Count(workers, "worker"))}};
  }
  return {{Severity::kError,
           absl::StrCat("not enough shared memory: ", left, " of the ",
                        RoundedSizeText(need), " or more for ",
                        Count(workers, "worker")),
           "gradients are in shared memory, which counts as memory of the "
           "container: workers would get RESOURCE_EXHAUSTED, or be killed",
           bound.fix}};
}

Findings CheckShm(const Facts& facts) {
  if (!facts.machine) return {};
  const SharedFolder& shm = facts.machine->shm;
  if (!MayUseGpu(facts)) {
    return {{Severity::kOk,
             absl::StrCat(shm.exists ? absl::StrCat(SizeOf(shm.free_bytes),
                                                    " is free, and ")
                                     : "it does not exist, and ",
                          "only NCCL needs it: Lockstep's segments have no "
                          "files")}};
  }
  const uint64_t need = facts.assignment.workers * kNcclBytes;
  constexpr char kWhy[] =
      "NCCL keeps segments there for peers that it does not reach from GPU to "
      "GPU; without room it fails with \"unhandled system error\", or its "
      "process dies of SIGBUS";
  constexpr char kFix[] =
      "in Kubernetes mount an emptyDir with medium: Memory at /dev/shm "
      "(deploy/kubernetes/components/gpu does), with Docker --shm-size=1g, on "
      "a host: mount -o remount,size=";
  const std::string fix =
      absl::StrCat(kFix, std::max(need, uint64_t{1} << 30) >> 20, "M /dev/shm");
  if (!shm.exists) {
    return {{Severity::kError, "/dev/shm does not exist", kWhy, fix}};
  }
  if (!shm.writable) {
    return {{Severity::kError, "/dev/shm cannot be written", kWhy,
             "chmod 1777 /dev/shm, as root"}};
  }
  if (shm.free_bytes < need) {
    return {
        {Severity::kError,
         absl::StrCat("not enough shared memory: ", SizeOf(shm.free_bytes),
                      " is free in /dev/shm, of the ", RoundedSizeText(need),
                      " for ", Count(facts.assignment.workers, "worker"),
                      " with GPUs"),
         kWhy, fix}};
  }
  return {{Severity::kOk, absl::StrCat(SizeOf(shm.free_bytes), " is free")}};
}

Findings CheckOpenFiles(const Facts& facts) {
  if (!facts.machine) return {};
  const ResourceLimit& files = facts.machine->open_files;
  if (facts.assignment.serves && files.hard < kFilesOfDaemon) {
    return {{Severity::kWarning,
             absl::StrCat("at most ", files.hard,
                          " files (ulimit -Hn), and lockstepd accepts 20000 "
                          "connections by default (--connections_max)"),
             "connections beyond it are refused",
             "LimitNOFILE=32768 in the unit, or lockstepd --connections_max"}};
  }
  const int ranks = std::max(facts.assignment.ranks, facts.assignment.workers);
  const uint64_t need = kWorkerFiles + kFilesOfRank * ranks;
  if (!facts.assignment.serves && files.soft < need) {
    return {{Severity::kError,
             absl::StrCat("at most ", files.soft,
                          " open files (ulimit -n), of the ", need,
                          " for a worker among ", Count(ranks, "rank")),
             "workers would get RESOURCE_EXHAUSTED when they connect",
             files.hard >= need
                 ? absl::StrCat("ulimit -n ", NumberOf(files.hard))
                 : absl::StrCat("raise the hard limit: Docker --ulimit nofile=",
                                need, ", LimitNOFILE= of systemd")}};
  }
  return {{Severity::kOk, absl::StrCat("at most ", NumberOf(files.soft),
                                       ", hard ", NumberOf(files.hard))}};
}

Findings CheckTasks(const Facts& facts) {
  if (!facts.machine) return {};
  const uint64_t need = kWorkerTasks * facts.assignment.workers;
  const MachineFacts& machine = *facts.machine;
  constexpr char kWhy[] = "workers would abort when they start threads";
  if (machine.tasks_left < need) {
    return {{Severity::kError,
             absl::StrCat("the control group has room for ", machine.tasks_left,
                          " more threads, of the ", need, " for ",
                          Count(facts.assignment.workers, "worker")),
             kWhy,
             "raise pids.max: TasksMax= of systemd, Docker --pids-limit, "
             "podPidsLimit of the kubelet"}};
  }
  if (!machine.is_root && machine.processes.soft < need) {
    return {{Severity::kError,
             absl::StrCat("this user may have ", machine.processes.soft,
                          " processes and threads (ulimit -u), of the ", need,
                          " for ", Count(facts.assignment.workers, "worker")),
             kWhy,
             machine.processes.hard >= need
                 ? absl::StrCat("ulimit -u ", NumberOf(machine.processes.hard))
                 : "raise nproc in /etc/security/limits.conf, or LimitNPROC= "
                   "of systemd"}};
  }
  return {{Severity::kOk,
           absl::StrCat("at most ", NumberOf(machine.processes.soft),
                        " of this user, ", NumberOf(machine.tasks_left),
                        " more in the control group")}};
}

Findings CheckLockedMemory(const Facts& facts) {
  if (!facts.machine) return {};
  const ResourceLimit& locked = facts.machine->locked_memory;
  if (!facts.machine->has_rdma) {
    return {{Severity::kOk,
             absl::StrCat(SizeOf(locked.soft),
                          "; only NCCL over RDMA needs it, and this host has "
                          "no such device")}};
  }
  if (locked.soft == kUnlimited) {
    return {{Severity::kOk, "unlimited, for NCCL over RDMA"}};
  }
  return {{Severity::kWarning,
           absl::StrCat("at most ", SizeOf(locked.soft),
                        " (ulimit -l), and this host has an RDMA device"),
           "NCCL registers its buffers with the device and locks them: "
           "ibv_reg_mr fails with \"Cannot allocate memory\"",
           "ulimit -l unlimited; Docker --ulimit memlock=-1, LimitMEMLOCK="
           "infinity of systemd or of the container runtime's unit"}};
}

Findings CheckCore(const Facts& facts) {
  if (!facts.machine || !facts.assignment.serves) return {};
  if (facts.machine->core.soft == 0) {
    return {{Severity::kOk, "none are written"}};
  }
  return {{Severity::kWarning,
           absl::StrCat("up to ", SizeOf(facts.machine->core.soft),
                        " are written (ulimit -c)"),
           "a core dump of the coordinator has tokens and its private key",
           "ulimit -c 0, or LimitCORE=0 in the unit"}};
}

}  // namespace lockstep::doctor
