// From parameters to a plan that is fetched, checked and accepted.

#include "tests/client/session/played_session.h"

namespace lockstep::session {
namespace {

using testing::HasSubstr;

class AgreementTest : public PlayedSession {
 protected:
  void SetUp() override { Join(); }

  auto AgreeAsync(const std::vector<Parameter>& parameters) {
    return Async([this, parameters] {
      return session_->impl().AgreeOnPlan(parameters);
    });
  }

  void Announce(const plan::Plan& plan) {
    Post(protocol::PlanReady{plan.revision, plan::DigestOf(plan)});
  }
};

TEST_F(AgreementTest, RegistersFetchesAndAcceptsThePlan) {
  auto agreeing = AgreeAsync(Parameters());
  const auto chunk = server_.Next<protocol::RegisterChunk>().second;
  EXPECT_TRUE(chunk.last);
  EXPECT_EQ(chunk.parameters, Parameters());
  const plan::Plan plan = PlanOf(Parameters());
  server_.SetPlan(plan);
  Announce(plan);
  const auto agreed = agreeing.get();
  ASSERT_TRUE(agreed.ok()) << agreed.status();
  EXPECT_EQ(*agreed, plan);
  EXPECT_EQ(server_.Next<protocol::PlanAck>().second.digest,
            plan::DigestOf(plan));
}

TEST_F(AgreementTest, TellsWhatItsTransportCanDoWithTheLastChunk) {
  const std::string long_name(1000, 'n');
  std::vector<Parameter> several_chunks;
  for (int i = 0; i < 400; ++i) {
    several_chunks.push_back({.name = long_name + std::to_string(i)});
  }
  auto agreeing = AgreeAsync(several_chunks);
  const auto first = server_.Next<protocol::RegisterChunk>().second;
  ASSERT_FALSE(first.last);
  EXPECT_EQ(first.transport, TransportFacts{});
  const auto second = server_.Next<protocol::RegisterChunk>().second;
  ASSERT_TRUE(second.last);
  EXPECT_EQ(second.transport, NoTransport().facts());
  EXPECT_NE(second.transport, TransportFacts{});
  EndEpoch("enough");
  agreeing.get().IgnoreError();
}

TEST_F(AgreementTest, RegistersAHundredThousandParametersInSmallMessages) {
  std::vector<Parameter> many;
  for (int i = 0; i < 100'000; ++i) {
    many.push_back(
        {.name = "layers." + std::to_string(i) + ".weight", .shape = {16}});
  }
  auto agreeing = AgreeAsync(many);
  std::vector<Parameter> heard;
  for (uint32_t index = 0;; ++index) {
    auto chunk = server_.Next<protocol::RegisterChunk>().second;
    EXPECT_EQ(chunk.index, index);
    heard.insert(heard.end(), chunk.parameters.begin(), chunk.parameters.end());
    if (chunk.last) break;
    EXPECT_LT(chunk.parameters.size(), 10'000u);
  }
  EXPECT_TRUE(heard == many);
  EndEpoch("enough");
  EXPECT_EQ(agreeing.get().status(), absl::AbortedError("enough"));
}

TEST_F(AgreementTest, ARankWithoutParametersRegistersThatToo) {
  auto agreeing = AgreeAsync({});
  const auto chunk = server_.Next<protocol::RegisterChunk>().second;
  EXPECT_TRUE(chunk.last);
  EXPECT_TRUE(chunk.parameters.empty());
  EndEpoch("enough");
  agreeing.get().IgnoreError();
}

TEST_F(AgreementTest, FetchesAgainUntilTheCoordinatorHasThePlan) {
  auto agreeing = AgreeAsync(Parameters());
  const plan::Plan plan = PlanOf(Parameters());
  server_.SetPlan(absl::NotFoundError("not yet"));
  Announce(plan);
  while (server_.fetches() < 2) std::this_thread::yield();
  server_.SetPlan(absl::UnavailableError("restarting"));
  const int before = server_.fetches();
  while (server_.fetches() < before + 2) std::this_thread::yield();
  server_.SetPlan(plan);
  EXPECT_TRUE(agreeing.get().ok());
}

TEST_F(AgreementTest, RefusesAnotherPlanThanWasAnnounced) {
  auto agreeing = AgreeAsync(Parameters());
  server_.Next<protocol::RegisterChunk>();
  server_.SetPlan(PlanOf({{.name = "other", .shape = {1}}}));
  Announce(PlanOf(Parameters()));
  const auto failure = server_.Next<protocol::LocalFailure>().second;
  EXPECT_EQ(failure.code, absl::StatusCode::kDataLoss);
  EXPECT_THAT(failure.message, HasSubstr(plan::DigestOf(PlanOf(Parameters()))));
  EXPECT_THAT(agreeing.get().status().message(), HasSubstr(failure.message));
}

TEST_F(AgreementTest, RefusesAPlanThatCannotRun) {
  auto agreeing = AgreeAsync(Parameters());
  server_.Next<protocol::RegisterChunk>();
  plan::Plan wrong = PlanOf(Parameters());
  wrong.buckets[0].slots[0].count += 1;
  server_.SetPlan(wrong);
  Announce(wrong);
  EXPECT_EQ(server_.Next<protocol::LocalFailure>().second.code,
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(agreeing.get().ok());
}

TEST_F(AgreementTest, RefusesAPlanForAnotherWorld) {
  auto agreeing = AgreeAsync(Parameters());
  server_.Next<protocol::RegisterChunk>();
  const plan::Plan wrong = *plan::Compile(
      {.mesh = {{{"data", 2}}}, .registrations = {Parameters(), Parameters()}});
  server_.SetPlan(wrong);
  Announce(wrong);
  EXPECT_THAT(server_.Next<protocol::LocalFailure>().second.message,
              HasSubstr("data=2"));
  EXPECT_FALSE(agreeing.get().ok());
}

TEST_F(AgreementTest, RefusesAParameterThatNoMessageHolds) {
  auto agreeing = AgreeAsync({{.name = std::string(1 << 20, 'x')}});
  EXPECT_EQ(server_.Next<protocol::LocalFailure>().second.code,
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(agreeing.get().ok());
}

TEST_F(AgreementTest, ADeathWhileItFetchesEndsTheWait) {
  auto agreeing = AgreeAsync(Parameters());
  server_.SetPlan(absl::NotFoundError("never"));
  Announce(PlanOf(Parameters()));
  while (server_.fetches() < 2) std::this_thread::yield();
  EndEpoch("z died");
  EXPECT_EQ(agreeing.get().status(), absl::AbortedError("z died"));
}

TEST_F(AgreementTest, RegistersAgainAfterALostStream) {
  auto agreeing = AgreeAsync(Parameters());
  server_.Next<protocol::RegisterChunk>();
  stream_->Close(absl::UnavailableError("cut"));
  Welcome(/*resumed=*/true);
  EXPECT_EQ(server_.Next<protocol::RegisterChunk>().second.parameters,
            Parameters());
  EndEpoch("enough");
  agreeing.get().IgnoreError();
}

}  // namespace
}  // namespace lockstep::session
