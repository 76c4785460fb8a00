// An end of the epoch at any moment, where devices decide: a rank fails, its
// communicators are aborted, and the others hear of it later. Nothing is found
// in the engine, and every fault that is injected.

#include <atomic>
#include <iostream>
#include <latch>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "client/transport/nccl/cuda_arena.h"
#include "client/transport/nccl/cuda_stream.h"
#include "gtest/gtest.h"
#include "kernels/step_gate.h"
#include "plan/records.h"
#include "tests/client/gradient/device_faults.h"
#include "tests/client/gradient/stream_rank.h"
#include "tests/support/case_name.h"
#include "tests/support/forwarding_tables.h"
#include "tests/support/sanitizers.h"

namespace lockstep::gradient {
namespace {

using transport::nccl::CudaStream;

constexpr int kRanks = 2;

// What is done wrong, in one place each.
struct GateMistake {
  std::string name = "none";
  ComputeFault compute = ComputeFault::kNone;
  // The gate finds every record valid, whatever was gathered.
  bool takes_any_record = false;
  // The gate allows the update, and its entry in the journal is not complete.
  bool forgets_the_journal = false;
  // The program writes its next gradients though FinishAsync has failed.
  bool launches_anyway = false;
  // The program uses the views of the first step in all steps.
  bool keeps_its_views = false;
  // Buckets are in windows, to which an aborted peer may write; and it is
  // forgotten that they need a spare set.
  bool windows = false;
  bool forgets_the_spare_set = false;
  std::vector<int> run_ahead = {0, 1, 2};  // where it is one
};

// Where a rank's device waits between its record and the gather.
struct Hold {
  uint64_t step = 0;
  std::atomic<bool> begun{false};
  std::atomic<bool> over{false};
};

class MistakenGate final : public fake::ForwardingKernels {
 public:
  // `hold`: null, or that of this rank.
  MistakenGate(std::shared_ptr<KernelApi> inner, fake::FakeGpus* gpus,
               const GateMistake& mistake, Hold* hold)
      : ForwardingKernels(std::move(inner)),
        gpus_(*gpus),
        mistake_(mistake),
        hold_(hold) {}

  Result WriteStepRecord(const kernels::GateContext& context,
                         kernels::FiniteCheck* norm,
                         kernels::StepRecord* record,
                         StreamHandle stream) override {
    const Result launched =
        ForwardingKernels::WriteStepRecord(context, norm, record, stream);
    if (hold_ == nullptr || records_++ != hold_->step) return launched;
    gpus_.StallUntil(stream, [hold = hold_] {
      hold->begun = true;
      return hold->over.load();
    });
    return launched;
  }

  Result GateStep(const kernels::GateContext& context,
                  const kernels::StepRecord* own,
                  const kernels::StepRecord* records, VerdictScalars* scalars,
                  StreamHandle stream) override {
    auto* const control = gpus_.Reach(context.control);
    auto* const all = gpus_.Reach(const_cast<kernels::StepRecord*>(records));
    if (mistake_.takes_any_record) {
      gpus_.LaunchKernel(stream, [=] {
        for (int rank = 0; rank < context.world; ++rank) {
          all[rank].id = kernels::StepRecordId(context, *control);
          all[rank].checksum = kernels::ChecksumOf(all[rank], rank);
        }
      });
    }
    const Result launched =
        ForwardingKernels::GateStep(context, own, records, scalars, stream);
    if (mistake_.forgets_the_journal) {
      gpus_.LaunchKernel(stream, [=] {
        kernels::EntryOf(context, control->entries - 1)->sequence = 0;
      });
    }
    return launched;
  }

 private:
  fake::FakeGpus& gpus_;
  const GateMistake mistake_;
  Hold* const hold_;
  uint64_t records_ = 0;
};

// With odd seeds each rank submits from a buffer, so the update may be enqueued
// before the host knows the verdict; else gradients are in their views, and the
// host waits for the verdict if there is one set of buckets. The update adds
// w's gradient to the weights. With every other pair of seeds it is a mean of
// gradients that are twice as large. With one seed in three the rank fails
// between its record and the gather: an aborted gather may send the record, and
// the other rank passes alone.
class EndingJob {
 public:
  EndingJob(const GateMistake& mistake, int run_ahead, uint64_t seed)
      : mistake_(mistake),
        run_ahead_(run_ahead),
        seed_(seed),
        random_(seed),
        end_(random_() % 3),
        first_(static_cast<int>(random_() % kRanks)),
        hold_{.step = end_},
        backend_(seed,
                 [this](int rank, transport::nccl::Tables* tables) {
                   const bool holds = fails_in_between() && rank == first_;
                   tables->kernels = std::make_shared<MistakenGate>(
                       tables->kernels, &backend_.gpus(), mistake_,
                       holds ? &hold_ : nullptr);
                 }),
        job_(&backend_, OptionsFor(mistake.compute, run_ahead)) {}

  // What is wrong, in words.
  std::string Run() {
    if (!plan::EndsByRecords(job_.plan())) Post("the host decides");
    const bool is_late = random_() % 2 == 0 && !fails_in_between();
    const uint64_t turns = random_() % 300;
    const uint64_t later = random_() % 300;
    std::latch near_the_end(kRanks);
    std::thread failure([&] {
      // After a mistake a rank may wait for a verdict before it is near.
      const absl::Time by = absl::Now() + absl::Seconds(10);
      while (!(fails_in_between() ? hold_.begun.load()
                                  : near_the_end.try_wait()) &&
             absl::Now() < by) {
        std::this_thread::yield();
      }
      Turn(turns);
      job_.engine(first_).Abort(absl::AbortedError("this rank has failed"));
      hold_.over = true;
      has_failed_ = true;
      if (is_late || fails_in_between()) AwaitMove(1 - first_, end_);
      Turn(later);
      job_.AbortAll(absl::AbortedError("over"));
    });
    job_.Run([&](int rank, Engine&) {
      Train(rank, end_, is_late && rank != first_, is_late && rank == first_,
            near_the_end);
    });
    failure.join();
    Compare();
    for (const std::string& violation : backend_.violations()) Post(violation);
    return said_;
  }

  bool was_behind() const { return was_behind_; }

 private:
  BackendJob::Options OptionsFor(ComputeFault fault, int run_ahead) {
    return {
        .parameters = {{.name = "w",
                        .shape = {elements()},
                        .op = is_mean() ? ReduceOp::kMean : ReduceOp::kSum}},
        .run_ahead = run_ahead,
        .windows = mistake_.windows,
        .has_spare_set = !mistake_.forgets_the_spare_set,
        .decorate = [fault](int,
                            std::unique_ptr<transport::DeviceContext> inner) {
          return Spoil(fault, std::move(inner));
        }};
  }

  // Small buckets have no windows.
  int64_t elements() const {
    return mistake_.windows ? transport::nccl::kNcclMemoryBytesMin / 4 : 3;
  }
  bool in_views() const { return seed_ % 2 == 0; }
  bool is_mean() const { return seed_ / 2 % 2 == 0; }
  bool fails_in_between() const { return seed_ % 3 == 0; }
  bool waits_for_verdicts() const { return in_views() && run_ahead_ == 0; }

  void Post(const std::string& what) {
    MutexLock lock(&mutex_);
    said_ += what + "\n";
  }

  static void Turn(uint64_t turns) {
    for (uint64_t i = 0; i < turns; ++i) std::this_thread::yield();
  }

  // Until the rank has passed the step, or failed; or neither for a while.
  void AwaitMove(int rank, uint64_t step) {
    Engine& engine = job_.engine(rank);
    const absl::Time by = absl::Now() + absl::Milliseconds(50);
    while (engine.step() <= step && engine.healthy() && absl::Now() < by) {
      std::this_thread::yield();
    }
  }

  // `is_late`: the device begins step `end` once the other rank has failed,
  // with all of the step in its streams.
  void Train(int rank, uint64_t end, bool is_late, bool others_are_late,
             std::latch& near_the_end) {
    Engine& engine = job_.engine(rank);
    const auto stream = job_.MakeStream(rank);
    const ArenaBuffer buffer =
        job_.Buffer(rank, std::vector<float>(elements()));
    const ArenaBuffer weights = job_.Buffer(rank, {0, 0, 0});
    float* const sums = job_.Floats(weights.data());
    std::byte* first_view = nullptr;
    bool is_near = false;
    for (uint64_t step = 0;; ++step) {
      if (step == end && !others_are_late) {
        is_near = true;
        near_the_end.count_down();
      }
      if (step == end && is_late) {
        backend_.gpus().StallUntil(static_cast<CudaStream&>(*stream).handle(),
                                   [this] { return has_failed_.load(); });
      }
      const auto value = static_cast<float>((rank + 1) * (step + 1) *
                                            (is_mean() ? kRanks : 1));
      const auto view = engine.View(0);
      if (!view.ok()) break;
      if (first_view == nullptr) first_view = view->data();
      std::byte* const at =
          mistake_.keeps_its_views ? first_view : view->data();
      const float* const reduced = job_.Floats(at);
      float* const values = job_.Floats(in_views() ? at : buffer.data());
      job_.Enqueue(*stream, [values, value, n = elements()] {
        std::fill_n(values, n, value);
      });
      absl::Status done =
          engine.Submit(0, in_views() ? nullptr : buffer.data(),
                        in_views() ? 0 : buffer.bytes(), stream.get());
      if (!done.ok()) break;
      // Finish waits for the verdict.
      if (step == end && others_are_late && waits_for_verdicts()) {
        is_near = true;
        near_the_end.count_down();
      }
      const auto pending =
          engine.Finish({.samples = 1}, std::numeric_limits<double>::infinity(),
                        stream.get());
      if (!pending.ok()) {
        if (mistake_.launches_anyway) {
          job_.Enqueue(*stream, [values] { std::fill_n(values, 3, -1.0f); });
        }
        break;
      }
      // All of the step is in its streams.
      if (step == end && others_are_late && !is_near) {
        is_near = true;
        near_the_end.count_down();
      }
      const auto* const scalars = reinterpret_cast<const VerdictScalars*>(
          job_.Reach((*pending)->scalars()));
      job_.Enqueue(*stream, [scalars, sums, reduced] {
        if (!MayUpdate(*scalars)) return;
        for (int i = 0; i < 3; ++i) sums[i] += reduced[i];
      });
    }
    if (!is_near) near_the_end.count_down();  // a mistake has ended it before
    (void)stream->Synchronize();
    const auto report = engine.Report();
    if (!report.ok()) return Post("rank " + std::to_string(rank) + " is lost");
    reports_[rank] = *report;
    float sum = 0;
    for (uint64_t s = 0; s < report->position.step; ++s) {
      sum += static_cast<float>(3 * (s + 1));
    }
    for (int i = 0; i < 3; ++i) {
      if (sums[i] != sum) Post("a weight is not that of the steps passed");
    }
  }

  void Compare() {
    const uint64_t steps[] = {reports_[0].position.step,
                              reports_[1].position.step};
    if (steps[0] == steps[1]) return;
    was_behind_ = true;
    const int behind = steps[0] < steps[1] ? 0 : 1;
    if (steps[1 - behind] > steps[behind] + 1) return Post("two steps apart");
    if (reports_[behind].position.phase != protocol::Phase::kVerdict) {
      Post("the rank behind has not contributed");
    }
    const auto passed =
        job_.engine(behind).RollForward(reports_[1 - behind].verdict);
    if (!passed.ok()) return Post(std::string(passed.status().message()));
    for (const float gradient : job_.Get(behind, 0)) {
      if (gradient != static_cast<float>(3 * (steps[behind] + 1))) {
        return Post("the gradients of the rank behind are damaged");
      }
    }
  }

  const GateMistake mistake_;
  const int run_ahead_;
  const uint64_t seed_;
  std::mt19937_64 random_;
  const uint64_t end_;  // the step in which a rank fails
  const int first_;     // the rank
  Hold hold_;
  Mutex mutex_;
  std::string said_ ABSL_GUARDED_BY(mutex_);
  protocol::EpochReport reports_[kRanks];
  bool was_behind_ = false;
  std::atomic<bool> has_failed_{false};
  FakeGpuBackend backend_;
  BackendJob job_;
};

class GateDrillTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(RunAhead, GateDrillTest, testing::Values(0, 1, 2));

TEST_P(GateDrillTest, FindsNothingInTheEngine) {
  const uint64_t seeds = kUnderThreadSanitizer ? 5 : 60;
  int behind = 0;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    EndingJob job({}, GetParam(), seed);
    ASSERT_EQ(job.Run(), "") << "seed " << seed;
    behind += job.was_behind() ? 1 : 0;
  }
  std::cout << "a rank was a step behind " << behind << " times\n";
}

TEST_P(GateDrillTest, FindsNothingWithWindows) {
  const uint64_t seeds = kUnderThreadSanitizer ? 5 : 60;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    ASSERT_EQ(EndingJob({.windows = true}, GetParam(), seed).Run(), "")
        << "seed " << seed;
  }
}

class GateMistakeTest : public testing::TestWithParam<GateMistake> {};

TEST_P(GateMistakeTest, IsNoticed) {
  if (kUnderThreadSanitizer) {
    GTEST_SKIP() << "the mistakes are found without it, and some are races";
  }
  for (const int run_ahead : GetParam().run_ahead) {
    std::string said;
    uint64_t seed = 0;
    while (said.empty() && seed < 1000) {
      said = EndingJob(GetParam(), run_ahead, ++seed).Run();
    }
    EXPECT_NE(said, "") << "run_ahead " << run_ahead;
    std::cout << "run_ahead " << run_ahead << ": noticed with seed " << seed
              << ": " << said;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Gate, GateMistakeTest,
    testing::Values(
        GateMistake{.name = "records do not ask the host's stop word",
                    .compute = ComputeFault::kIgnoresStop},
        GateMistake{.name = "scalars commit, whatever the gate says",
                    .compute = ComputeFault::kAlwaysCommits},
        GateMistake{.name = "the gate takes any record",
                    .takes_any_record = true},
        GateMistake{.name = "the gate forgets the journal",
                    .forgets_the_journal = true},
        GateMistake{.name = "a program writes gradients of a step that failed",
                    .launches_anyway = true,
                    .run_ahead = {0}},
        GateMistake{.name = "an aborted peer writes to windows",
                    .windows = true,
                    .forgets_the_spare_set = true,
                    .run_ahead = {0}},  // else it takes long
        GateMistake{.name = "a program keeps the views of one step",
                    .keeps_its_views = true,
                    .run_ahead = {1, 2}}),
    [](const auto& info) { return CaseName(info.param.name); });

}  // namespace
}  // namespace lockstep::gradient
