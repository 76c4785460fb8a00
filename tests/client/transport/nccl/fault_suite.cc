#include "tests/client/transport/nccl/fault_suite.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include "absl/strings/str_join.h"
#include "tests/client/transport/nccl/fault_rank.h"

namespace lockstep::fake {
namespace {

constexpr int kRounds = 12;
constexpr int kLaunches = 3;
// A fault may also hang the process, which this timeout kills.
constexpr unsigned kLifeSeconds = 30;

// The whole suite, for one world.
class Exercise {
 public:
  Exercise(const FaultSuiteOptions& options, int to)
      : options_(options), reporter_(to) {}

  void Run() {
    Steps();
    Graphs();
    CallsOnHost();
    DestroysBesideWork();
    AbortsBehindFullStreams();
    AbortsBesideAnAbort();
    Abort();
    AbortsGraph();
    LosesPeer();
    Windows();  // last: late writes may be to freed memory
  }

 private:
  using Body = std::function<void(Rank&, int)>;

  // Runs `body` on two connected ranks; then no violation may be recorded.
  void With(const Body& body, const std::function<void(FakeGpuWorld&)>& after,
            const Meanness& mean = {}) {
    FakeGpuWorld world({.seed = options_.seed, .mean = mean},
                       options_.decorate);
    reporter_.set_world(&world);
    std::vector<std::unique_ptr<Rank>> ranks;
    std::vector<std::string> handles[2];
    for (int r = 0; r < kRanks; ++r) {
      ranks.push_back(std::make_unique<Rank>(&world, &reporter_, &memory_, r,
                                             options_.patience));
      for (int group : {0, 1})
        handles[group].push_back(ranks[r]->Prepare(group));
      ranks[r]->Open();
    }
    std::vector<std::thread> threads;
    std::latch connected(kRanks);
    for (int r = 0; r < kRanks; ++r) {
      threads.emplace_back([&, r] {
        for (int group : {0, 1}) ranks[r]->Connect(handles[group], group);
        // An abort would break the first operations of peers that still run
        // them.
        connected.arrive_and_wait();
        first_uses_[r] = world.gpus().FirstUsesOf(r);
        body(*ranks[r], r);
      });
    }
    for (std::thread& thread : threads) thread.join();
    after(world);
    reporter_.Report();
    ranks.clear();
    world.End();
    reporter_.Report();
  }

  // A step that has ended on all ranks: an abort may lose what its rank sent to
  // one that has not noticed the end.
  static void StepAll(Rank& rank, std::latch& stepped) {
    rank.Step(1);
    stepped.arrive_and_wait();
  }

  void Steps() {
    std::atomic<int> come{0};
    With(
        [&](Rank& rank, int) {
          for (int round = 1; round <= kRounds; ++round) {
            rank.Step(round);
            rank.Meets(&come, round);
          }
          rank.Propagates();
          rank.Leave();  // ranks may leave at different times
        },
        [&](FakeGpuWorld& world) {
          for (int r = 0; r < kRanks; ++r) {
            reporter_.Expect(world.gpus().AbortsOf(r).empty(),
                             "aborted though all was done");
            reporter_.Expect(world.gpus().FirstUsesOf(r) == first_uses_[r],
                             "a first use in a step");
          }
        });
  }

  void Graphs() {
    With(
        [&](Rank& rank, int) {
          rank.CaptureStep();
          for (int round = 1; round <= kLaunches; ++round) {
            rank.LaunchStep(round);
            rank.LaunchBesideAVerdict();
            rank.Step(round);
          }
          rank.Leave();  // the graph still exists
          rank.ForgetStep();
        },
        [](FakeGpuWorld&) {});
  }

  void CallsOnHost() {
    With([&](Rank& rank, int) { rank.CallsOnHost("functions on the host"); },
         [](FakeGpuWorld&) {});
  }

  // The gradient's communicator ends while the device works; the verdict's goes
  // on.
  void DestroysBesideWork() {
    std::atomic<bool> open[kRanks] = {};
    With(
        [&](Rank& rank, int r) {
          rank.Step(1);
          rank.Stall(rank.first(), &open[r]);
          rank.LeaveGradient();
          rank.VerdictIsQueued("an operation beside an end");
          open[r] = true;
          rank.Finish(rank.second(), "the verdict beside an end");
        },
        [](FakeGpuWorld&) {});
  }

  // Both communicators hang. The end of one by its destructor waits for the
  // device, and so for the other.
  void AbortsBesideAnAbort() {
    std::latch stepped(kRanks);
    With(
        [&](Rank& rank, int r) {
          StepAll(rank, stepped);
          if (r != 0) return;  // arrives no more
          rank.Hang(rank.verdict(), rank.second());
          rank.Hang(rank.gradient(), rank.first());
          rank.LeaveGradient();  // an abort of it alone
          rank.verdict().Abort("the drill says so");
          const absl::Status ended =
              rank.Await(rank.second(), "the end beside an abort that hangs");
          reporter_.Expect(absl::IsAborted(ended),
                           "beside an abort: completed is not succeeded");
        },
        [](FakeGpuWorld&) {});
  }

  // A caller is in a call that waits for room on a communicator's stream, whose
  // work waits for a lost peer, and another one in a call on another stream.
  void AbortsBehindFullStreams() {
    std::latch stepped(kRanks);
    With(
        [&](Rank& rank, int r) {
          StepAll(rank, stepped);
          if (r != 0) return;  // arrives no more
          std::atomic<bool> posted{false};
          std::thread poster([&] {
            for (int i = 0; i < 8; ++i) {
              rank.Post(rank.gradient(), rank.first());
            }
            posted = true;
          });
          // So that the caller cannot keep it from its stream.
          rank.AwaitFull(1);
          std::atomic<bool> open{false};
          rank.Stall(rank.second(), &open);
          std::thread caller([&] { rank.Fill(rank.second()); });
          rank.AwaitFull(2);
          rank.gradient().Abort("the drill says so");
          rank.Await(posted, "the end behind a full stream");
          poster.join();
          rank.Await(rank.first().Record(), "the stream behind a full stream");
          open = true;
          caller.join();
          reporter_.Expect(absl::IsAborted(rank.first().Synchronize()),
                           "full streams: completed is not succeeded");
        },
        [](FakeGpuWorld&) {}, {.queue_depth = 16});
  }

  void AbortsGraph() {
    With(
        [&](Rank& rank, int r) {
          rank.CaptureStep();
          if (r != 0) return rank.ForgetStep();  // never arrives
          rank.BeginStep();
          rank.gradient().Abort("the drill says so");
          const absl::Status ended =
              rank.Await(rank.first(), "the end of a graph that was aborted");
          reporter_.Expect(absl::IsAborted(ended),
                           "a graph: completed is not succeeded");
          rank.ForgetStep();
        },
        [](FakeGpuWorld&) {});
  }

  void Abort() {
    With(
        [&](Rank& rank, int r) {
          rank.EnlistBucket();
          if (r != 0) return;  // never arrives
          float* const value = memory_.Take(0);
          for (Communicator* group : {&rank.verdict(), &rank.gradient()}) {
            rank.Posted(group->AllReduce(value, value, kCount, DType::kF32,
                                         ReduceOp::kSum, rank.first()));
          }
          rank.Kernel(rank.first(), [] {});  // both are queued by then
          bool ran = false;
          rank.gradient().Abort("the drill says so");
          const absl::Status ended =
              rank.Await(rank.first(), "the end of what was aborted");
          rank.Kernel(rank.first(), [&] { ran = true; });
          (void)rank.Await(rank.first(), "the stream after an abort");
          reporter_.Expect(absl::IsAborted(ended),
                           "completed is not succeeded");
          reporter_.Expect(ran, "the stream does not run on");
          rank.ForgetBucket();
        },
        [&](FakeGpuWorld& world) {
          // Another thread aborts: waiters may be released before.
          while (world.gpus().AbortsOf(0).size() < 2) std::this_thread::yield();
          const std::vector<int> aborts = world.gpus().AbortsOf(0);
          reporter_.Expect(aborts == std::vector<int>{0, 1},
                           "abort order: " + absl::StrJoin(aborts, " "));
        });
  }

  void LosesPeer() {
    With(
        [&](Rank& rank, int r) {
          if (r != 0) return;
          float* const value = memory_.Take(0);
          rank.Posted(rank.gradient().AllReduce(
              value, value, kCount, DType::kF32, ReduceOp::kSum, rank.first()));
          rank.Kernel(rank.first(), [] {});  // it is queued by then
          rank.BreakNetwork();
          const absl::Status ended =
              rank.Await(rank.first(), "the news of a lost peer");
          reporter_.Expect(absl::IsUnavailable(ended),
                           "a lost peer: " + ended.ToString());
        },
        [](FakeGpuWorld&) {});
  }

  // Three revisions; the second uses the memory of the first.
  void Windows() {
    With(
        [&](Rank& rank, int) {
          for (int revision = 1; revision <= 3; ++revision) {
            rank.EnlistBucket(/*same_memory=*/revision == 2);
            rank.StepInBucket(revision);
          }
          rank.PropagatesMuch();
          rank.Leave();  // the window still exists
          rank.ForgetBucket();
        },
        [&](FakeGpuWorld& world) {
          for (int r = 0; r < kRanks; ++r) {
            const std::vector<int> channels = world.gpus().ChannelsOf(r);
            reporter_.Expect(channels == std::vector<int>{2, 0},
                             "channels: " + absl::StrJoin(channels, " "));
          }
        });
  }

  const FaultSuiteOptions options_;
  Reporter reporter_;
  Memory memory_;
  int first_uses_[kRanks] = {};  // once all groups are connected
};

}  // namespace

std::string RunFaultSuite(const FaultSuiteOptions& options) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    alarm(kLifeSeconds);
    Exercise(options, ends[1]).Run();
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  char buffer[4096];
  bool enough = false;
  for (ssize_t got;
       !enough && (got = read(ends[0], buffer, sizeof buffer)) > 0;) {
    said.append(buffer, got);
    enough = options.enough && options.enough(said);
  }
  close(ends[0]);
  if (enough) kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0 && !enough) absl::StrAppend(&said, "died: ", status, "\n");
  return said;
}

}  // namespace lockstep::fake
