// Halo exchanges in whole jobs: the real coordinator core, the in-process
// transport.

#include <array>
#include <atomic>
#include <numeric>
#include <thread>
#include <vector>

#include "lockstep/halo_exchange.h"
#include "tests/client/session/inproc_job_fixture.h"

namespace lockstep::session {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Rank r is data r / 2, lat r % 2.
class HaloJobTest : public InprocJobFixture {
 protected:
  HaloJobTest() { spec_.mesh = {{{"data", 2}, {"lat", 2}}}; }
};

int LatOf(const Session& session) { return session.rank() % 2; }

// 3 rows on lat 0, 2 on lat 1, of 2 columns.
HaloSpec RowsOf(const Session& session, HaloEdge edge) {
  return {
      .name = "u",
      .tensors = {
          {.dtype = DType::kF32,
           .shape = {LatOf(session) == 0 ? 3 : 2, 2},
           .dims = {
               {.dim = 0, .axis = "lat", .low = 1, .high = 2, .edge = edge}}}}};
}

// Cell (i, j) of the field is 10 i + j, plus 100 for each data replica.
std::vector<float> Rows(const Session& session, std::vector<int> rows) {
  std::vector<float> values;
  for (const int row : rows) {
    const bool is_constant = row < 0;
    const float base =
        static_cast<float>(100 * (session.rank() / 2) + 10 * row);
    values.push_back(is_constant ? 0 : base);
    values.push_back(is_constant ? 0 : base + 1);
  }
  return values;
}

TEST_F(HaloJobTest, ExchangesRowsWithinEachReplica) {
  JoinAll();
  ForAll([this](Session& session) {
    const bool is_first = LatOf(session) == 0;
    const auto halo = session.Halo(RowsOf(session, HaloEdge::kZero));
    ASSERT_TRUE(halo.ok()) << halo.status();
    std::vector<float> none(2);
    EXPECT_EQ(halo->Forward({none.data()}, {none.data()}).code(),
              absl::StatusCode::kFailedPrecondition);
    ASSERT_NO_FATAL_FAILURE(Connect(session));
    EXPECT_THAT(halo->blocks()->at(0).begin, ElementsAre(is_first ? 0 : 3, 0));
    EXPECT_THAT(halo->blocks()->at(0).field, ElementsAre(5, 2));
    EXPECT_THAT(halo->padded_types()->at(0).shape,
                ElementsAre(is_first ? 6 : 5, 2));
    const std::vector<float> x =
        is_first ? Rows(session, {0, 1, 2}) : Rows(session, {3, 4});
    const std::vector<float> wanted = is_first
                                          ? Rows(session, {-1, 0, 1, 2, 3, 4})
                                          : Rows(session, {2, 3, 4, -1, -1});
    for (int turn = 0; turn < 3; ++turn) {
      std::vector<float> padded(wanted.size(), -7);
      ASSERT_TRUE(halo->Forward({x.data()}, {padded.data()}).ok())
          << session.status();
      EXPECT_EQ(padded, wanted);
      padded.assign(wanted.size(), -7);
      const auto pending = halo->Start({x.data()}, {padded.data()});
      ASSERT_TRUE(pending.ok()) << pending.status();
      ASSERT_TRUE(pending->Wait().ok());
      EXPECT_EQ(padded, wanted);
      std::vector<float> trimmed(x.size());
      ASSERT_TRUE(halo->Trim({padded.data()}, {trimmed.data()}).ok());
      EXPECT_EQ(trimmed, x);
    }
  });
  LeaveAll();
  EXPECT_EQ(server_.Describe("job")->state, JobState::kCompleted);
}

TEST_F(HaloJobTest, InPlaceOnlyTheHalosAreWritten) {
  JoinAll();
  ForAll([this](Session& session) {
    const bool is_first = LatOf(session) == 0;
    const auto halo = *session.Halo(RowsOf(session, HaloEdge::kPeriodic));
    ASSERT_NO_FATAL_FAILURE(Connect(session));
    std::vector<float> padded = is_first ? Rows(session, {-1, 0, 1, 2, -1, -1})
                                         : Rows(session, {-1, 3, 4, -1, -1});
    ASSERT_TRUE(halo.Forward({nullptr}, {padded.data()}).ok());
    EXPECT_EQ(padded, is_first ? Rows(session, {4, 0, 1, 2, 3, 4})
                               : Rows(session, {2, 3, 4, 0, 1}));
  });
  LeaveAll();
}

TEST_F(HaloJobTest, BackwardAddsEachGradientToTheCellThatWasCopied) {
  JoinAll();
  ForAll([this](Session& session) {
    const bool is_first = LatOf(session) == 0;
    const auto halo = *session.Halo(RowsOf(session, HaloEdge::kPeriodic));
    ASSERT_NO_FATAL_FAILURE(Connect(session));
    // Each padded cell has the gradient 1, so that of a cell is the number of
    // its copies: rows 4 0 1 2 3 4 and 2 3 4 0 1.
    std::vector<float> padded(is_first ? 12 : 10, 1);
    std::vector<float> block(is_first ? 6 : 4);
    ASSERT_TRUE(halo.Backward({padded.data()}, {block.data()}).ok());
    EXPECT_EQ(block, is_first ? (std::vector<float>{2, 2, 2, 2, 2, 2})
                              : (std::vector<float>{2, 2, 3, 3}));
    ASSERT_TRUE(halo.Backward({padded.data()}, {nullptr}).ok());
    EXPECT_EQ(std::vector<float>(&padded[2], &padded[2] + block.size()), block);
  });
  LeaveAll();
}

// Rank 1 of each group comes only when a call of its peer has been refused.
TEST_F(HaloJobTest, OneOfTwoThreadsIsRefused) {
  JoinAll();
  std::array<std::atomic<bool>, 2> refused{};  // by the coordinate on data
  ForAll([&](Session& session) {
    const bool is_first = LatOf(session) == 0;
    const auto halo = *session.Halo(RowsOf(session, HaloEdge::kZero));
    ASSERT_NO_FATAL_FAILURE(Connect(session));
    std::atomic<bool>& peer_refused =
        refused[static_cast<size_t>(session.rank()) / 2];
    std::array<std::vector<float>, 2> padded;
    padded.fill(std::vector<float>(12));
    if (!is_first) {
      while (!peer_refused) std::this_thread::yield();
      EXPECT_TRUE(halo.Forward({nullptr}, {padded[0].data()}).ok());
      return;
    }
    std::array<absl::Status, 2> results;
    const auto call = [&](size_t i) {
      results[i] = halo.Forward({nullptr}, {padded[i].data()});
      if (!results[i].ok()) peer_refused = true;
    };
    std::thread other([&] { call(1); });
    call(0);
    other.join();
    EXPECT_NE(results[0].ok(), results[1].ok());
    EXPECT_THAT(
        std::string(results[results[0].ok() ? 1 : 0].message()),
        HasSubstr("another thread calls an exchange over the same axes"));
  });
  LeaveAll();
}

TEST_F(HaloJobTest, WholeFieldsAreGatheredAndTheirGradientsSummed) {
  JoinAll();
  ForAll([this](Session& session) {
    const bool is_first = LatOf(session) == 0;
    HaloSpec spec = RowsOf(session, HaloEdge::kNone);
    spec.tensors[0].dims[0].low = spec.tensors[0].dims[0].high = kWholeField;
    const auto gather = *session.Halo(spec);
    ASSERT_NO_FATAL_FAILURE(Connect(session));
    EXPECT_THAT(gather.padded_types()->at(0).shape, ElementsAre(5, 2));
    const std::vector<float> x =
        is_first ? Rows(session, {0, 1, 2}) : Rows(session, {3, 4});
    const std::vector<float> wanted = Rows(session, {0, 1, 2, 3, 4});
    std::vector<float> whole(10, -7), block(x.size());
    ASSERT_TRUE(gather.Forward({x.data()}, {whole.data()}).ok());
    EXPECT_EQ(whole, wanted);
    ASSERT_TRUE(gather.Trim({whole.data()}, {block.data()}).ok());
    EXPECT_EQ(block, x);
    ASSERT_TRUE(gather.Backward({whole.data()}, {block.data()}).ok());
    for (float& cell : whole) cell *= 2;
    const size_t begin = is_first ? 0 : 6;
    EXPECT_EQ(block,
              std::vector<float>(&whole[begin], &whole[begin] + block.size()));
  });
  LeaveAll();
}

TEST_F(HaloJobTest, OnlyAnOpenEdgeHasTheWholeField) {
  JoinAll();
  ForAll([](Session& session) {
    HaloSpec spec = RowsOf(session, HaloEdge::kZero);
    spec.tensors[0].dims[0].high = kWholeField;
    EXPECT_THAT(std::string(session.Halo(spec).status().message()),
                HasSubstr("dim 0: a width of the whole field has edge none, "
                          "not zero"));
  });
}

TEST_F(HaloJobTest, DifferentDeclarationsAreOneErrorToAll) {
  JoinAll();
  ForAll([](Session& session) {
    HaloSpec spec = RowsOf(session, HaloEdge::kZero);
    if (session.rank() == 3) spec.tensors[0].dtype = DType::kF64;
    ASSERT_TRUE(session.Halo(spec).ok());
    const absl::Status refused = session.Connect();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(
        std::string(refused.message()),
        HasSubstr("ranks declare halo u differently: rank 2: f32[*,2]: dim 0 "
                  "over lat, low 1, high 2, zero; rank 3: f64[*,2]: "));
  });
}

TEST_F(HaloJobTest, WrongDeclarationsAndCallsHaveNoEffect) {
  JoinAll();
  ForAll([this](Session& session) {
    HaloSpec spec = RowsOf(session, HaloEdge::kZero);
    spec.tensors[0].dims[0].axis = "lon";
    EXPECT_THAT(std::string(session.Halo(spec).status().message()),
                HasSubstr("which is no axis of mesh data=2,lat=2"));
    spec = RowsOf(session, HaloEdge::kZero);
    const auto halo = *session.Halo(spec);
    EXPECT_THAT(std::string(session.Halo(spec).status().message()),
                HasSubstr("declared twice"));
    ASSERT_NO_FATAL_FAILURE(Connect(session));
    spec.name = "v";
    EXPECT_EQ(session.Halo(spec).status().code(),
              absl::StatusCode::kFailedPrecondition);
    std::vector<float> x(6), padded(12);
    EXPECT_THAT(std::string(halo.Forward({x.data()}, {nullptr}).message()),
                HasSubstr("padded tensor 0 is null"));
    EXPECT_THAT(
        std::string(
            halo.Forward({x.data(), x.data()}, {padded.data()}).message()),
        HasSubstr("1 padded tensors and 2 blocks are given, it has 1"));
    EXPECT_THAT(std::string(halo.Trim({padded.data()}, {nullptr}).message()),
                HasSubstr("1 of 1 blocks are null"));
    for (float* const block : {padded.data(), padded.data() + 9}) {
      for (const absl::Status& status :
           {halo.Forward({block}, {padded.data()}),
            halo.Backward({padded.data()}, {block}),
            halo.Trim({padded.data()}, {block}),
            halo.Start({block}, {padded.data()}).status()}) {
        EXPECT_THAT(std::string(status.message()),
                    HasSubstr("padded tensor 0 and block 0 overlap: in place, "
                              "blocks are null"));
      }
    }
    EXPECT_TRUE(halo.Forward({x.data()}, {padded.data()}).ok());
  });
  LeaveAll();
}

TEST_F(HaloJobTest, DifferentCallsOfACheckedJobEndTheEpochWithBoth) {
  spec_.checked = true;
  JoinAll();
  ForAll([this](Session& session) {
    const auto halo = *session.Halo(RowsOf(session, HaloEdge::kZero));
    ASSERT_NO_FATAL_FAILURE(Connect(session));
    std::vector<float> x(6), padded(12);
    const absl::Status error = session.rank() == 1
                                   ? halo.Backward({padded.data()}, {x.data()})
                                   : halo.Forward({x.data()}, {padded.data()});
    if (session.rank() > 1) return;  // the other replica
    EXPECT_THAT(std::string(error.message()),
                AllOf(HasSubstr("rank 0: halo u"),
                      HasSubstr("rank 1: the adjoint of halo u")));
  });
}

TEST_F(HaloJobTest, TheEndOfTheEpochEndsACallWithItsCause) {
  JoinAll();
  ForAll([this](Session& session) {
    const auto halo = *session.Halo(RowsOf(session, HaloEdge::kZero));
    ASSERT_NO_FATAL_FAILURE(Connect(session));
    std::vector<float> x(6), padded(12);
    if (session.rank() == 1) {
      session.ReportFailure("Train", absl::InternalError("loss is NaN"));
      return;
    }
    absl::Status error;
    while (error.ok()) error = halo.Forward({x.data()}, {padded.data()});
    EXPECT_THAT(std::string(error.message()),
                AllOf(HasSubstr("worker-1"), HasSubstr("loss is NaN")));
    EXPECT_THAT(
        std::string(halo.Start({x.data()}, {padded.data()}).status().message()),
        HasSubstr("loss is NaN"));
  });
}

TEST_F(HaloJobTest, LeavingEndsAnExchangeThatNoPeerJoins) {
  JoinAll();
  std::vector<std::unique_ptr<PendingCollective>> pending(kWorld);
  std::vector<std::vector<float>> x(kWorld, std::vector<float>(6)),
      padded(kWorld, std::vector<float>(12));
  ForAll([&](Session& session) {
    const int rank = session.rank();
    const auto halo = *session.Halo(RowsOf(session, HaloEdge::kZero));
    ASSERT_NO_FATAL_FAILURE(Connect(session));
    if (rank % 2 == 1) return;
    const auto started = halo.Start({x[rank].data()}, {padded[rank].data()});
    ASSERT_TRUE(started.ok()) << started.status();
    pending[rank] = std::make_unique<PendingCollective>(*started);
  });
  sessions_.clear();  // with calls in flight
  EXPECT_FALSE(pending[0]->Wait().ok());
  EXPECT_TRUE(pending[0]->Done());
}

TEST_F(HaloJobTest, CallsOnSeveralStreamsRunInTheirOrder) {
  JoinAll();
  ForAll([this](Session& session) {
    const bool is_first = LatOf(session) == 0;
    const auto halo = *session.Halo(RowsOf(session, HaloEdge::kPeriodic));
    ASSERT_NO_FATAL_FAILURE(Connect(session));
    HostStream one, other;
    std::vector<float> padded(is_first ? 12 : 10, 1);
    const size_t cells = is_first ? 6 : 4;
    // In place, each call needs the result of the one before.
    for (int turn = 0; turn < 20; ++turn) {
      ASSERT_TRUE(halo.Run({nullptr}, {padded.data()}, one).ok());
      ASSERT_TRUE(halo.RunBackward({padded.data()}, {nullptr}, other).ok());
      ASSERT_TRUE(halo.Start({nullptr}, {padded.data()}).ok());
      ASSERT_TRUE(halo.Backward({padded.data()}, {nullptr}).ok());
      for (size_t i = 0; i < cells; ++i) padded[2 + i] = 1;
    }
    ASSERT_TRUE(halo.Forward({nullptr}, {padded.data()}).ok());
    ASSERT_TRUE(halo.Backward({padded.data()}, {nullptr}).ok());
    EXPECT_EQ(std::vector<float>(&padded[2], &padded[2] + cells),
              is_first ? (std::vector<float>{2, 2, 2, 2, 2, 2})
                       : (std::vector<float>{2, 2, 3, 3}));
  });
  LeaveAll();
}

TEST_F(HaloJobTest, AHandleThatOutlivesItsSessionSaysSo) {
  JoinAll();
  std::vector<HaloExchange> halos(kWorld, HaloExchange(nullptr));
  ForAll([&](Session& session) {
    halos[session.rank()] = *session.Halo(RowsOf(session, HaloEdge::kZero));
    ASSERT_NO_FATAL_FAILURE(Connect(session));
  });
  LeaveAll();
  sessions_.clear();
  std::vector<float> x(6), padded(12);
  EXPECT_THAT(
      std::string(halos[0].Forward({x.data()}, {padded.data()}).message()),
      HasSubstr("this worker has left the job"));
}

}  // namespace
}  // namespace lockstep::session
