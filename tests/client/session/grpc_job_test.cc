// Whole jobs over real transports: Session::Join, gRPC, Gloo, and the daemon's
// parts in this process.

#include "protocol/protocol.h"
#include "tests/client/session/job_fixture.h"
#include "tests/server/in_process_daemon.h"

namespace lockstep::session {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class GrpcJobTest : public JobFixture {
 protected:
  GrpcJobTest() { Restart(); }
  ~GrpcJobTest() override { sessions_.clear(); }

  // Starts the daemon: first on any port, later on the same one with the same
  // journal.
  void Restart(rpc::ServerOptions options = {}) {
    daemon_.reset();
    daemon_ =
        std::make_unique<InProcessDaemon>(std::move(options), &store_, listen_);
    listen_ = daemon_->server().address();
  }

  Joined Join(const JoinOptions& options) override {
    JoinOptions here = options;
    here.addresses = {rpc::ToString(listen_)};
    return Session::Join(here);
  }

  JobView Describe() {
    std::promise<absl::StatusOr<JobView>> view;
    daemon_->loop().DescribeJob(
        {"job"}, "", [&](auto described) { view.set_value(described); });
    return *view.get_future().get();
  }

  journal::MemoryStore store_;
  rpc::Address listen_{"127.0.0.1", 0};
  std::unique_ptr<InProcessDaemon> daemon_;
};

TEST_F(GrpcJobTest, FromJoinToLeave) {
  JoinAll();
  auto plans = SealAll();
  ASSERT_EQ(plans.size(), 4u);
  ExpectSums(plans);
  plans.clear();
  LeaveAll();
  EXPECT_EQ(Describe().state, JobState::kCompleted);
}

TEST_F(GrpcJobTest, TrainsOnWhileTheDaemonIsDeadAndComesBack) {
  JoinAll();
  auto plans = SealAll();
  daemon_.reset();
  ExpectSums(plans);
  Restart();
  ExpectSums(plans);
  LeaveAll();
  EXPECT_EQ(Describe().state, JobState::kCompleted);
  EXPECT_EQ(Describe().epoch, EpochId{1});
}

TEST_F(GrpcJobTest, JoinsOnceThereIsADaemon) {
  daemon_.reset();
  Each<Joined> joining;
  for (int i = 0; i < kWorld; ++i) joining.push_back(JoinAsync(OptionsOf(i)));
  Restart();
  for (auto& each : joining) {
    Joined session = each.get();
    ASSERT_TRUE(session.ok()) << session.status();
    sessions_.push_back(*std::move(session));
  }
}

TEST_F(GrpcJobTest, TriesItsAddressesInTurn) {
  const rpc::Address there = daemon_->server().address();
  rpc::Address nobody;
  {
    InProcessDaemon other;
    nobody = other.server().address();
  }
  spec_.mesh = {{{"data", 1}}};
  JoinOptions options = OptionsOf(0);
  options.addresses = {rpc::ToString(nobody), rpc::ToString(there)};
  Joined session = Session::Join(options);
  EXPECT_TRUE(session.ok()) << session.status();
}

TEST_F(GrpcJobTest, AMismatchIsOneErrorToEveryRank) {
  JoinAll();
  const auto sealed = OnAll([](auto& impl, int rank) {
    return Seal(impl, rank, /*elements=*/rank == 3 ? 9 : 8).status();
  });
  for (const absl::Status& status : sealed) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("w"), HasSubstr("[9]"),
                                        HasSubstr("[8]"), HasSubstr("3")));
  }
}

TEST_F(GrpcJobTest, AgreesOnManyParameters) {
  spec_.mesh = {{{"data", 1}}};
  Joined session = Join(OptionsOf(0));
  ASSERT_TRUE(session.ok()) << session.status();
  std::vector<Parameter> many;
  for (int i = 0; i < 50'000; ++i) {
    many.push_back({.name = "layers." + std::to_string(i) + ".weight",
                    .shape = {16, 16},
                    .axes = {"data"}});
  }
  const auto plan = (*session)->impl().AgreeOnPlan(many);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->parameters.size(), many.size());
}

// --- Bad input --------------------------------------------------------------

TEST_F(GrpcJobTest, SaysWhichAddressesDidNotAnswer) {
  daemon_.reset();
  JoinOptions options = OptionsOf(0);
  options.connect_timeout = absl::Milliseconds(200);
  const absl::Status status = Join(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr(rpc::ToString(listen_)));
}

TEST_F(GrpcJobTest, AnAddressWithoutAPortIsRefused) {
  JoinOptions options = OptionsOf(0);
  for (const char* address :
       {"localhost", "localhost:", ":7070", "host:x", "host:0", "host:70700"}) {
    options.addresses = {address};
    const absl::Status status = Session::Join(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << address;
    EXPECT_THAT(status.message(), HasSubstr(address));
  }
}

TEST_F(GrpcJobTest, ATakenNameIsRefusedAndItsHolderNamed) {
  JoinAll();
  const absl::Status status = Join(OptionsOf(1)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("worker-1"),
                                      HasSubstr(std::to_string(getpid()))));
}

TEST_F(GrpcJobTest, AnotherSpecIsRefusedWithTheFieldsThatDiffer) {
  JoinAll();
  JoinOptions options = OptionsOf(1);
  options.spec->buckets.bytes_max = 1 << 10;
  const absl::Status status = Join(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("buckets.bytes_max"));
}

TEST_F(GrpcJobTest, TheDaemonsTokenOpensItsDoor) {
  Restart({.gate = rpc::TokenGate({.operators = {"secret"}})});
  spec_.mesh = {{{"data", 1}}};
  JoinOptions options = OptionsOf(0);
  options.token = "guess";
  EXPECT_EQ(Join(options).status().code(), absl::StatusCode::kUnauthenticated);
  options.token = "secret";
  Joined session = Join(options);
  ASSERT_TRUE(session.ok()) << session.status();
  // The plan is fetched with the same token.
  EXPECT_TRUE((*session)->impl().AgreeOnPlan({{.name = "w"}}).ok());
}

TEST_F(GrpcJobTest, WorkersThatAreMissingAtTheDeadlineAreNamed) {
  spec_.workers = {"worker-0", "worker-1", "worker-2", "worker-3"};
  spec_.timeouts.join = absl::Milliseconds(100);
  const absl::Status status = Join(OptionsOf(2)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("worker-0"), HasSubstr("worker-1"),
                    HasSubstr("worker-3")));
}

TEST_F(GrpcJobTest, ATransportThatDoesNotExistIsRefused) {
  spec_.mesh = {{{"data", 1}}};
  spec_.transport = "inproc";
  const absl::Status status = Join(OptionsOf(0)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("inproc"));
}

TEST_F(GrpcJobTest, AJobThatIsOverTakesNobody) {
  spec_.mesh = {{{"data", 1}}};
  Joined first = Join(OptionsOf(0));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE((*first)->Leave().ok());
  EXPECT_EQ(Join(OptionsOf(0)).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace lockstep::session
