// The checks of lockstepctl doctor, on facts that the test makes up.

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protocol/session.h"
#include "tools/doctor/certificate_age.h"
#include "tools/doctor/checks.h"
#include "tools/doctor/report.h"

namespace lockstep::doctor {
namespace {

using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr uint64_t kMiB = uint64_t{1} << 20;

absl::Time Day(int day) {
  return absl::FromUnixSeconds(1'800'000'000) + day * absl::Hours(24);
}

tls::CertificateFacts Certificate(int from, int until) {
  return {.common_name = "worker",
          .units = {},
          .hosts = {"train.example"},
          .from = Day(from),
          .until = Day(until)};
}

CoordinatorFacts Coordinator(const std::string& address) {
  CoordinatorFacts facts;
  facts.address = address;
  facts.shown = Certificate(-10, 355);
  facts.met = ctl::Introduction{.as_operator = absl::OkStatus(),
                                .as_worker = absl::OkStatus(),
                                .version = "1.0",
                                .protocol = protocol::kVersion,
                                .time = Day(0),
                                .round_trip = absl::Milliseconds(20)};
  facts.asked = Day(0) + absl::Milliseconds(10);
  return facts;
}

CoordinatorFacts Silent(const std::string& address, absl::Status connected) {
  CoordinatorFacts facts;
  facts.address = address;
  facts.connected = std::move(connected);
  return facts;
}

// A worker's machine with GPUs, two coordinators, and everything in order.
Facts Healthy() {
  Facts facts;
  facts.assignment = {.workers = 2, .ranks = 8, .job = "j", .version = "1.0"};
  facts.now = Day(0);
  facts.spec = absl::OkStatus();
  facts.spec_name = "j";
  facts.machine = MachineFacts{
      .room = {.machine = 64 * 1024 * kMiB,
               .group = 16 * 1024 * kMiB,
               .file = kUnlimited},
      .shared_memory = absl::OkStatus(),
      .shm = {.exists = true, .writable = true, .free_bytes = 1024 * kMiB},
      .open_files = {.soft = 1024, .hard = 524288},
      .processes = {.soft = 4096, .hard = 4096},
      .locked_memory = {.soft = kUnlimited, .hard = kUnlimited},
      .core = {.soft = 0, .hard = kUnlimited},
      .tasks_left = 1000,
      .is_root = false,
      .has_rdma = true};
  facts.gpu = GpuFacts{.devices = 2,
                       .kernel_driver = "550.54.15",
                       .cuda = 12040,
                       .nccl = absl::StatusOr<int>(22809)};
  facts.host = HostFacts{.name = "node-1", .loopback = ""};
  facts.host_address = HostAddressFacts{.text = "10.0.0.1",
                                        .resolved = absl::OkStatus(),
                                        .is_any = false,
                                        .is_loopback = false,
                                        .is_here = true};
  facts.tls = {{.folder = "/tls",
                .usable = absl::OkStatus(),
                .key = absl::OkStatus(),
                .certificate = Certificate(-10, 355)}};
  facts.tokens = {{.source = "/token",
                   .is_file = true,
                   .usable = absl::OkStatus(),
                   .tokens = 1}};
  facts.coordinators = {Coordinator("a:7070"), Coordinator("b:7070")};
  facts.listeners = {{.flag = "--listen", .address = "0.0.0.0:7070"},
                     {.flag = "--health-address", .address = "0.0.0.0:7071"}};
  JournalFolderFacts journal;
  journal.folder = "/journal";
  journal.exists = true;
  journal.owner = journal.reader = 998;
  journal.mode = 0700;
  journal.is_folder = true;
  journal.free_bytes = 1024 * kMiB;
  journal.free_files = 1000;
  journal.inspected = absl::OkStatus();
  facts.journal = journal;
  for (const char* address : {"e1:2379", "e2:2379", "e3:2379"}) {
    facts.etcd.push_back({.address = address,
                          .connected = {},
                          .says = etcd::MemberStatus{.version = "3.4.23"}});
  }
  return facts;
}

// The only finding that is a warning or an error.
Finding OnlyBad(const Facts& facts) {
  std::vector<Finding> bad;
  for (const Finding& finding : Diagnose(facts)) {
    if (finding.severity >= Severity::kWarning) bad.push_back(finding);
  }
  EXPECT_EQ(bad.size(), 1u) << ReportAsText(bad);
  return bad.empty() ? Finding{} : bad.front();
}

TEST(DoctorTest, AHealthyMachineHasAnOkFindingForEachCheck) {
  Facts client = Healthy();
  Facts server = Healthy();
  server.assignment.serves = true;
  server.machine->open_files.hard = 32768;
  std::vector<std::string> seen;
  for (const Facts& facts : {client, server}) {
    for (const Finding& finding : Diagnose(facts)) {
      EXPECT_EQ(finding.severity, Severity::kOk) << finding.what;
      seen.push_back(finding.check);
    }
  }
  for (const NamedCheck& check : Checks()) {
    EXPECT_THAT(seen, testing::Contains(check.name));
  }
}

TEST(DoctorTest, WithoutFactsThereIsNothingToSay) {
  Facts none;
  EXPECT_THAT(Diagnose(none), testing::SizeIs(1));  // no address
  EXPECT_EQ(Diagnose(none).front().severity, Severity::kSkipped);
}

struct Sick {
  const char* check;
  Severity severity;
  const char* what;
  const char* fix;
  std::function<void(Facts*)> make;
};

TEST(DoctorTest, EachFaultIsOneFindingWithItsReasonAndItsFix) {
  const Severity error = Severity::kError;
  const Severity warning = Severity::kWarning;
  const std::vector<Sick> all = {
      {"spec", error, "line 3", "spec.md",
       [](Facts* f) { f->spec = absl::InvalidArgumentError("line 3"); }},
      {"spec", error, "-n 3, but mesh", "--nodes M",
       [](Facts* f) {
         f->spec_fits = absl::InvalidArgumentError("-n 3, but mesh");
       }},
      {"spec", error, "--job j, but", "^--job k, or without",
       [](Facts* f) {
         f->spec_name = "k";
         f->spec_fits = absl::InvalidArgumentError("--job j, but");
       }},
      {"memory", error, "not enough shared memory: 100.0 MiB.*control group",
       "resources.limits.memory",
       [](Facts* f) { f->machine->room.group = 100 * kMiB; }},
      {"memory", error, "on this machine", "run -n",
       [](Facts* f) { f->machine->room.machine = 100 * kMiB; }},
      {"memory", error, "ulimit -f", "ulimit -f unlimited",
       [](Facts* f) { f->machine->room.file = kMiB; }},
      {"memory", error, "20.1 GiB or more for 2 workers", "limits.memory",
       [](Facts* f) { f->assignment.worker_bytes = 10240 * kMiB; }},
      {"memory", error, "a segment.*not permitted", "seccomp",
       [](Facts* f) {
         f->machine->shared_memory =
             absl::PermissionDeniedError("not permitted");
       }},
      {"/dev/shm", error, "64.0 MiB is free.*256.0 MiB", "emptyDir.*shm-size",
       [](Facts* f) { f->machine->shm.free_bytes = 64 * kMiB; }},
      {"/dev/shm", error, "does not exist", "mount",
       [](Facts* f) { f->machine->shm.exists = false; }},
      {"/dev/shm", error, "cannot be written", "chmod 1777",
       [](Facts* f) { f->machine->shm.writable = false; }},
      {"open files", error, "at most 40 .*48 for a worker among 8 ranks",
       "ulimit -n 4096",
       [](Facts* f) {
         f->machine->open_files = {40, 4096};
       }},
      {"open files", error, "at most 40", "nofile=48",
       [](Facts* f) {
         f->machine->open_files = {40, 40};
       }},
      {"open files", warning, "4096.*20000 connections", "LimitNOFILE",
       [](Facts* f) {
         f->assignment.serves = true;
         f->machine->open_files.hard = 4096;
       }},
      {"processes", error, "100 more threads.*128", "pids",
       [](Facts* f) { f->machine->tasks_left = 100; }},
      {"processes", error, "100 processes.*128", "ulimit -u 4096",
       [](Facts* f) { f->machine->processes.soft = 100; }},
      {"processes", error, "100 processes", "limits.conf",
       [](Facts* f) {
         f->machine->processes = {100, 100};
       }},
      {"locked memory", warning, "8.0 MiB", "ulimit -l unlimited",
       [](Facts* f) { f->machine->locked_memory.soft = 8 * kMiB; }},
      {"core dumps", warning, "unlimited", "ulimit -c 0",
       [](Facts* f) {
         f->assignment.serves = true;
         f->machine->open_files.hard = 32768;
         f->machine->core.soft = kUnlimited;
       }},
      {"gpu", error, "no NVIDIA driver", "nvidia.com/gpu",
       [](Facts* f) {
         f->assignment.uses_gpu = true;
         f->gpu->devices = 0;
         f->gpu->kernel_driver = "";
       }},
      {"gpu", error, "550.54.15 shows this container no device", "--gpus all",
       [](Facts* f) {
         f->assignment.uses_gpu = true;
         f->gpu->devices = 0;
       }},
      {"gpu", error, "2 GPUs.*libcuda", "NVIDIA_DRIVER_CAPABILITIES",
       [](Facts* f) { f->gpu->cuda = absl::NotFoundError("libcuda.so.1"); }},
      {"gpu", error, "2 GPUs here, and 3 workers", "run -n 2",
       [](Facts* f) {
         f->assignment.uses_gpu = true;
         f->assignment.workers = 3;
       }},
      {"nccl", error, "2 GPUs, and no NCCL is found", "LOCKSTEP_NCCL_LIBRARY",
       [](Facts* f) {
         f->gpu->nccl =
             absl::StatusOr<int>(absl::NotFoundError("no NCCL is found"));
       }},
      {"nccl", error, "2.17.1 is too old", "install",
       [](Facts* f) { f->gpu->nccl = absl::StatusOr<int>(21701); }},
      {"nccl", warning, "2.28.3 cannot connect again", "install",
       [](Facts* f) { f->gpu->nccl = absl::StatusOr<int>(22803); }},
      {"tls", error, "expired", "certs renew",
       [](Facts* f) {
         f->tls[0].usable = absl::FailedPreconditionError("expired");
         f->tls[0].certificate = Certificate(-20, -1);
       }},
      {"tls", error, "not valid before", "timedatectl",
       [](Facts* f) {
         f->tls[0].usable = absl::FailedPreconditionError("not valid before");
         f->tls[0].certificate = Certificate(1, 300);
       }},
      {"tls", error, "tls.key has mode", "chmod 600 /tls/tls.key",
       [](Facts* f) {
         f->tls[0].key = absl::FailedPreconditionError("tls.key has mode");
         f->tls[0].usable = f->tls[0].key;
       }},
      {"tls", error, "no such file", "certs init",
       [](Facts* f) {
         f->tls[0] = {.folder = "/tls",
                      .usable = absl::NotFoundError("no such file"),
                      .key = absl::NotFoundError("no such file"),
                      .certificate = std::nullopt};
       }},
      {"tls", error, "needs a worker's", "another folder",
       [](Facts* f) {
         f->tls[0].usable = absl::FailedPreconditionError("needs a worker's");
       }},
      {"tls", warning, "valid until .*, in 13 days", "certs renew",
       [](Facts* f) { f->tls[0].certificate = Certificate(-300, 13); }},
      {"token", error, "has mode 0644", "chmod 600 /token",
       [](Facts* f) {
         f->tokens[0].usable = absl::FailedPreconditionError("has mode 0644");
       }},
      {"token", error, "is empty", "openssl rand -hex 32 > /token",
       [](Facts* f) {
         f->tokens[0].usable = absl::InvalidArgumentError("is empty");
       }},
      {"token", error, "LOCKSTEP_TOKEN", "UTF-8",
       [](Facts* f) {
         f->tokens[0] = {.source = "LOCKSTEP_TOKEN",
                         .is_file = false,
                         .usable = absl::InvalidArgumentError("LOCKSTEP_TOKEN"),
                         .tokens = 1};
       }},
      {"token", error, "hold the same token", "openssl rand",
       [](Facts* f) {
         f->daemon_tokens = {absl::InvalidArgumentError("hold the same token"),
                             ""};
       }},
      {"token", warning, "may be guessed", "openssl rand",
       [](Facts* f) {
         f->daemon_tokens = {absl::OkStatus(), "it may be guessed"};
       }},
      {"host name", warning, "127.0.1.1 for this host's name, node-1",
       "LOCKSTEP_HOST_ADDRESS",
       [](Facts* f) { f->host->loopback = "127.0.1.1"; }},
      {"host address", error, "10.0.0.1: no such name", "ip -brief",
       [](Facts* f) {
         f->host_address->resolved = absl::NotFoundError("no such name");
       }},
      {"host address", error, "no interface.*10.0.0.1", "status.podIP",
       [](Facts* f) { f->host_address->is_here = false; }},
      {"host address", warning, "10.0.0.1 is loopback", "ip -brief",
       [](Facts* f) { f->host_address->is_loopback = true; }},
      {"host address", error, "10.0.0.1 stands for every", "ip -brief",
       [](Facts* f) { f->host_address->is_any = true; }},
      {"listen", error, "port", "up to 65535",
       [](Facts* f) {
         f->listeners[0].parsed = absl::InvalidArgumentError("port");
       }},
      {"listen", error, "0.0.0.0:7070 can be reached", "--tls DIR.*--insecure",
       [](Facts* f) {
         f->listeners[0].allowed = absl::FailedPreconditionError("no");
       }},
      {"listen", error, "0.0.0.0:7070: another process", "sport = :7070",
       [](Facts* f) {
         f->listeners[0].bound = absl::AlreadyExistsError("another process");
       }},
      {"listen", error, "Permission denied", "above 1023",
       [](Facts* f) {
         f->listeners[0].bound =
             absl::PermissionDeniedError("Permission denied");
       }},
      {"listen", error, "Cannot assign", "0.0.0.0",
       [](Facts* f) {
         f->listeners[0].bound = absl::UnavailableError("Cannot assign");
       }},
      {"listen", error, "--insecure is for", "^without --insecure",
       [](Facts* f) {
         f->listeners[0].allowed =
             absl::InvalidArgumentError("--insecure is for");
       }},
      {"listen", error, "--health-address: no port", "up to 65535",
       [](Facts* f) {
         f->listeners[1].parsed = absl::InvalidArgumentError("no port");
       }},
      {"listen", error,
       "--health-address 0.0.0.0:7071 has the port of --listen",
       "a port for each",
       [](Facts* f) {
         f->listeners[1].bound = absl::AlreadyExistsError("another process");
         f->listeners[1].same_port_as = "--listen";
       }},
      {"coordinator", error, "nobody answers at a:7070: refused",
       "systemctl start lockstepd",
       [](Facts* f) {
         f->coordinators = {
             Silent("a:7070", absl::UnavailableError("refused"))};
       }},
      {"coordinator", error, "no answer within", "port 7070.*firewall",
       [](Facts* f) {
         f->coordinators = {
             Silent("a:7070", absl::DeadlineExceededError("no answer within"))};
       }},
      {"coordinator", error, "a:7070: the name", "getent hosts a",
       [](Facts* f) {
         f->coordinators[0] = Silent("a:7070", absl::OkStatus());
         f->coordinators[0].resolved = absl::NotFoundError("the name");
       }},
      {"coordinator", error, "it serves plaintext", "^start it with --tls$",
       [](Facts* f) {
         f->coordinators = {Silent("a:7070", absl::OkStatus())};
         f->coordinators[0].tls = {"it serves plaintext",
                                   "start it with --tls"};
       }},
      {"coordinator", error, "not signed", "certs renew",
       [](Facts* f) {
         f->coordinators = {Silent("a:7070", absl::OkStatus())};
         f->coordinators[0].tls = {"not signed", ""};
       }},
      {"coordinator", error, "a:7070 speaks gRPC", "--health_address",
       [](Facts* f) {
         f->coordinators = {Silent("a:7070", absl::OkStatus())};
         f->coordinators[0].met = absl::UnimplementedError("");
       }},
      {"coordinator", error, "a:7070 is no coordinator", "journalctl",
       [](Facts* f) {
         f->coordinators = {Silent("a:7070", absl::OkStatus())};
       }},
      {"coordinator", warning, "a:7070 accepts.*does not answer: no answer",
       "restart lockstepd",
       [](Facts* f) {
         f->coordinators[0] = Silent("a:7070", absl::OkStatus());
         f->coordinators[0].met = absl::UnavailableError("no answer");
       }},
      {"coordinator", error, "a:7070 speaks gRPC", "--health_address",
       [](Facts* f) {
         f->coordinators[0] = Silent("a:7070", absl::OkStatus());
         f->coordinators[0].met = absl::UnimplementedError("");
       }},
      {"coordinator", error, "a:7070: revoked", "lockstepctl token",
       [](Facts* f) {
         f->coordinators.pop_back();
         f->coordinators[0].met->as_operator =
             absl::UnauthenticatedError("no operator's");
         f->coordinators[0].met->as_worker =
             absl::UnauthenticatedError("revoked");
       }},
      {"coordinator", error, "a:7070: no operator's", "--job JOB",
       [](Facts* f) {
         f->assignment.job = "";
         f->coordinators[0].met->as_operator =
             absl::UnauthenticatedError("no operator's");
         f->coordinators[0].met->as_worker =
             absl::UnauthenticatedError("no worker's");
       }},
      {"coordinator", error, "a:7070: needs a token", "--token-file FILE",
       [](Facts* f) {
         f->assignment.job = "";
         f->coordinators[0].met->as_operator =
             absl::PermissionDeniedError("a worker's certificate");
         f->coordinators[0].met->as_worker =
             absl::UnauthenticatedError("needs a token");
       }},
      {"coordinator", error, "a:7070 refuses workers.*not one of", "copy",
       [](Facts* f) {
         f->coordinators[0].admits_workers =
             absl::UnauthenticatedError("not one of");
       }},
      {"coordinator", error, "lockstepd 2.0 and speaks protocol version 9",
       "one release",
       [](Facts* f) {
         f->coordinators[0].met->version = "2.0";
         f->coordinators[0].met->protocol = 9;
       }},
      {"coordinator", warning, "is lockstepd 1.1, and this is 1.0", "upgrade",
       [](Facts* f) { f->coordinators[0].met->version = "1.1"; }},
      {"coordinator", warning, "certificate.*at a:7070 expires.*in 2 days",
       "certs renew",
       [](Facts* f) { f->coordinators[0].shown = Certificate(-300, 2); }},
      {"clock", warning, "clock of a:7070 is 1m ahead", "timedatectl",
       [](Facts* f) {
         f->coordinators[0].met->time = Day(0) + absl::Minutes(1);
       }},
      {"clock", warning, "clock of a:7070 is 3s behind", "timedatectl",
       [](Facts* f) {
         f->coordinators[0].met->time = Day(0) - absl::Seconds(3);
       }},
      {"journal", error, "cannot be made", "install -d",
       [](Facts* f) {
         f->journal->exists = false;
         f->journal->parent_writable =
             absl::PermissionDeniedError("cannot be made");
       }},
      {"journal", error, "no slash", "^--journal ./journal$",
       [](Facts* f) {
         f->journal->folder = "journal";
         f->journal->allowed = absl::InvalidArgumentError("no slash");
       }},
      {"journal", error, "is for a --journal in etcd", "without --etcd-tls",
       [](Facts* f) {
         f->journal->allowed =
             absl::InvalidArgumentError("is for a --journal in etcd");
         f->journal->has_etcd_tls = true;
       }},
      {"journal", error, "not a folder", "--journal",
       [](Facts* f) { f->journal->is_folder = false; }},
      {"journal", error, "belongs to user 997, and this is user 998",
       "sudo -u '#997'", [](Facts* f) { f->journal->owner = 997; }},
      {"journal", error, "mode 0770", "chmod 700 /journal",
       [](Facts* f) { f->journal->mode = 0770; }},
      {"journal", error, "record 7 is damaged", "journal repair /journal",
       [](Facts* f) {
         f->journal->inspected = absl::DataLossError("record 7 is damaged");
       }},
      {"journal", error, "has 1.0 MiB", "df -h /journal",
       [](Facts* f) { f->journal->free_bytes = kMiB; }},
      {"journal", error, "3 files left", "df -h",
       [](Facts* f) { f->journal->free_files = 3; }},
      {"journal", error, "network file system", "block storage",
       [](Facts* f) { f->journal->is_on_network = true; }},
      {"etcd", warning, "e2:2379: refused", "endpoint health",
       [](Facts* f) {
         f->etcd[1] = {.address = "e2:2379",
                       .connected = absl::UnavailableError("refused")};
       }},
      {"etcd", warning, "e2:2379 accepts connections and does not answer",
       "endpoint health",
       [](Facts* f) { f->etcd[1].says = absl::UnavailableError("no answer"); }},
      {"etcd", warning, "what listens at e2:2379 is no etcd", "endpoint health",
       [](Facts* f) { f->etcd[1].says = absl::UnimplementedError(""); }},
      {"etcd", warning, "e2:2379 answers, and no majority.*no leader",
       "endpoint health",
       [](Facts* f) {
         f->etcd[1].says->read = absl::UnavailableError("no leader");
       }},
      {"etcd", error, "e2:2379 does not let this client read", "grant-perm",
       [](Facts* f) {
         f->etcd[1].says->read = absl::PermissionDeniedError("denied");
       }},
      {"etcd", error, "NOSPACE", "alarm disarm",
       [](Facts* f) {
         for (EtcdMember& one : f->etcd) one.says->has_no_space = true;
       }},
      {"etcd", error, "CORRUPT", "alarm list",
       [](Facts* f) { f->etcd[2].says->is_corrupt = true; }},
      {"etcd", error, "etcd at e2:2379 serves TLS", "^use --etcd_tls$",
       [](Facts* f) {
         f->etcd[1].says = absl::UnavailableError("not asked");
         f->etcd[1].tls = {"etcd at e2:2379 serves TLS", "use --etcd_tls"};
       }},
      {"etcd", error, "e2:2379: not signed", "--etcd-tls DIR",
       [](Facts* f) {
         f->etcd[1].says = absl::UnavailableError("not asked");
         f->etcd[1].tls = {"e2:2379: not signed", ""};
       }},
      {"etcd", error, "has no prefix", "etcd://.*/lockstep/main",
       [](Facts* f) {
         f->etcd_url = absl::InvalidArgumentError("it has no prefix");
       }},
      {"etcd", error, "in plaintext", "--etcd-tls DIR.*--insecure",
       [](Facts* f) {
         f->etcd_url = absl::FailedPreconditionError("in plaintext");
       }},
  };
  for (const Sick& sick : all) {
    SCOPED_TRACE(testing::Message() << sick.check << ": " << sick.what);
    Facts facts = Healthy();
    sick.make(&facts);
    const Finding found = OnlyBad(facts);
    EXPECT_EQ(found.check, sick.check);
    EXPECT_EQ(found.severity, sick.severity);
    EXPECT_THAT(found.what, ContainsRegex(sick.what));
    EXPECT_THAT(found.fix, ContainsRegex(sick.fix));
    EXPECT_THAT(found.why, Not(IsEmpty()));
  }
}

TEST(DoctorTest, WithoutAMajorityOfEtcdEachMemberIsAnError) {
  Facts facts = Healthy();
  for (int i : {0, 2}) {
    facts.etcd[i] = {.address = "e:2379",
                     .connected = absl::UnavailableError("refused")};
  }
  // The others confirm what the second says, though this host does not reach
  // them.
  EXPECT_EQ(CountOf(Diagnose(facts), Severity::kError), 0);
  EXPECT_EQ(CountOf(Diagnose(facts), Severity::kWarning), 2);
  facts.etcd[1].says->read = absl::UnavailableError("no leader");
  EXPECT_EQ(CountOf(Diagnose(facts), Severity::kError), 3);
}

TEST(DoctorTest, CertificatesThatCannotBeUsedAreSaidOnce) {
  Facts facts = Healthy();
  facts.tls[0].usable = absl::FailedPreconditionError("expired");
  facts.coordinators = {Silent("a:7070", absl::OkStatus())};
  facts.coordinators[0].lacks_certificates = true;
  facts.etcd = {{.address = "e1:2379", .connected = {}}};
  facts.etcd[0].lacks_certificates = true;
  EXPECT_EQ(OnlyBad(facts).check, "tls");
  EXPECT_EQ(CountOf(Diagnose(facts), Severity::kSkipped), 2);
  facts.coordinators[0].connected = absl::UnavailableError("refused");
  EXPECT_EQ(CountOf(Diagnose(facts), Severity::kError), 2);
}

TEST(DoctorTest, OneCoordinatorOfSeveralSuffices) {
  Facts facts = Healthy();
  facts.coordinators[0] =
      Silent("a:7070", absl::UnavailableError("Connection refused"));
  for (const Finding& finding : Diagnose(facts)) {
    EXPECT_EQ(finding.severity, Severity::kOk) << finding.what;
  }
  facts.coordinators[1] = facts.coordinators[0];
  EXPECT_EQ(CountOf(Diagnose(facts), Severity::kError), 2);
}

TEST(DoctorTest, CoordinatorsThatWaitAreNoFaultBesideOneOfTls) {
  Facts facts = Healthy();
  facts.coordinators = {
      Silent("a:7070", absl::UnavailableError("Connection refused")),
      Silent("b:7070", absl::OkStatus()),
      Silent("c:7070", absl::DeadlineExceededError("no answer within 1s"))};
  CoordinatorFacts& leader = facts.coordinators[1];
  leader.tls = {"b:7070 serves TLS", "give it a folder"};
  EXPECT_EQ(OnlyBad(facts).what, "b:7070 serves TLS");
  leader.tls.reset();
  leader.lacks_certificates = true;
  facts.tls[0].usable = absl::FailedPreconditionError("expired");
  EXPECT_EQ(OnlyBad(facts).check, "tls");
}

TEST(DoctorTest, AWorkerIsNoOperatorAndThatIsWell) {
  Facts facts = Healthy();
  facts.coordinators[0].met->as_operator =
      absl::PermissionDeniedError("a worker's");
  facts.coordinators[1].met->as_operator =
      absl::UnauthenticatedError("perhaps a join token");
  facts.coordinators[1].admits_workers = absl::OkStatus();
  EXPECT_EQ(CountOf(Diagnose(facts), Severity::kError), 0);
  EXPECT_THAT(ReportAsText(Diagnose(facts)),
              ContainsRegex("a:7070 answers.*this is a worker"));
}

TEST(DoctorTest, AJobOfHostsNeedsNoNcclAndNoRoomForIt) {
  Facts facts = Healthy();
  facts.assignment.uses_gpu = false;
  facts.machine->shm.free_bytes = 0;
  facts.gpu->cuda = absl::NotFoundError("libcuda.so.1");
  facts.gpu->nccl = std::nullopt;
  EXPECT_EQ(CountOf(Diagnose(facts), Severity::kError), 0);
}

TEST(DoctorTest, LoopbackIsNoFaultOnOneHost) {
  Facts facts = Healthy();
  for (CoordinatorFacts& one : facts.coordinators) one.is_loopback = true;
  facts.host->loopback = "127.0.1.1";
  facts.host_address->is_loopback = true;
  EXPECT_EQ(CountOf(Diagnose(facts), Severity::kWarning), 0);
}

TEST(DoctorTest, RootMayLookAtTheJournalOfTheDaemonsUser) {
  Facts facts = Healthy();
  facts.journal->reader = 0;
  EXPECT_EQ(CountOf(Diagnose(facts), Severity::kError), 0);
  facts.journal->in_use = true;
  EXPECT_THAT(ReportAsText(CheckJournalFolder(facts)),
              HasSubstr("a daemon uses it"));
}

TEST(DoctorTest, ACertificateOfADayIsNotAlwaysAboutToExpire) {
  const auto expires = [](absl::Duration life, absl::Duration left) {
    tls::CertificateFacts one;
    one.until = Day(0) + left;
    one.from = one.until - life;
    return ExpiresSoon(one, absl::Hours(14 * 24), Day(0));
  };
  EXPECT_FALSE(expires(absl::Hours(24), absl::Hours(7)));
  EXPECT_TRUE(expires(absl::Hours(24), absl::Hours(5)));
  EXPECT_FALSE(expires(absl::Hours(24 * 7), absl::Hours(43)));
  EXPECT_TRUE(expires(absl::Hours(24 * 7), absl::Hours(41)));
  EXPECT_FALSE(expires(absl::Hours(24 * 30), absl::Hours(24 * 8)));
  EXPECT_TRUE(expires(absl::Hours(24 * 30), absl::Hours(24 * 7)));
  EXPECT_FALSE(expires(absl::Hours(24 * 365), absl::Hours(24 * 15)));
  EXPECT_TRUE(expires(absl::Hours(24 * 365), absl::Hours(24 * 13)));
  EXPECT_TRUE(expires(absl::Hours(24 * 365), -absl::Hours(1)));
}

TEST(DoctorTest, ACertificateThatIsWellSaysHowLongItIs) {
  Facts facts = Healthy();
  facts.tls[0].certificate = Certificate(-4, 3);
  EXPECT_THAT(ReportAsText(CheckTls(facts)),
              ContainsRegex("ok .*valid until .*, in 3 days"));
}

TEST(DoctorTest, WhatAShellWouldChangeIsQuoted) {
  EXPECT_EQ(Quoted("/etc/lockstep/tls-1"), "/etc/lockstep/tls-1");
  EXPECT_EQ(Quoted("a b"), "'a b'");
  EXPECT_EQ(Quoted("$(x)'"), "'$(x)'\\'''");
  EXPECT_EQ(Quoted(""), "''");
}

TEST(DoctorReportTest, TextHasReasonsAndFixesOfWhatIsWrongOnly) {
  const std::string text =
      ReportAsText({{Severity::kOk, "well", "why 1", "fix 1", "a"},
                    {Severity::kWarning, "so so", "why 2", "fix 2", "b"},
                    {Severity::kError, "bad\x1b[2J\n", "why 3", "fix 3", "c"}});
  EXPECT_EQ(text,
            "ok       a              well\n"
            "warning  b              so so\n"
            "                        why: why 2\n"
            "                        fix: fix 2\n"
            "error    c              bad\\x1b[2J\\n\n"
            "                        why: why 3\n"
            "                        fix: fix 3\n"
            "1 error, 1 warning\n");
}

TEST(DoctorReportTest, JsonHasAllOfEachFinding) {
  const auto json = nlohmann::json::parse(
      ReportAsJson({{Severity::kSkipped, "w", "", "", "a"},
                    {Severity::kError, "x\xff", "y", "z", "b"}}));
  EXPECT_EQ(json["errors"], 1);
  EXPECT_EQ(json["warnings"], 0);
  EXPECT_EQ(json["findings"][0]["severity"], "skipped");
  EXPECT_EQ(json["findings"][1], nlohmann::json({{"check", "b"},
                                                 {"severity", "error"},
                                                 {"what", "x\\xff"},
                                                 {"why", "y"},
                                                 {"fix", "z"}}));
}

TEST(DoctorReportTest, ALineHasAllOfAFinding) {
  EXPECT_EQ(FindingAsLine({Severity::kError, "w", "y", "f", "nccl"}),
            "error: nccl: w: y; fix: f");
}

}  // namespace
}  // namespace lockstep::doctor
