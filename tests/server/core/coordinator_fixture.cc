#include "tests/server/core/coordinator_fixture.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/support/plans_as_text.h"

namespace lockstep::core {

JobSpec SpecOf(int world, const std::string& name) {
  JobSpec spec{.name = name, .mesh = {{{"data", world}}}};
  spec.timeouts.lease = absl::Seconds(10);
  spec.timeouts.resume = absl::Seconds(1);
  spec.timeouts.join = absl::Seconds(60);
  spec.timeouts.progress = absl::Seconds(30);
  spec.timeouts.connect = absl::Seconds(20);
  return spec;
}

JobSpec RestartingSpec(int world, int max_restarts) {
  JobSpec spec = SpecOf(world);
  spec.limits.max_restarts = max_restarts;
  return spec;
}

Parameter ParameterNamed(const std::string& name) {
  return {.name = name, .shape = {4, 2}};
}

CoordinatorFixture::CoordinatorFixture(JobSpec spec, const LimitValues& limits)
    : spec_(std::move(spec)),
      core_(
          std::make_unique<Coordinator>(CoordinatorOptions{.limits = limits})),
      follower_(std::make_unique<Coordinator>(CoordinatorOptions{})) {}

CoordinatorFixture::~CoordinatorFixture() = default;

EffectList CoordinatorFixture::Step(const Event& event) {
  effects_ = core_->Step(now_, event);
  Follow();
  KeepSecrets();
  if (!hold_compilations_) FinishCompilations();
  return {effects_};
}

EffectList CoordinatorFixture::FinishCompilations() {
  Effects all = std::move(effects_);
  for (const Compile& compile : std::exchange(compilations_, {})) {
    effects_ =
        core_->Step(now_, Compiled{compile.id, compile.job,
                                   MakePlan(*compile.input, PlansAsText())});
    Follow();
    all.insert(all.end(), effects_.begin(), effects_.end());
  }
  effects_ = std::move(all);
  return {effects_};
}

protocol::Hello CoordinatorFixture::HelloOf(int i) const {
  return {.worker = W(i),
          .incarnation = static_cast<uint64_t>(1000 + i),
          .spec = spec_,
          .process = ProcessOf(i)};
}

protocol::ProcessInfo CoordinatorFixture::ProcessOf(int i) {
  return {.host = "a",
          .pid = 100 + i,
          .boot_id = "boot",
          .start_time = static_cast<uint64_t>(500 + i)};
}

protocol::Evidence CoordinatorFixture::DeathOf(int i,
                                               const std::string& detail) {
  return {.subject = W(i), .detail = detail, .process = ProcessOf(i)};
}

protocol::Evidence CoordinatorFixture::ResetBy(int i,
                                               const std::string& detail) {
  return {.subject = W(i),
          .generation = {1},
          .kind = protocol::EvidenceKind::kPeerReset,
          .detail = detail};
}

EffectList CoordinatorFixture::Hello(int i) { return Hello(i, HelloOf(i)); }

EffectList CoordinatorFixture::Hello(uint64_t session, protocol::Hello hello) {
  greeters_[{session}] = hello.worker;
  if (hello.generation.value != 0 && hello.secret.empty()) {
    hello.secret = secrets_[hello.worker];
  }
  return Says(session, std::move(hello), EpochId{});
}

EffectList CoordinatorFixture::Resume(uint64_t session, int i,
                                      uint64_t generation) {
  protocol::Hello hello = HelloOf(i);
  hello.generation = {generation};
  hello.resume = protocol::ResumeState{.epoch = epoch()};
  return Hello(session, hello);
}

EffectList CoordinatorFixture::Says(uint64_t session,
                                    protocol::ToCoordinatorBody body) {
  return Says(session, std::move(body), epoch());
}

EffectList CoordinatorFixture::Says(uint64_t session,
                                    protocol::ToCoordinatorBody body,
                                    EpochId epoch) {
  return Step(MessageReceived{{session}, {job(), epoch, {1}, std::move(body)}});
}

EffectList CoordinatorFixture::Closes(uint64_t session,
                                      const std::string& why) {
  return Step(SessionClosed{{session}, why});
}

EffectList CoordinatorFixture::Wait(double seconds) {
  const absl::Time until = now_ + absl::Seconds(seconds);
  EffectList requested;
  while (core_->NextWake() <= until) {
    now_ = std::max(now_, core_->NextWake());
    requested += Step(TimerExpired{});
    EXPECT_GT(core_->NextWake(), now_) << "would spin";
  }
  now_ = until;
  return requested;
}

EffectList CoordinatorFixture::WaitWithHeartbeats(
    int seconds, const std::vector<uint64_t>& sessions) {
  EffectList requested;
  for (int second = 0; second < seconds; ++second) {
    for (const uint64_t session : sessions) {
      Says(session, protocol::Heartbeat{});
    }
    requested += Wait(1);
  }
  return requested;
}

void CoordinatorFixture::JoinAll() {
  for (int i = 0; i < world(); ++i) Hello(i + first_session_);
}

EffectList CoordinatorFixture::Register(uint64_t session,
                                        std::vector<Parameter> parameters) {
  return Says(session, protocol::RegisterChunk{
                           .index = 0, .last = true, .parameters = parameters});
}

void CoordinatorFixture::RegisterAll() {
  for (const uint64_t session : Sessions()) {
    Register(session, {ParameterNamed("weight"), ParameterNamed("bias")});
  }
}

EffectList CoordinatorFixture::Ack(uint64_t session) {
  const DurableJob& durable = durable_job();
  return Says(session,
              protocol::PlanAck{durable.revision, durable.plan_digest});
}

protocol::PublishHandles CoordinatorFixture::HandlesOf(int rank) const {
  const auto plan = core_->FindPlan(job(), durable_job().plan_digest);
  protocol::PublishHandles publish;
  for (size_t c = 0; c < plan->communicators.size(); ++c) {
    for (const int member : plan->communicators[c].ranks) {
      if (member == rank) {
        publish.handles.push_back(
            {static_cast<int>(c), absl::StrCat("h", rank)});
      }
    }
  }
  return publish;
}

protocol::PlanPart CoordinatorFixture::PlanAsPart() const {
  const std::string& digest = durable_job().plan_digest;
  const std::string text = PlansAsText().bytes(*core_->FindPlan(job(), digest));
  return {.digest = digest, .total_bytes = text.size(), .data = text};
}

EffectList CoordinatorFixture::Publish(uint64_t session, int rank) {
  return Says(session, HandlesOf(rank));
}

void CoordinatorFixture::RunAll() {
  JoinAll();
  ConnectAll();
}

void CoordinatorFixture::ConnectAll() {
  RegisterAll();
  Connect();
}

void CoordinatorFixture::Connect() {
  for (const uint64_t session : Sessions()) Ack(session);
  int rank = 0;
  for (const uint64_t session : Sessions()) Publish(session, rank++);
  for (const uint64_t session : Sessions()) {
    Says(session, protocol::Connected{});
  }
  EXPECT_EQ(View().state, JobState::kRunning);
}

std::vector<uint64_t> CoordinatorFixture::Sessions() const {
  std::vector<uint64_t> sessions;
  for (int i = 0; i < world(); ++i) sessions.push_back(i + first_session_);
  return sessions;
}

const DurableJob& CoordinatorFixture::durable_job() const {
  return core_->durable().jobs.at(job());
}

EpochId CoordinatorFixture::epoch() const {
  const auto found = core_->durable().jobs.find(job());
  return found == core_->durable().jobs.end() ? EpochId{} : found->second.epoch;
}

JobView CoordinatorFixture::View() const {
  return *core_->Describe(job(), now_);
}

std::vector<std::string> CoordinatorFixture::Stalls() const {
  std::vector<std::string> texts;
  for (const StallView& stall : View().stalls) texts.push_back(stall.text);
  return texts;
}

WorkerView CoordinatorFixture::ViewOf(int i) const {
  for (const WorkerView& worker : View().workers) {
    if (worker.name == W(i)) return worker;
  }
  ADD_FAILURE() << W(i).value << " is not there";
  return {};
}

void CoordinatorFixture::Restart(size_t forgotten,
                                 absl::Duration adoption_window) {
  records_.resize(records_.size() - forgotten);
  compilations_.clear();  // the compile threads ended with the coordinator
  ++term_;
  core_ = std::make_unique<Coordinator>(
      CoordinatorOptions{.term = {term_},
                         .adoption_window = adoption_window,
                         .secret_seed = absl::StrCat("seed ", term_)});
  follower_ = std::make_unique<Coordinator>(CoordinatorOptions{});
  for (const record::Record& record : records_) {
    EXPECT_EQ(core_->Replay(record), absl::OkStatus());
    EXPECT_EQ(follower_->Replay(record), absl::OkStatus());
  }
}

void CoordinatorFixture::Follow() {
  for (const Effect& effect : effects_) {
    if (const auto* persist = std::get_if<Persist>(&effect)) {
      records_.push_back(persist->record);
      EXPECT_EQ(follower_->Replay(persist->record), absl::OkStatus());
    } else if (const auto* compile = std::get_if<Compile>(&effect)) {
      compilations_.push_back(*compile);
    }
  }
  EXPECT_TRUE(follower_->durable() == core_->durable())
      << "the records do not replay to what was promised";
}

EffectList CoordinatorFixture::JoinsAgain(int i) {
  protocol::Hello again = HelloOf(i);
  again.generation = {1};
  return Hello(i, again);
}

void CoordinatorFixture::KeepSecrets() {
  for (const Effect& effect : effects_) {
    const auto* send = std::get_if<Send>(&effect);
    if (send == nullptr) continue;
    const auto* welcome = std::get_if<protocol::Welcome>(&send->message.body);
    const auto greeter = greeters_.find(send->session);
    if (welcome == nullptr || greeter == greeters_.end()) continue;
    if (!welcome->secret.empty()) secrets_[greeter->second] = welcome->secret;
  }
}

}  // namespace lockstep::core
