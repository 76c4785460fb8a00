// Values that were loaded, in a job with sync: reduce_scatter: ranks loaded
// their slices only, so what they hold of other slices differs until it is
// gathered.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/gradient_sync.h"
#include "tests/client/state/checkpointer_job.h"

namespace lockstep::session {
namespace {

// A parameter "w" whose values are the library's.
struct SlicedRank {
  explicit SlicedRank(Session& session)
      : sync(*GradientSync::Create(session)),
        w(*sync->Register({.name = "w", .shape = {37}})) {
    EXPECT_EQ(sync->RegisterState(w, {}), absl::OkStatus());
  }
  absl::Status Seal() { return sync->Seal(); }

  absl::Span<float> values() { return *sync->Value<float>(w); }
  // As a program does that initialises before it loads.
  void Fill(float value) { std::fill(values().begin(), values().end(), value); }
  absl::Status Gather() {
    absl::Status status = sync->GatherParameters();
    if (status.ok()) status = sync->AwaitParameter(w);
    return status;
  }
  absl::Status Train() {
    for (int step = 0; step < 3; ++step) {
      absl::Status status = Gather();
      if (status.ok()) status = sync->Submit(w);
      if (status.ok()) status = sync->Finish().status();
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  std::unique_ptr<GradientSync> sync;
  ParameterId w;
};

class LoadedValuesTest : public CheckpointerJobFixture {
 protected:
  LoadedValuesTest() {
    spec_.mesh = {{{"data", kWorld}}};
    spec_.sync = SyncMode::kReduceScatter;
  }
  std::vector<std::string> WarningsOf(const std::string& job) {
    return server_.Describe(job)->warnings;
  }
};

TEST_F(LoadedValuesTest, OfOtherRanksSlicesGiveNoWarning) {
  JoinAll();
  ForAllWithCheckpointer<SlicedRank>(
      [](Session&, AsyncCheckpointer& checkpointer, SlicedRank& rank) {
        rank.Fill(0.25f);
        EXPECT_EQ(checkpointer.Save({.step = 10}), absl::OkStatus());
        EXPECT_EQ(checkpointer.Wait(), absl::OkStatus());
      });

  JoinLaterJob(spec_.mesh);
  ForAllWithCheckpointer<SlicedRank>(
      [](Session&, AsyncCheckpointer& checkpointer, SlicedRank& rank) {
        rank.Fill(7);
        ASSERT_TRUE(checkpointer.Load().ok());
        EXPECT_EQ(rank.Train(), absl::OkStatus());
        EXPECT_THAT(rank.values(), testing::Each(0.25f));
      });
  EXPECT_THAT(WarningsOf("later"), testing::IsEmpty());
  LeaveAll();
}

// What the load makes good.
TEST_F(LoadedValuesTest, OtherInitialValuesWithoutALoadGiveAWarning) {
  JoinAll();
  ForAllWithCheckpointer<SlicedRank>(
      [](Session& session, AsyncCheckpointer&, SlicedRank& rank) {
        rank.Fill(session.rank() == 2 ? 7.0f : 0.25f);
        EXPECT_EQ(rank.Train(), absl::OkStatus());
      });
  EXPECT_THAT(WarningsOf("job"),
              testing::ElementsAre(testing::HasSubstr("rank 2")));
  LeaveAll();
}

}  // namespace
}  // namespace lockstep::session
