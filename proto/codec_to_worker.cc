// The codec of messages to workers.

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "proto/codec.h"
#include "proto/codec_checkpoint.h"
#include "proto/codec_common.h"

namespace lockstep::proto {

// --- Bodies -----------------------------------------------------------------

void Write(const protocol::Welcome& from, v1::Welcome* to) {
  to->set_generation(from.generation.value);
  Write(from.spec, to->mutable_spec());
  to->set_resumed(from.resumed);
  to->set_secret(from.secret);
}

void Read(const v1::Welcome& from, protocol::Welcome* to, Decoder* d) {
  to->generation = {from.generation()};
  d->Message("spec", from.has_spec(), from.spec(), &to->spec);
  to->resumed = from.resumed();
  d->SessionSecret("secret", from.secret(), &to->secret);
}

void Write(const protocol::Refused& from, v1::Refused* to) {
  to->set_code(static_cast<uint32_t>(from.code));
  to->set_message(ToUtf8(from.message));
}

void Read(const v1::Refused& from, protocol::Refused* to, Decoder* d) {
  d->ErrorCode("code", from.code(), &to->code);
  d->Text("message", from.message(), &to->message);
}

void Write(const protocol::EpochFormed& from, v1::EpochFormed* to) {
  to->set_rank(from.rank);
  for (const protocol::Member& member : from.members) {
    Write(member, to->add_members());
  }
  to->set_first_step(from.first_step);
  WriteNumbers(from.holders, to->mutable_holders());
  to->set_previous_world(from.previous_world);
}

void Read(const v1::EpochFormed& from, protocol::EpochFormed* to, Decoder* d) {
  d->Int("rank", from.rank(), 0, &to->rank);
  std::vector<protocol::Member> members;
  d->Each("members", from.members(), kRanksMax, &members);
  to->members = std::move(members);
  to->first_step = from.first_step();
  ReadRanks("holders", from.holders(), &to->holders, d);
  d->Int("previous_world", from.previous_world(), 0, &to->previous_world);
  if (to->rank >= static_cast<int>(to->members.size())) {
    d->Fail("rank", absl::StrCat(to->rank, " is not among ", to->members.size(),
                                 " members"));
  }
}

void Write(const protocol::PlanReady& from, v1::PlanReady* to) {
  to->set_revision(from.revision.value);
  to->set_digest(ToUtf8(from.digest));
}

void Read(const v1::PlanReady& from, protocol::PlanReady* to, Decoder* d) {
  to->revision = {from.revision()};
  d->Name("digest", from.digest(), &to->digest);
}

void Write(const protocol::GroupHandles& from, v1::GroupHandles* to) {
  to->set_communicator(from.communicator);
  for (const std::string& handle : from.handles) to->add_handles(handle);
  to->set_first(from.first);
  to->set_more(from.more);
}

void Read(const v1::GroupHandles& from, protocol::GroupHandles* to,
          Decoder* d) {
  d->Int("communicator", from.communicator(), 0, &to->communicator);
  if (!d->Count("handles", from.handles_size(), kRanksMax)) return;
  std::vector<std::string> handles;
  for (const std::string& handle : from.handles()) {
    d->Opaque("handles", handle, &handles.emplace_back());
  }
  to->handles = std::move(handles);
  to->first = from.first();
  to->more = from.more();
}

void Write(const protocol::OrderWanted& from, v1::OrderWanted* to) {
  to->set_revision(from.revision.value);
}

void Read(const v1::OrderWanted& from, protocol::OrderWanted* to, Decoder*) {
  to->revision = {from.revision()};
}

void Write(const protocol::PlanWanted& from, v1::PlanWanted* to) {
  to->set_digest(ToUtf8(from.digest));
}

void Read(const v1::PlanWanted& from, protocol::PlanWanted* to, Decoder* d) {
  d->Name("digest", from.digest(), &to->digest);
}

void Write(const protocol::RegistrationWanted&, v1::RegistrationWanted*) {}
void Read(const v1::RegistrationWanted&, protocol::RegistrationWanted*,
          Decoder*) {}

void Write(const protocol::Decide& from, v1::Decide* to) {
  to->set_first(from.first);
  for (const protocol::Decision& decision : from.decisions) {
    Write(decision, to->add_decisions());
  }
}

void Read(const v1::Decide& from, protocol::Decide* to, Decoder* d) {
  to->first = from.first();
  d->Each("decisions", from.decisions(), kManyMax, &to->decisions);
}

void Write(const protocol::Start&, v1::Start*) {}
void Read(const v1::Start&, protocol::Start*, Decoder*) {}

void Write(const protocol::EpochEnded& from, v1::EpochEnded* to) {
  Write(from.cause, to->mutable_cause());
  to->set_final(from.final);
}

void Read(const v1::EpochEnded& from, protocol::EpochEnded* to, Decoder* d) {
  d->Message("cause", from.has_cause(), from.cause(), &to->cause);
  to->final = from.final();
}

void Write(const protocol::RecoveryDecision& from, v1::RecoveryDecision* to) {
  to->set_steps(from.steps);
  to->set_verdict(from.verdict);
  WriteNumbers(from.holders, to->mutable_holders());
}

void Read(const v1::RecoveryDecision& from, protocol::RecoveryDecision* to,
          Decoder* d) {
  to->steps = from.steps();
  d->Opaque("verdict", from.verdict(), &to->verdict);
  ReadRanks("holders", from.holders(), &to->holders, d);
}

void Write(const protocol::Warning& from, v1::Warning* to) {
  to->set_text(ToUtf8(from.text));
}

void Read(const v1::Warning& from, protocol::Warning* to, Decoder* d) {
  d->Text("text", from.text(), &to->text);
}

void Write(const protocol::Left&, v1::Left*) {}
void Read(const v1::Left&, protocol::Left*, Decoder*) {}

// --- The envelope -----------------------------------------------------------

namespace {

// Returns the envelope's field for each body.
struct ToWorkerField {
  v1::ToWorker* to;
  auto* operator()(const protocol::Welcome&) { return to->mutable_welcome(); }
  auto* operator()(const protocol::Refused&) { return to->mutable_refused(); }
  auto* operator()(const protocol::EpochFormed&) {
    return to->mutable_epoch_formed();
  }
  auto* operator()(const protocol::PlanReady&) {
    return to->mutable_plan_ready();
  }
  auto* operator()(const protocol::GroupHandles&) {
    return to->mutable_group_handles();
  }
  auto* operator()(const protocol::Start&) { return to->mutable_start(); }
  auto* operator()(const protocol::EpochEnded&) {
    return to->mutable_epoch_ended();
  }
  auto* operator()(const protocol::Left&) { return to->mutable_left(); }
  auto* operator()(const protocol::DesiredCommands&) {
    return to->mutable_wanted();
  }
  auto* operator()(const protocol::OrderWanted&) {
    return to->mutable_order_wanted();
  }
  auto* operator()(const protocol::Decide&) { return to->mutable_decide(); }
  auto* operator()(const protocol::Warning&) { return to->mutable_warning(); }
  auto* operator()(const protocol::CheckpointNews&) {
    return to->mutable_checkpoint_news();
  }
  auto* operator()(const protocol::RecoveryDecision&) {
    return to->mutable_recovery_decision();
  }
  auto* operator()(const protocol::PlanWanted&) {
    return to->mutable_plan_wanted();
  }
  auto* operator()(const protocol::RegistrationWanted&) {
    return to->mutable_registration_wanted();
  }
};

}  // namespace

v1::ToWorker ToProto(const protocol::ToWorker& message) {
  v1::ToWorker to;
  WriteHeader(message, to.mutable_header());
  std::visit([&](const auto& body) { Write(body, ToWorkerField{&to}(body)); },
             message.body);
  return to;
}

absl::StatusOr<protocol::ToWorker> FromProto(const v1::ToWorker& message) {
  return Decode<protocol::ToWorker>("ToWorker", message);
}

void Read(const v1::ToWorker& from, protocol::ToWorker* to, Decoder* d) {
  using M = v1::ToWorker;
  ReadHeader(from.header(), to, d);
  switch (from.body_case()) {
    case M::kWelcome:
      return d->Body<protocol::Welcome>("welcome", from.welcome(), &to->body);
    case M::kRefused:
      return d->Body<protocol::Refused>("refused", from.refused(), &to->body);
    case M::kEpochFormed:
      return d->Body<protocol::EpochFormed>("epoch_formed", from.epoch_formed(),
                                            &to->body);
    case M::kPlanReady:
      return d->Body<protocol::PlanReady>("plan_ready", from.plan_ready(),
                                          &to->body);
    case M::kGroupHandles:
      return d->Body<protocol::GroupHandles>("group_handles",
                                             from.group_handles(), &to->body);
    case M::kStart:
      return d->Body<protocol::Start>("start", from.start(), &to->body);
    case M::kEpochEnded:
      return d->Body<protocol::EpochEnded>("epoch_ended", from.epoch_ended(),
                                           &to->body);
    case M::kLeft:
      return d->Body<protocol::Left>("left", from.left(), &to->body);
    case M::kWanted:
      return d->Body<protocol::DesiredCommands>("wanted", from.wanted(),
                                                &to->body);
    case M::kOrderWanted:
      return d->Body<protocol::OrderWanted>("order_wanted", from.order_wanted(),
                                            &to->body);
    case M::kDecide:
      return d->Body<protocol::Decide>("decide", from.decide(), &to->body);
    case M::kWarning:
      return d->Body<protocol::Warning>("warning", from.warning(), &to->body);
    case M::kCheckpointNews:
      return d->Body<protocol::CheckpointNews>(
          "checkpoint_news", from.checkpoint_news(), &to->body);
    case M::kRecoveryDecision:
      return d->Body<protocol::RecoveryDecision>(
          "recovery_decision", from.recovery_decision(), &to->body);
    case M::kPlanWanted:
      return d->Body<protocol::PlanWanted>("plan_wanted", from.plan_wanted(),
                                           &to->body);
    case M::kRegistrationWanted:
      return d->Body<protocol::RegistrationWanted>(
          "registration_wanted", from.registration_wanted(), &to->body);
    case M::BODY_NOT_SET: return d->Fail("body", "is missing or unknown");
  }
}

}  // namespace lockstep::proto
