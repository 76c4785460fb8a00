#include "bench/training_step/steps.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "bench/figures.h"
#include "bench/shared_memory.h"
#include "lockstep/gradient_sync.h"
#include "lockstep/session.h"
#include "tools/perf/processes.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kStepsMax = 4096;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Memory that the ranks share, apart from the library's.
struct Common : Barrier {
  double step[kStepsMax] = {};
  double exposed[kStepsMax] = {};
  double bare[kStepsMax] = {};
  Overlap form = Overlap::kAuto;
};

// --- Stand-ins for the backward pass
// --------------------------------------------

// Multiplies small matrices, as a layer does: all in the L1 cache.
class Compute {
 public:
  void Run(int64_t rounds) {
    for (int64_t round = 0; round < rounds; ++round) {
      for (int i = 0; i < kWidth; ++i) {
        for (int k = 0; k < kWidth; ++k) {
          const float a = a_[i * kWidth + k];
          for (int j = 0; j < kWidth; ++j) {
            c_[i * kWidth + j] += a * b_[k * kWidth + j];
          }
        }
      }
      b_[round % b_.size()] = c_[0] * 1e-20f;
    }
  }

  // Measures the rounds per second on this core.
  int64_t RoundsPerSecond() {
    std::vector<double> seconds;
    constexpr int64_t kRounds = 2000;
    for (int i = 0; i < 21; ++i) {
      const auto begin = Clock::now();
      Run(kRounds);
      seconds.push_back(SecondsSince(begin));
    }
    return static_cast<int64_t>(kRounds / Median(seconds));
  }

 private:
  static constexpr int kWidth = 32;
  std::vector<float> a_ = std::vector<float>(kWidth * kWidth, 1e-3f);
  std::vector<float> b_ = std::vector<float>(kWidth * kWidth, 1e-3f);
  std::vector<float> c_ = std::vector<float>(kWidth * kWidth, 0);
};

// The part of a backward pass for one parameter.
class Part {
 public:
  Part(const Backward& backward, int parts, int64_t rounds_per_second)
      : kind_(backward.kind),
        seconds_(backward.seconds / parts),
        rounds_(static_cast<int64_t>(static_cast<double>(rounds_per_second) *
                                     seconds_)) {}

  void Begin() { begin_ = Clock::now(); }

  // Runs part `number` since Begin. A sleeping part sleeps until an absolute
  // time, so that delays of the machine do not add up.
  void Run(int number) {
    switch (kind_) {
      case Backward::Kind::kNone: return;
      case Backward::Kind::kComputes: return compute_.Run(rounds_);
      case Backward::Kind::kSleeps:
        std::this_thread::sleep_until(
            begin_ +
            std::chrono::duration_cast<Clock::duration>(
                std::chrono::duration<double>(seconds_ * (number + 1))));
    }
  }

 private:
  const Backward::Kind kind_;
  const double seconds_;
  const int64_t rounds_;
  Compute compute_;
  Clock::time_point begin_;
};

// --- One rank ---------------------------------------------------------------

class Rank {
 public:
  Rank(int rank, const StepsOptions& options, int64_t rounds_per_second,
       const JoinOptions& join, Common& common)
      : rank_(rank),
        options_(options),
        part_(options.backward, static_cast<int>(options.inventory.size()),
              rounds_per_second),
        common_(common),
        session_(*Session::Join(join)),
        sync_(*GradientSync::Create(*session_)) {
    for (const Tensor& tensor : options_.inventory) {
      ids_.push_back(
          *sync_->Register({.name = tensor.name, .shape = tensor.shape}));
    }
    Check(sync_->Seal().ok(), "the ranks did not agree");
    gradients_.resize(ids_.size());
    if (options_.in_arena) {
      sync_->OnMoved([this] { FetchViews(); });
      FetchViews();
    } else {
      MakeBuffers();
    }
  }

  void Run() {
    for (int step = -options_.warm_up; step < options_.steps; ++step) {
      const double bare = options_.also_bare ? Bare() : 0;
      const double seconds = Step();
      if (rank_ != 0 || step < 0) continue;
      common_.step[step] = seconds;
      common_.exposed[step] = sync_->exposed_seconds();
      common_.bare[step] = bare;
      common_.form = sync_->overlap();
    }
    sync_.reset();
    Check(session_->Leave().ok(), "the job did not end well");
  }

 private:
  void FetchViews() {
    for (size_t p = 0; p < ids_.size(); ++p) {
      gradients_[p] = *sync_->Gradient<float>(ids_[p]);
    }
  }

  void MakeBuffers() {
    buffers_.resize(ids_.size());
    for (size_t p = 0; p < ids_.size(); ++p) {
      buffers_[p].resize(options_.inventory[p].elements());
      gradients_[p] = absl::MakeSpan(buffers_[p]);
    }
  }

  void BeginTogether() {
    for (const absl::Span<float> gradient : gradients_) {
      std::fill(gradient.begin(), gradient.end(), 1.0f);
    }
    common_.Wait(options_.ranks);
    part_.Begin();
  }

  double Bare() {
    BeginTogether();
    const auto begin = Clock::now();
    for (size_t part = 0; part < ids_.size(); ++part) {
      part_.Run(static_cast<int>(part));
    }
    common_.Wait(options_.ranks);  // any step waits for the slower rank
    return SecondsSince(begin);
  }

  double Step() {
    BeginTogether();
    const auto begin = Clock::now();
    for (size_t part = 0; part < ids_.size(); ++part) {
      part_.Run(static_cast<int>(part));
      Submit(ids_.size() - 1 - part);
    }
    const auto verdict = sync_->Finish({.samples = 1});
    const double seconds = SecondsSince(begin);
    Check(verdict.ok() && verdict->finite, "a step has failed");
    return seconds;
  }

  void Submit(size_t p) {
    const absl::Span<float> gradient = gradients_[p];
    const absl::Status submitted =
        options_.in_arena ? sync_->Submit(ids_[p])
                          : sync_->Submit(ids_[p], gradient.data(),
                                          gradient.size() * sizeof(float));
    Check(submitted.ok(), "a gradient was refused");
  }

  const int rank_;
  const StepsOptions& options_;
  Part part_;
  Common& common_;
  const std::unique_ptr<Session> session_;
  std::unique_ptr<GradientSync> sync_;
  std::vector<ParameterId> ids_;
  std::vector<std::vector<float>> buffers_;
  std::vector<absl::Span<float>> gradients_;
};

JobSpec SpecOf(const StepsOptions& options) {
  static int number = 0;
  return {.name = absl::StrCat("steps-", getpid(), "-", ++number),
          .mesh = {.axes = {{"data", options.ranks}}},
          .transport = options.transport,
          .buckets = options.buckets,
          .overlap = options.overlap};
}

double MedianOf(const double* values, int count) {
  return Median({values, values + count});
}

}  // namespace

StepSeconds MeasureSteps(const std::string& daemon, const std::string& token,
                         const StepsOptions& options) {
  Check(options.steps > 0 && options.steps <= kStepsMax, "so many steps");
  const SharedMemory<Common> common;
  const JobSpec spec = SpecOf(options);
  const int64_t rounds_per_second =
      options.backward.kind == Backward::Kind::kComputes
          ? Compute().RoundsPerSecond()
          : 0;
  const int failed =
      perf::RunRanks(options.ranks, [&](int rank, perf::HandlePipes&) {
        Rank(rank, options, rounds_per_second,
             {.addresses = {daemon},
              .worker = absl::StrCat("worker-", rank),
              .spec = spec,
              .token = token},
             *common)
            .Run();
        return 0;
      });
  Check(failed == 0, "a rank has failed");
  return {.step = MedianOf(common->step, options.steps),
          .exposed = MedianOf(common->exposed, options.steps),
          .bare = MedianOf(common->bare, options.steps),
          .form = common->form};
}

}  // namespace lockstep::bench
