// The journal: `./run bench journal`.
//
//   journal_bench [DIR [SAMPLES [WORKERS [PARAMETERS]]]]
//                                (default: a temporary folder, 400, 64, 10,000)
//
//   decision   a record of 200 bytes, from Append to its callback on another
//              thread, and a write of 4 KiB at the end of a file with
//              fdatasync, in turns in one folder; medians
//   group      records per second with 64 waiting at a time
//   restart    lockstepd is killed and started again with its journal while the
//              workers are in an epoch: from exec until the last has resumed,
//              and until the plan is known again. The workers are threads here;
//              lockstepd and its folder are real.

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "bench/bench_worker.h"
#include "bench/figures.h"
#include "server/journal/sqlite_store.h"
#include "tools/launch/child.h"
#include "tools/launch/local_daemon.h"
#include "tools/rpc/admin_client.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kRecordBytes = 200;
constexpr size_t kPlainBytes = 4096;
constexpr int kGroup = 64;

struct Arguments {
  std::string directory;
  int samples = 400;
  int workers = 64;
  int parameters = 10'000;
};

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// --- Decisions ---------------------------------------------------------------

// Counts callbacks.
class Durables {
 public:
  void Add(const absl::Status& status) {
    Must(status, "append");
    MutexLock lock(&mutex_);
    ++count_;
    changed_.NotifyAll();
  }
  void Await(int count) {
    MutexLock lock(&mutex_);
    while (count_ < count) changed_.Wait(&mutex_);
    count_ = 0;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

void Decide(journal::Journal* journal, Durables* durables, int count) {
  for (int i = 0; i < count; ++i) {
    journal->Append(std::string(kRecordBytes, 'r'),
                    [durables](const absl::Status& s) { durables->Add(s); });
  }
  durables->Await(count);
}

void MeasureDecisions(const Arguments& arguments,
                      std::vector<Figure>* figures) {
  auto journal = journal::OpenSqliteJournal(arguments.directory + "/decide");
  Must(journal.status(), "open");
  Must((*journal)->Load().status(), "load");
  const std::string path = arguments.directory + "/plain";
  const int file = open(path.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
  const std::string bytes(kPlainBytes, 'p');
  Durables durables;
  std::vector<double> decisions, plain;
  for (int i = 0; i < arguments.samples; ++i) {
    auto begin = Clock::now();
    Decide(journal->get(), &durables, 1);
    decisions.push_back(SecondsSince(begin));
    begin = Clock::now();
    if (write(file, bytes.data(), bytes.size()) < 0 || fdatasync(file) != 0) {
      Must(absl::ErrnoToStatus(errno, path), "write");
    }
    plain.push_back(SecondsSince(begin));
  }
  close(file);
  const auto begin = Clock::now();
  constexpr int kGroups = 50;
  for (int i = 0; i < kGroups; ++i) Decide(journal->get(), &durables, kGroup);
  const double groups = SecondsSince(begin);

  const double decision_us = Median(decisions) * 1e6;
  const double plain_us = Median(plain) * 1e6;
  figures->push_back({.what = "a durable decision / 4 KiB append + fdatasync",
                      .promised = 1.3,
                      .measured = decision_us / plain_us,
                      .at_most = true});
  figures->push_back(
      {.what = "  a durable decision, us", .measured = decision_us});
  figures->push_back(
      {.what = "  4 KiB append + fdatasync, us", .measured = plain_us});
  figures->push_back({.what = "  records/s, 64 at a time",
                      .measured = kGroups * kGroup / groups});
}

// --- Restart -----------------------------------------------------------------

class BenchDaemon {
 public:
  explicit BenchDaemon(const Arguments& arguments)
      : journal_(arguments.directory + "/restart"),
        port_file_(arguments.directory + "/port") {}

  void Start() {
    std::filesystem::remove(port_file_);
    auto child = launch::Child::Start(
        {.argv = {launch::OwnFolder() + "/lockstepd", "--listen",
                  address_.empty() ? "127.0.0.1:0" : address_, "--port_file",
                  port_file_, "--journal", journal_, "--log_level", "off"},
         .quiet_stdout = true});
    Must(child.status(), "lockstepd");
    child_.emplace(*std::move(child));
    while (!std::filesystem::exists(port_file_)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::ifstream(port_file_) >> address_;
  }
  void Kill() {
    child_->Signal(SIGKILL);
    child_->Wait();
    child_.reset();
  }
  const std::string& address() const { return address_; }

 private:
  const std::string journal_;
  const std::string port_file_;
  std::string address_;
  std::optional<launch::Child> child_;
};

void AwaitTrue(const std::function<bool()>& holds, const char* what) {
  const auto begin = Clock::now();
  while (!holds()) {
    if (SecondsSince(begin) > 60) Must(absl::DeadlineExceededError(""), what);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

void MeasureRestart(const Arguments& arguments, std::vector<Figure>* figures) {
  BenchDaemon daemon(arguments);
  daemon.Start();
  JobSpec spec;
  spec.name = "restart";
  spec.mesh = *ParseMesh(absl::StrCat("data=", arguments.workers));
  std::vector<BenchWorker> workers(arguments.workers);
  AllAtOnce(workers, [&](BenchWorker& worker, int index) {
    worker.Join({.addresses = {daemon.address()},
                 .worker = absl::StrCat("worker-", index),
                 .spec = spec},
                arguments.parameters, 4);
    worker.Step();
  });
  std::vector<double> resumed, described;
  constexpr int kRestarts = 5;
  for (int i = 0; i < kRestarts; ++i) {
    daemon.Kill();
    AllAtOnce(workers, [](BenchWorker& worker, int) { worker.Step(); });
    const auto begin = Clock::now();
    daemon.Start();
    ctl::AdminClient admin({.addresses = daemon.address()});
    AwaitTrue(
        [&] {
          const auto jobs = admin.ListJobs();
          return jobs.ok() && jobs->size() == 1 &&
                 (*jobs)[0].ready == arguments.workers;
        },
        "the workers resume");
    resumed.push_back(SecondsSince(begin));
    AwaitTrue(
        [&] {
          const auto job = admin.DescribeJob({spec.name});
          return job.ok() && !job->parameters.empty();
        },
        "the plan is known again");
    described.push_back(SecondsSince(begin));
    AllAtOnce(workers, [](BenchWorker& worker, int) { worker.Step(); });
  }
  for (const BenchWorker& worker : workers) {
    if (worker.epoch() != 1) Must(absl::InternalError("epoch 2"), "restart");
  }
  AllAtOnce(workers, [](BenchWorker& worker, int) { worker.Leave(); });
  figures->push_back(
      {.what = absl::StrCat("exec to the last of ", arguments.workers,
                            " workers resumed, s"),
       .promised = 1.0,
       .measured = Median(resumed),
       .at_most = true});
  figures->push_back(
      {.what = absl::StrCat("  until the plan of ", arguments.parameters,
                            " parameters is known again, s"),
       .measured = Median(described)});
}

int Main(int argc, char** argv) {
  Arguments arguments;
  std::string own;
  if (argc > 1) arguments.directory = argv[1];
  if (argc > 2) arguments.samples = std::atoi(argv[2]);
  if (argc > 3) arguments.workers = std::atoi(argv[3]);
  if (argc > 4) arguments.parameters = std::atoi(argv[4]);
  if (arguments.directory.empty()) {
    own = std::filesystem::temp_directory_path() / "lockstep-journal-XXXXXX";
    if (mkdtemp(own.data()) == nullptr) {
      Must(absl::ErrnoToStatus(errno, own), "temporary folder");
    }
    arguments.directory = own;
  }
  std::vector<Figure> figures;
  MeasureDecisions(arguments, &figures);
  MeasureRestart(arguments, &figures);
  Print(figures);
  if (!own.empty()) std::filesystem::remove_all(own);
  return 0;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) { return lockstep::bench::Main(argc, argv); }
