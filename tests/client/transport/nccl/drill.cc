#include "tests/client/transport/nccl/drill.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <deque>
#include <limits>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/deadline.h"

namespace lockstep::fake {
namespace {

using transport::nccl::CudaStream;

constexpr int kRanks = 2;
constexpr int kRounds = 12;
constexpr int kLayers = 30;
constexpr size_t kCount = 7;

// Says what went wrong, on a pipe; what is late ends the process.
class Reporter {
 public:
  explicit Reporter(int to) : to_(to) {}

  void Say(const std::string& what) {
    const std::string line = what + "\n";
    (void)!write(to_, line.data(), line.size());
  }
  void Expect(bool holds, const std::string& what) {
    if (!holds) Say(what);
  }
  [[noreturn]] void Late(const std::string& what) {
    Say("late: " + what);
    if (world_ != nullptr) Tell();
    _exit(0);
  }

  // Whose violations are told: set while no rank runs.
  void set_world(FakeGpuWorld* world) { world_ = world; }
  void Tell() {
    for (const std::string& violation : world_->gpus().violations()) {
      Say("violation: " + violation);
    }
  }

 private:
  const int to_;
  FakeGpuWorld* world_ = nullptr;
};

// Buffers that outlive a mistake: who writes too late writes here.
class Memory {
 public:
  float* Take(float value) {
    MutexLock lock(&mutex_);
    buffers_.emplace_back(kCount, value);
    return buffers_.back().data();
  }

 private:
  Mutex mutex_;
  std::deque<std::vector<float>> buffers_ ABSL_GUARDED_BY(mutex_);
};

// One rank's side of the exercise.
class Rank {
 public:
  Rank(FakeGpuWorld* world, Reporter* reporter, Memory* memory, int rank,
       absl::Duration patience)
      : world_(*world),
        reporter_(*reporter),
        memory_(*memory),
        rank_(rank),
        patience_(patience) {}

  void Connect(const std::vector<std::string>& handles, int group) {
    auto made = pending_[group]->Connect(handles, patience_);
    if (!made.ok()) reporter_.Late("connect: " + made.status().ToString());
    groups_[group] = *std::move(made);
  }
  std::string Prepare(int group) {
    auto made = world_.at(rank_).Prepare(
        {.name = group == 0 ? "verdict" : "g", .rank = rank_, .size = kRanks});
    if (!made.ok()) reporter_.Late("prepare: " + made.status().ToString());
    pending_[group] = *std::move(made);
    return pending_[group]->handle();
  }
  void Open() {
    first_ = world_.MakeStream(rank_, "first");
    second_ = world_.MakeStream(rank_, "second");
  }

  Communicator& verdict() { return *groups_[0]; }
  Communicator& gradient() { return *groups_[1]; }
  Stream& first() { return *first_; }
  Stream& second() { return *second_; }

  void Kernel(Stream& stream, std::function<void()> work) {
    world_.Enqueue(stream, std::move(work));
  }
  void Posted(const absl::Status& status) {
    reporter_.Expect(status.ok(), "refused: " + status.ToString());
  }
  absl::Status Await(Stream& stream, const char* what) {
    if (!stream.Record().Wait(patience_).ok()) reporter_.Late(what);
    return stream.Synchronize();
  }
  void Finish(Stream& stream, const char* what) {
    const absl::Status ended = Await(stream, what);
    reporter_.Expect(ended.ok(), absl::StrCat(what, ": ", ended.ToString()));
  }
  void BreakNetwork() { world_.gpus().BreakNetworkOf(rank_); }
  void ExpectValue(const char* what, float value, float expected) {
    reporter_.Expect(value == expected,
                     absl::StrCat("wrong value: ", what, " is ", value,
                                  " and should be ", expected));
  }
  void Leave() {
    for (auto& group : groups_) group.reset();
  }

  // What a step is: gradients that a kernel makes, their mean, which a kernel
  // uses, beside a message and a verdict on another stream.
  void Step(int round);
  void Propagates();
  void Meets(std::atomic<int>* come, int round);

 private:
  FakeGpuWorld& world_;
  Reporter& reporter_;
  Memory& memory_;
  const int rank_;
  const absl::Duration patience_;
  std::unique_ptr<transport::PendingGroup> pending_[2];
  std::unique_ptr<Communicator> groups_[2];
  std::unique_ptr<Stream> first_, second_;
};

void Rank::Step(int round) {
  const float mine = static_cast<float>(10 * round + rank_);
  float* const gradient = memory_.Take(-1);
  float* const mean = memory_.Take(0);
  float* const used = memory_.Take(0);
  float* const given = memory_.Take(mine);
  float* const got = memory_.Take(0);
  float* const stamp = memory_.Take(0);
  float* const seen = memory_.Take(0);
  // A backward pass is long: who does not wait for it is early.
  for (int layer = 0; layer < kLayers; ++layer) Kernel(first(), [] {});
  Kernel(first(), [=] { std::fill_n(gradient, kCount, mine); });
  Kernel(second(), [=] { *stamp = 1; });
  Posted(this->gradient().AllReduce(gradient, mean, kCount, DType::kF32,
                                    ReduceOp::kMean, first()));
  Posted(verdict().AllReduce(stamp, stamp, 1, DType::kF32, ReduceOp::kSum,
                             second()));
  Posted(this->gradient().Group([&] {
    absl::Status posted =
        this->gradient().Send(given, kCount, DType::kF32, 1 - rank_, first());
    posted.Update(
        this->gradient().Recv(got, kCount, DType::kF32, 1 - rank_, first()));
    return posted;
  }));
  Kernel(first(), [=] { std::copy_n(mean, kCount, used); });
  Kernel(second(), [=] { *seen = *stamp; });
  Finish(first(), "a gradient's step");
  Finish(second(), "a verdict's step");
  ExpectValue("the mean", used[0], static_cast<float>(10 * round) + 0.5f);
  ExpectValue("the mean's end", used[kCount - 1], used[0]);
  ExpectValue("the verdict's sum", *seen, kRanks);
  ExpectValue("what came", got[0], static_cast<float>(10 * round + 1 - rank_));
}

void Rank::Propagates() {
  float* const in = memory_.Take(2);
  float* const out = memory_.Take(0);
  if (rank_ == 1) in[0] = std::numeric_limits<float>::quiet_NaN();
  Posted(
      gradient().AllReduce(in, out, 2, DType::kF32, ReduceOp::kMax, first()));
  Finish(first(), "a maximum");
  reporter_.Expect(std::isnan(out[0]), "wrong value: the maximum lost a NaN");
  ExpectValue("the maximum", out[1], 2);
}

void Rank::Meets(std::atomic<int>* come, int round) {
  float* const seen = memory_.Take(0);
  Kernel(first(), [=] { ++*come; });
  Posted(gradient().Barrier(first()));
  Kernel(first(), [=] { *seen = static_cast<float>(*come); });
  Posted(gradient().Barrier(first()));
  Finish(first(), "a barrier");
  reporter_.Expect(*seen == static_cast<float>(kRanks * round),
                   "a barrier did not hold");
}

// The whole exercise, for one world.
class Exercise {
 public:
  Exercise(const DrillOptions& options, int to)
      : options_(options), reporter_(to) {}

  void Run() {
    Steps();
    Abort();
    LosesPeer();
  }

 private:
  using Body = std::function<void(Rank&, int)>;

  // Two connected ranks do `body`; then nothing may have been violated.
  void With(const Body& body, const std::function<void(FakeGpuWorld&)>& after) {
    FakeGpuWorld world({.seed = options_.seed}, options_.decorate);
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
    for (int r = 0; r < kRanks; ++r) {
      threads.emplace_back([&, r] {
        for (int group : {0, 1}) ranks[r]->Connect(handles[group], group);
        body(*ranks[r], r);
      });
    }
    for (std::thread& thread : threads) thread.join();
    after(world);
    reporter_.Tell();
    ranks.clear();
    reporter_.Tell();
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
          rank.Leave();  // whoever is done may go
        },
        [&](FakeGpuWorld& world) {
          for (int r = 0; r < kRanks; ++r) {
            reporter_.Expect(world.gpus().AbortsOf(r).empty(),
                             "aborted though all was done");
          }
        });
  }

  void Abort() {
    With(
        [&](Rank& rank, int r) {
          if (r != 0) return;  // never comes
          float* const value = memory_.Take(0);
          for (Communicator* group : {&rank.verdict(), &rank.gradient()}) {
            rank.Posted(group->AllReduce(value, value, kCount, DType::kF32,
                                         ReduceOp::kSum, rank.first()));
          }
          rank.Kernel(rank.first(), [] {});  // both are queued by now
          bool ran = false;
          rank.gradient().Abort("the drill says so");
          const absl::Status ended =
              rank.Await(rank.first(), "the end of what was aborted");
          rank.Kernel(rank.first(), [&] { ran = true; });
          (void)rank.Await(rank.first(), "the stream after an abort");
          reporter_.Expect(absl::IsAborted(ended),
                           "completed is not succeeded");
          reporter_.Expect(ran, "the stream does not run on");
        },
        [&](FakeGpuWorld& world) {
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
          rank.Kernel(rank.first(), [] {});  // it is queued by now
          rank.BreakNetwork();
          const absl::Status ended =
              rank.Await(rank.first(), "the news of a lost peer");
          reporter_.Expect(absl::IsUnavailable(ended),
                           "a lost peer: " + ended.ToString());
        },
        [](FakeGpuWorld&) {});
  }

  const DrillOptions options_;
  Reporter reporter_;
  Memory memory_;
};

}  // namespace

std::string Drill(const DrillOptions& options) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    Exercise(options, ends[1]).Run();
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  char buffer[4096];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;) {
    said.append(buffer, got);
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) absl::StrAppend(&said, "died: ", status, "\n");
  return said;
}

}  // namespace lockstep::fake
