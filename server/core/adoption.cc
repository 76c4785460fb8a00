#include "server/core/adoption.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_format.h"
#include "plan/digest.h"
#include "server/core/status_text.h"
#include "server/core/token.h"

namespace lockstep::core {
namespace {

absl::Status CannotOffer(const JobName& job, const protocol::Hello& hello,
                         const std::string& why) {
  return absl::FailedPreconditionError(
      absl::StrFormat("job %s is not known to this coordinator, and %s cannot "
                      "offer it for adoption: %s",
                      job.value, hello.worker.value, why));
}

}  // namespace

absl::StatusOr<Adoptions::Taken> Adoptions::Take(absl::Time now,
                                                 const JobName& job,
                                                 const protocol::Hello& hello) {
  const protocol::ResumeState& resume = *hello.resume;
  if (!hello.spec) return CannotOffer(job, hello, "it has no spec of the job");
  const int world = WorldOf(hello);
  if (!MeshOfWorld(*hello.spec, world)) {
    return CannotOffer(
        job, hello,
        absl::StrFormat("its epoch has %s, which mesh %s does not fit",
                        Count(world, "member"), ToString(hello.spec->mesh)));
  }
  if (resume.rank < 0 || resume.rank >= world) {
    return CannotOffer(
        job, hello,
        absl::StrFormat("its rank is %d of %d", resume.rank, world));
  }
  DropStale(now);

  Group& group = GroupOf(job, hello);
  const auto [held, is_new] = group.by_rank.try_emplace(resume.rank);
  Offer& offer = held->second;
  const bool is_anothers = offer.member.worker != hello.worker ||
                           offer.incarnation != hello.incarnation;
  if (!is_new && is_anothers && offer.holds_until > now) {
    return CannotOffer(job, hello,
                       absl::StrFormat("rank %d is offered by %s", resume.rank,
                                       Who(offer.member.worker, resume.rank,
                                           offer.member.process)));
  }
  const absl::Time leaving_since = resume.leaving
                                       ? std::min(offer.leaving_since, now)
                                       : absl::InfiniteFuture();
  offer = {.member = {hello.worker, hello.generation, hello.process,
                      hello.watch_address},
           .incarnation = hello.incarnation,
           .secret_hash = Sha256(hello.secret),
           .revision = resume.revision,
           .plan_digest = resume.plan_digest,
           .observed_order = resume.observed_order,
           .wanted = resume.wanted,
           .holds_until = now + hello.spec->timeouts.lease,
           .leaving_since = leaving_since};
  Taken taken{.is_new = is_new};
  if (resume.leaving) taken.leaving_for = now - leaving_since;
  if (static_cast<int>(group.by_rank.size()) == world) {
    taken.adopted = Complete(group, now);
    if (taken.adopted) jobs_.erase(job);
  }
  return taken;
}

void Adoptions::Drop(const JobName& job, const protocol::Hello& hello) {
  GroupOf(job, hello).by_rank.erase(hello.resume->rank);
}

std::string Adoptions::Describe(const JobName& job, absl::Time now) const {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return "";
  const Group* largest = nullptr;
  int64_t most = 0;
  for (const Group& group : found->second) {
    const int64_t hold = std::count_if(
        group.by_rank.begin(), group.by_rank.end(),
        [now](const auto& entry) { return entry.second.holds_until > now; });
    if (hold <= most) continue;
    most = hold;
    largest = &group;
  }
  if (largest == nullptr) return "";
  return absl::StrFormat("%d of %d workers of its epoch %d %s it for adoption",
                         most, largest->world, largest->epoch.value,
                         most == 1 ? "offers" : "offer");
}

// --- Groups -----------------------------------------------------------------

// Workers that do not say it run with all ranks of their mesh.
int Adoptions::WorldOf(const protocol::Hello& hello) {
  const int said = hello.resume->world;
  return said > 0 ? said : hello.spec->mesh.WorldSize();
}

bool Adoptions::Agrees(const Group& group, const protocol::Hello& hello) {
  return group.epoch == hello.resume->epoch &&
         group.members_digest == hello.resume->members_digest &&
         group.world == WorldOf(hello) &&
         group.token_hash == HashOfToken(hello.token) &&
         group.spec == *hello.spec;
}

bool Adoptions::Has(const JobName& job, const protocol::Hello& hello) const {
  const auto found = jobs_.find(job);
  return found != jobs_.end() &&
         std::any_of(found->second.begin(), found->second.end(),
                     [&](const Group& group) { return Agrees(group, hello); });
}

size_t Adoptions::CountEpochs(absl::Time now) {
  DropStale(now);
  size_t count = 0;
  for (const auto& [job, groups] : jobs_) count += groups.size();
  return count;
}

Adoptions::Group& Adoptions::GroupOf(const JobName& job,
                                     const protocol::Hello& hello) {
  std::vector<Group>& groups = jobs_[job];
  const auto found =
      std::find_if(groups.begin(), groups.end(),
                   [&](const Group& group) { return Agrees(group, hello); });
  if (found != groups.end()) return *found;
  groups.push_back({.epoch = hello.resume->epoch,
                    .members_digest = hello.resume->members_digest,
                    .spec = *hello.spec,
                    .world = WorldOf(hello),
                    .token_hash = HashOfToken(hello.token)});
  return groups.back();
}

void Adoptions::DropStale(absl::Time now) {
  if (now < drop_stale_at_) return;
  drop_stale_at_ = now + absl::Seconds(1);
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    for (Group& group : job->second) {
      std::erase_if(group.by_rank, [now](const auto& entry) {
        return entry.second.holds_until <= now;
      });
    }
    std::erase_if(job->second,
                  [](const Group& group) { return group.by_rank.empty(); });
    job = job->second.empty() ? jobs_.erase(job) : std::next(job);
  }
}

// nullopt if an offer has expired or the offers contradict each other.
std::optional<record::JobAdopted> Adoptions::Complete(const Group& group,
                                                      absl::Time now) {
  record::JobAdopted adopted{
      .spec = group.spec, .token_hash = group.token_hash, .epoch = group.epoch};
  std::vector<protocol::Member> members;
  for (const auto& [rank, offer] : group.by_rank) {
    if (offer.holds_until <= now) return std::nullopt;
    members.push_back(offer.member);
    adopted.members.push_back(
        {offer.member, offer.incarnation, offer.secret_hash});
    if (IsNewer(offer.wanted, adopted.wanted)) {
      adopted.wanted = offer.wanted;
    }
    if (offer.revision > adopted.revision) {
      adopted.revision = offer.revision;
      adopted.digest = offer.plan_digest;
    } else if (offer.revision == adopted.revision &&
               offer.plan_digest != adopted.digest) {
      return std::nullopt;
    }
  }
  if (plan::DigestOf(members) != group.members_digest) return std::nullopt;
  const Offer& first = group.by_rank.at(0);
  if (first.revision == adopted.revision) {
    adopted.observed_order = first.observed_order;
  }
  return adopted;
}

}  // namespace lockstep::core
