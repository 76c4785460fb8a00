// Launches by the program, where a rank falls behind, is late with its journal,
// or hears of a pause before the others. Nothing is found in the engine, and
// every fault that is injected.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/client/gradient/damaged_record.h"
#include "tests/client/gradient/replay_rank.h"
#include "tests/support/case_name.h"
#include "tests/support/forwarding_tables.h"
#include "tests/support/sanitizers.h"

namespace lockstep::gradient {
namespace {

constexpr int kRanks = 2;
constexpr uint64_t kLaunches = 8;
constexpr uint64_t kFirstFull = 2, kFirstNotFull = 5;

// What happens to the job, and what is done wrong, in one place each.
struct ReplayMistake {
  std::string name = "none";
  enum class Event {
    kBehind,  // rank 1 receives a damaged record in a launch that rank 0 passes
    kFull,    // rank 1 has no room in its journal for a while
    kPause,   // rank 1 hears of a pause that rank 0 never hears of
  } event = Event::kBehind;
  // The copies of reduced gradients go on behind a gate that failed.
  bool always_copies = false;
  // There are no copies.
  bool never_copies = false;
  // A rank whose journal is full keeps it to itself.
  bool hides_a_full_journal = false;
  // A rank takes the command that it holds for everybody's.
  bool asks_nobody = false;
};
using Event = ReplayMistake::Event;

class MistakenReplays final : public fake::ForwardingKernels {
 public:
  MistakenReplays(std::shared_ptr<KernelApi> inner, fake::FakeGpus* gpus,
                  const ReplayMistake& mistake)
      : ForwardingKernels(std::move(inner)), gpus_(*gpus), mistake_(mistake) {}

  Result WriteStepRecord(const kernels::GateContext& context,
                         kernels::FiniteCheck* norm,
                         kernels::StepRecord* record,
                         StreamHandle stream) override {
    const Result written =
        ForwardingKernels::WriteStepRecord(context, norm, record, stream);
    if (mistake_.event != Event::kFull || context.rank != 1) return written;
    gpus_.LaunchKernel(stream, [own = gpus_.Reach(record), context,
                                control = gpus_.Reach(context.control)] {
      const uint64_t replay = control->replays;
      if (replay < kFirstFull || replay >= kFirstNotFull) return;
      own->flags |= kernels::StepRecord::kJournalFull;
      own->checksum = kernels::ChecksumOf(*own, context.rank);
    });
    return written;
  }

  Result GateStep(const kernels::GateContext& context,
                  const kernels::StepRecord* own,
                  const kernels::StepRecord* records, VerdictScalars* scalars,
                  StreamHandle stream) override {
    auto* const all = gpus_.Reach(const_cast<kernels::StepRecord*>(records));
    const bool changes =
        context.replays != nullptr && context.world > 1 &&
        (mistake_.hides_a_full_journal || mistake_.asks_nobody);
    if (changes) {
      gpus_.LaunchKernel(stream, [all, context, mistake = mistake_] {
        const int other = 1 - context.rank;
        kernels::StepRecord& record = all[other];
        if (mistake.hides_a_full_journal) {
          record.flags &= ~uint64_t{kernels::StepRecord::kJournalFull};
        }
        if (mistake.asks_nobody) {
          record.flags = all[context.rank].flags;
          record.command_word = all[context.rank].command_word;
        }
        record.checksum = kernels::ChecksumOf(record, other);
      });
    }
    return ForwardingKernels::GateStep(context, own, records, scalars, stream);
  }

  Result CommitCopy(const VerdictScalars* verdict, const void* from, void* to,
                    size_t bytes, StreamHandle stream) override {
    if (mistake_.never_copies) return Result::kSuccess;
    if (mistake_.always_copies) {
      gpus_.LaunchKernel(
          stream, [may = gpus_.Reach(const_cast<VerdictScalars*>(verdict))] {
            may->commit = may->finite = 1;
          });
    }
    return ForwardingKernels::CommitCopy(verdict, from, to, bytes, stream);
  }

 private:
  fake::FakeGpus& gpus_;
  const ReplayMistake mistake_;
};

class ReplayDrill {
 public:
  ReplayDrill(const ReplayMistake& mistake, uint64_t seed)
      : mistake_(mistake),
        seed_(seed),
        backend_(seed,
                 [this](int, transport::nccl::Tables* tables) {
                   tables->kernels = std::make_shared<MistakenReplays>(
                       tables->kernels, &backend_.gpus(), mistake_);
                   if (mistake_.event != Event::kBehind) return;
                   tables->kernels = std::make_shared<DamagedRecord>(
                       tables->kernels, &backend_.gpus(), &first_,
                       /*launch=*/seed_ % 4);
                 }),
        job_(&backend_, {.world = kRanks,
                         .parameters = kThree,
                         .on_failure = [this](int, const absl::Status& error) {
                           job_.AbortAll(error);
                         }}) {}

  // What is wrong, in words.
  std::string Run() {
    job_.Run([&](int rank, Engine& engine) { Train(rank, engine); });
    if (mistake_.event == Event::kBehind &&
        !job_.RollForwardWhoIsBehind(reports_)) {
      Post("nobody is behind");
    }
    Compare();
    for (const std::string& violation : backend_.violations()) Post(violation);
    return said_;
  }

 private:
  float BatchOf(int rank, uint64_t launch) const {
    return static_cast<float>((seed_ + 3 * launch + 7 * rank) % 32 + 1);
  }

  void Train(int rank, Engine& engine) {
    ReplayRank mine(&job_, &backend_, rank);
    ASSERT_EQ(mine.Capture(), absl::OkStatus());
    if (mistake_.event == Event::kPause && rank == 1) {
      engine.Receive({.commands = {Command::kPause}, .number = 1});
    }
    for (uint64_t launch = 0; launch < kLaunches; ++launch) {
      mine.Launch(BatchOf(rank, launch));
    }
    if (mistake_.event != Event::kBehind) mine.AwaitDecided(kLaunches);
    absl::StatusOr<ReplayedVerdict> next;
    const absl::Duration timeout = mistake_.event == Event::kBehind
                                       ? absl::Seconds(20)
                                       : absl::Milliseconds(50);
    while ((next = mine.Next(timeout)).ok()) {
      passed_[rank].push_back(next->launch);
    }
    (void)mine.stream().Synchronize();
    weights_[rank] = mine.weights()[0];
    mine.DestroyGraphs();
    if (mistake_.event != Event::kBehind) {
      engine.Abort(absl::CancelledError("over"));
    }
    const auto report = engine.Report();
    ASSERT_TRUE(report.ok()) << report.status();
    reports_[rank] = *report;
  }

  void Compare() {
    const int ahead =
        reports_[0].position.step >= reports_[1].position.step ? 0 : 1;
    float sum = 0;
    for (const uint64_t launch : passed_[ahead]) {
      sum += BatchOf(0, launch) + BatchOf(1, launch);
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      float weight = weights_[rank];
      if (reports_[rank].position.step < reports_[ahead].position.step) {
        weight += job_.Get(rank, 0)[0];
      }
      if (weight == sum) continue;
      Post(absl::StrCat("rank ", rank, " has ", weight, ", not ", sum));
    }
  }

  void Post(const std::string& what) { absl::StrAppend(&said_, what, "; "); }

  const ReplayMistake mistake_;
  const uint64_t seed_;
  FirstControl first_{nullptr};
  FakeGpuBackend backend_;
  BackendJob job_;
  std::vector<protocol::EpochReport> reports_{kRanks};
  std::vector<uint64_t> passed_[kRanks];
  float weights_[kRanks] = {};
  std::string said_;
};

class ReplayDrillTest : public testing::TestWithParam<Event> {};

INSTANTIATE_TEST_SUITE_P(Each, ReplayDrillTest,
                         testing::Values(Event::kBehind, Event::kFull,
                                         Event::kPause));

TEST_P(ReplayDrillTest, NothingIsFound) {
  for (uint64_t seed = 0; seed < (kUnderThreadSanitizer ? 4 : 12); ++seed) {
    EXPECT_EQ(ReplayDrill({.event = GetParam()}, seed).Run(), "")
        << "seed " << seed;
  }
}

class ReplayMistakeTest : public testing::TestWithParam<ReplayMistake> {};

TEST_P(ReplayMistakeTest, IsNoticed) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    if (!ReplayDrill(GetParam(), seed).Run().empty()) return;
  }
  FAIL() << "nothing was found with " << GetParam().name;
}

INSTANTIATE_TEST_SUITE_P(
    Replay, ReplayMistakeTest,
    testing::Values(ReplayMistake{.name = "copies go on behind a failed gate",
                                  .always_copies = true},
                    ReplayMistake{.name = "reduced gradients are not copied",
                                  .never_copies = true},
                    ReplayMistake{.name = "a full journal is kept secret",
                                  .event = Event::kFull,
                                  .hides_a_full_journal = true},
                    ReplayMistake{.name = "a rank pauses by its own word",
                                  .event = Event::kPause,
                                  .asks_nobody = true}),
    [](const auto& info) { return CaseName(info.param.name); });

}  // namespace
}  // namespace lockstep::gradient
