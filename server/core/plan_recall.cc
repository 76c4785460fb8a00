#include "server/core/plan_recall.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/core/status_text.h"

namespace lockstep::core {

// --- Members ----------------------------------------------------------------

void PlanRecall::Resume(int rank, bool registers, bool holds) {
  RecallMember& member = members_[rank];
  member.heard = true;
  member.registers = registers;
  member.holds = holds;
}

void PlanRecall::Lose(int rank, const std::string& why, EpochContext& context) {
  if (rank == asked_ && !is_checking()) Fail(why, context);
  members_[rank] = {.failed = members_[rank].failed};
}

void PlanRecall::Ask(EpochContext& context) {
  if (!needed_ || asked_ >= 0) return;
  if (given_up_) return RequestRegistrations(context);
  if (context.durable.plan_image == record::PlanImage{}) {
    return GiveUp("the journal has no hash of it", context);
  }
  if (tries_ == kAskedMax) {
    return GiveUp(
        absl::StrCat(Count(tries_, "member"), " did not give it back"),
        context);
  }
  const int rank = Candidate();
  if (rank >= 0) {
    ++tries_;
    asked_ = rank;
    answer_by_ = context.now() + context.spec().timeouts.lease;
    context.Send(rank, protocol::PlanWanted{context.durable.plan_digest});
  } else if (!MayYetHold()) {
    GiveUp("no member has it", context);
  }
}

int PlanRecall::Candidate() const {
  const auto found = std::find_if(
      members_.begin(), members_.end(),
      [](const auto& member) { return member.holds && !member.failed; });
  return found == members_.end() ? -1
                                 : static_cast<int>(found - members_.begin());
}

bool PlanRecall::MayYetHold() const {
  return std::any_of(members_.begin(), members_.end(), [](const auto& member) {
    return !member.heard && !member.failed;
  });
}

// --- Answers ----------------------------------------------------------------

void PlanRecall::On(int rank, const protocol::PlanPart& part,
                    EpochContext& context) {
  if (rank != asked_ || is_checking()) return;  // it is too late
  const record::PlanImage& image = context.durable.plan_image;
  const std::string why_not = WhyNot(part, context.durable);
  if (!why_not.empty()) {
    members_[rank].failed = true;
    Fail(why_not, context);
    return Ask(context);
  }
  bytes_ += part.data;
  if (bytes_.size() < image.bytes) return;
  answer_by_ = absl::InfiniteFuture();
  checking_ = context.Compile(RecalledPlan{
      .bytes = std::make_shared<const std::string>(std::move(bytes_)),
      .image = image,
      .digest = context.durable.plan_digest,
      .revision = context.durable.revision,
      .mesh = mesh_,
      .sync = context.spec().sync});
  bytes_.clear();
}

std::string PlanRecall::WhyNot(const protocol::PlanPart& part,
                               const DurableJob& durable) const {
  const uint64_t bytes_due = durable.plan_image.bytes - bytes_.size();
  if (part.total_bytes == 0) return "does not have it any more";
  if (part.digest == durable.plan_digest &&
      part.total_bytes == durable.plan_image.bytes &&
      part.offset == bytes_.size() && !part.data.empty() &&
      part.data.size() <= bytes_due) {
    return "";
  }
  return absl::StrFormat(
      "sent %d bytes at %d of the %d of plan %.64s, where %d bytes at %d were "
      "due",
      part.data.size(), part.offset, part.total_bytes, part.digest, bytes_due,
      bytes_.size());
}

void PlanRecall::Take(const Compiled& checked, EpochContext& context) {
  checking_ = {};
  if (checked.result.ok()) {
    context.Remember(absl::StrFormat("%s has sent the plan again, %d bytes",
                                     context.members.WhoIs(asked_),
                                     checked.result->image.bytes));
    return Stop();
  }
  members_[asked_].failed = true;
  Fail(absl::StrCat("sent another: ", checked.result.status().message()),
       context);
  Ask(context);
}

void PlanRecall::Fail(const std::string& why, EpochContext& context) {
  context.Remember(absl::StrFormat("%s was asked for plan %s and %s",
                                   context.members.WhoIs(asked_),
                                   context.durable.plan_digest, why));
  asked_ = -1;
  answer_by_ = absl::InfiniteFuture();
  bytes_.clear();
}

void PlanRecall::Stop() {
  needed_ = false;
  asked_ = -1;
  answer_by_ = absl::InfiniteFuture();
  bytes_.clear();
  checking_ = {};
}

// --- Registrations ----------------------------------------------------------

void PlanRecall::GiveUp(const std::string& why, EpochContext& context) {
  const bool any =
      std::any_of(members_.begin(), members_.end(),
                  [](const auto& member) { return !member.registers; });
  if (!any) return;
  given_up_ = true;
  context.Remember(
      absl::StrFormat("all members register again, to compile plan %s: %s",
                      context.durable.plan_digest, why));
  RequestRegistrations(context);
}

// Each once on a stream.
void PlanRecall::RequestRegistrations(EpochContext& context) {
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    if (std::exchange(members_[rank].registers, true)) continue;
    context.Send(static_cast<int>(rank), protocol::RegistrationWanted{});
  }
}

// --- Time -------------------------------------------------------------------

void PlanRecall::Wake(EpochContext& context) {
  if (answer_by_ > context.now()) return;
  members_[asked_].failed = true;
  Fail(absl::StrFormat("did not send all of it within %s",
                       absl::FormatDuration(context.spec().timeouts.lease)),
       context);
  Ask(context);
}

void PlanRecall::BeginAnew(absl::Time now, absl::Duration lease) {
  if (answer_by_ != absl::InfiniteFuture()) answer_by_ = now + lease;
}

}  // namespace lockstep::core
