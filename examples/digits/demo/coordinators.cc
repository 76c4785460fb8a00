#include "examples/digits/demo/coordinators.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/join_token.h"
#include "base/secret_file.h"
#include "tools/launch/local_daemon.h"

namespace lockstep::digits {
namespace {

constexpr int kCoordinators = 3;
constexpr size_t kKills = 2;
constexpr int kFirstPort = 7071;
constexpr int kEtcdPort = 2379;
constexpr int kEtcdPeerPort = 2380;
constexpr absl::Duration kEtcdPatience = absl::Seconds(20);
constexpr char kEtcd[] = "etcd";
constexpr char kCoordinatorPrefix[] = "coordinator-";
constexpr char kLeads[] = " leads the coordinators of ";
constexpr char kTerm[] = " with term ";
constexpr char kResumes[] = " resumes";

// An address of this process alone: 127.0.0.0/8 has 2^24 addresses, Linux at
// most 2^22 pids.
std::string OwnLoopbackAddress() {
  const auto pid = static_cast<unsigned>(getpid());
  return absl::StrFormat("127.%d.%d.%d", 128 + (pid >> 15 & 127),
                         pid >> 7 & 255, 1 + (pid & 127));
}

bool Listens(const std::string& host, int port) {
  const FileDescriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, host.c_str(), &to.sin_addr);
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&to),
                 sizeof(to)) == 0;
}

double Seconds(absl::Duration duration) {
  return absl::ToDoubleSeconds(duration);
}

}  // namespace

Coordinators::Coordinators(const Flags& flags, const JobFiles& files,
                           launch::Supervisor* const* supervisor)
    : flags_(flags),
      files_(files),
      supervisor_(supervisor),
      host_(OwnLoopbackAddress()),
      worker_token_(DrawSecret()) {}

std::string Coordinators::AddressOf(int number) const {
  return absl::StrCat(host_, ":", kFirstPort + number - 1);
}

std::string Coordinators::addresses() const {
  std::vector<std::string> all;
  for (int number = 1; number <= kCoordinators; ++number) {
    all.push_back(AddressOf(number));
  }
  return absl::StrJoin(all, ",");
}

std::string Coordinators::JoinTokenOf(const std::string& job) const {
  absl::StatusOr<std::string> token = JoinToken(worker_token_, job);
  Check(token.ok(), "a drawn secret is long enough");
  return *std::move(token);
}

// --- Starting ----------------------------------------------------------------

absl::Status Coordinators::WriteFiles() {
  absl::Status done = files_.MakeEtcdCertificates(host_);
  if (done.ok() && flags_.tls) done = files_.MakeCertificates(host_);
  if (done.ok()) done = WriteSecretFile(files_.OperatorToken(), DrawSecret());
  if (done.ok()) done = WriteSecretFile(files_.WorkerToken(), worker_token_);
  return done;
}

absl::Status Coordinators::StartEtcd() {
  const std::string clients = absl::StrCat("https://", host_, ":", kEtcdPort);
  const std::string peers = absl::StrCat("https://", host_, ":", kEtcdPeerPort);
  const std::string tls = files_.EtcdServerTls();
  const launch::ChildCommand etcd{
      .argv = {flags_.etcd, "--name=demo",
               absl::StrCat("--data-dir=", files_.EtcdData()),
               absl::StrCat("--listen-client-urls=", clients),
               absl::StrCat("--advertise-client-urls=", clients),
               absl::StrCat("--listen-peer-urls=", peers),
               absl::StrCat("--initial-advertise-peer-urls=", peers),
               absl::StrCat("--initial-cluster=demo=", peers),
               absl::StrCat("--cert-file=", tls, "/tls.crt"),
               absl::StrCat("--key-file=", tls, "/tls.key"),
               absl::StrCat("--trusted-ca-file=", tls, "/ca.crt"),
               "--client-cert-auth",
               absl::StrCat("--peer-cert-file=", tls, "/tls.crt"),
               absl::StrCat("--peer-key-file=", tls, "/tls.key"),
               absl::StrCat("--peer-trusted-ca-file=", tls, "/ca.crt"),
               "--peer-client-cert-auth", "--enable-grpc-gateway=false",
               "--logger=zap", "--log-level=error"}};
  absl::Status started =
      (*supervisor_)->Start(kEtcd, etcd, launch::Supervisor::Role::kBackground);
  if (!started.ok()) {
    return absl::Status(started.code(),
                        absl::StrCat(started.message(),
                                     "; --ha wants the program etcd (--etcd)"));
  }
  const Deadline deadline(kEtcdPatience);
  while (!Listens(host_, kEtcdPort)) {
    if (deadline.Passed() || (*supervisor_)->Ended(kEtcd)) {
      return absl::UnavailableError(
          absl::StrCat(flags_.etcd, " does not listen on ", clients));
    }
    absl::SleepFor(absl::Milliseconds(20));
  }
  absl::PrintF("etcd: %s, with TLS\n", clients);
  return absl::OkStatus();
}

absl::Status Coordinators::StartCoordinator(int number) {
  launch::ChildCommand command{
      .argv = {absl::StrCat(launch::OwnFolder(), "/lockstepd"), "--listen",
               AddressOf(number), "--journal",
               absl::StrCat("etcd://", host_, ":", kEtcdPort, "/demo"),
               "--etcd_tls", files_.EtcdClientTls(), "--token_file",
               files_.OperatorToken(), "--worker_token_file",
               files_.WorkerToken()},
      .capture_output = true};
  if (flags_.tls) {
    command.argv.insert(command.argv.end(), {"--tls", files_.CoordinatorTls()});
  }
  return (*supervisor_)
      ->Start(absl::StrCat(kCoordinatorPrefix, number), command,
              launch::Supervisor::Role::kBackground);
}

absl::Status Coordinators::Start() {
  absl::Status done = WriteFiles();
  if (done.ok()) done = StartEtcd();
  for (int number = 1; done.ok() && number <= kCoordinators; ++number) {
    done = StartCoordinator(number);
  }
  return done;
}

// --- What happens ------------------------------------------------------------

absl::Duration Coordinators::SinceTheKill() const {
  const size_t before = leaders_.size() - 2;
  return absl::Now() - leaders_.at(before).killed_at;
}

bool Coordinators::MayKill(const Leader& leader, int64_t steps) const {
  if (leaders_.size() > kKills || leader.killed_after >= 0) return false;
  if (leaders_.size() == 1) return steps >= flags_.at_step;
  return static_cast<int>(leader.resumed.size()) == flags_.workers &&
         steps > leaders_.front().killed_after;
}

void Coordinators::Progress(int64_t steps) {
  steps_ = steps;
  if (leaders_.empty() || !MayKill(leaders_.back(), steps)) return;
  Leader& leader = leaders_.back();
  leader.killed_after = steps;
  leader.killed_at = absl::Now();
  absl::PrintF(
      "after step %d: %s, which leads with term %d, is killed (SIGKILL)\n",
      steps, leader.name, leader.term);
  (*supervisor_)->Signal(leader.name, SIGKILL);
}

bool Coordinators::Ended(const std::string& name,
                         const launch::ProcessExit& ending) {
  for (const Leader& leader : leaders_) {
    if (leader.name != name || leader.killed_after < 0) continue;
    (*supervisor_)->Forgive(name);
    return true;
  }
  return !ending.why_signalled.empty() &&
         (name == kEtcd || absl::StartsWith(name, kCoordinatorPrefix));
}

void Coordinators::NoteLeader(const std::string& name, uint64_t term) {
  leaders_.push_back({.name = name, .term = term});
  if (leaders_.size() == 1) {
    absl::PrintF("%s leads with term %d\n", name, term);
    return;
  }
  leaders_.back().leads = SinceTheKill();
  absl::PrintF("after step %d: %s leads with term %d, %.2f s after the kill\n",
               steps_, name, term, Seconds(leaders_.back().leads));
}

void Coordinators::NoteResumed(const std::string& name,
                               absl::string_view line) {
  if (leaders_.size() < 2 || leaders_.back().name != name) return;
  Leader& leader = leaders_.back();
  if (leader.resumed.empty()) leader.first_resumed = SinceTheKill();
  leader.resumed.emplace(line);
  if (static_cast<int>(leader.resumed.size()) != flags_.workers) return;
  absl::PrintF(
      "after step %d: all %d workers have resumed at %s, %.2f s after the "
      "kill\n",
      steps_, flags_.workers, name, Seconds(SinceTheKill()));
}

bool Coordinators::Take(const std::string& name, absl::string_view line) {
  if (!absl::StartsWith(name, kCoordinatorPrefix)) return false;
  uint64_t term = 0;
  const size_t at = line.rfind(kTerm);
  if (absl::StrContains(line, kLeads) && at != absl::string_view::npos &&
      absl::SimpleAtoi(line.substr(at + sizeof(kTerm) - 1), &term)) {
    NoteLeader(name, term);
  } else if (absl::StrContains(line, kResumes)) {
    NoteResumed(name, line);
  } else if (absl::StrContains(line, " warning ") ||
             absl::StrContains(line, " error ") ||
             absl::StartsWith(line, "lockstepd: ")) {
    absl::FPrintF(stderr, "%s: %s\n", name, line);
  }
  return true;
}

bool Coordinators::Report(int64_t steps) const {
  const bool followed =
      leaders_.size() > kKills &&
      static_cast<int>(leaders_.back().resumed.size()) == flags_.workers;
  if (!followed) {
    absl::FPrintF(stderr,
                  "demo: the training ended before the leader had been killed "
                  "twice and followed twice\n");
    return false;
  }
  for (size_t i = 1; i < leaders_.size(); ++i) {
    const Leader& before = leaders_[i - 1];
    const Leader& next = leaders_[i];
    absl::PrintF(
        "failover %d: term %d to %d; killed after step %d; %s led after %.2f "
        "s, and a worker had resumed there after %.2f s\n",
        i, before.term, next.term, before.killed_after, next.name,
        Seconds(next.leads), Seconds(next.first_resumed));
  }
  absl::PrintF("no epoch ended; %d steps followed the second kill\n",
               steps - leaders_[kKills - 1].killed_after);
  return true;
}

}  // namespace lockstep::digits
