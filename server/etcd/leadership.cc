#include "server/etcd/leadership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/deadline.h"
#include "base/text/utf8.h"
#include "base/thread.h"

namespace lockstep::etcd {
namespace {

// The least that etcd grants; it ends 2.4 to 2.5 s after the last renewal.
constexpr int64_t kLeaseSeconds = 2;
constexpr absl::Duration kRenewInterval = absl::Milliseconds(500);
// From the beginning of the last renewal that succeeded. etcd counts from a
// later moment, so it has given the key to nobody else.
constexpr absl::Duration kLeadsFor = absl::Milliseconds(1900);
// No call returns so long after its time, except in a process that was stopped.
constexpr absl::Duration kSuspended = absl::Milliseconds(500);
constexpr absl::Duration kCallTimeout = absl::Seconds(2);
// A member that dies silently tells no watch. So the key is read when nothing
// was heard for so long, which finds one that answers.
constexpr absl::Duration kWatchFor = absl::Seconds(1);
constexpr absl::Duration kRetryInterval = absl::Milliseconds(300);
// Between two questions to why_not_wait.
constexpr absl::Duration kAskInterval = absl::Seconds(5);

absl::Status NoLease(const std::string& key, const std::string& value) {
  return absl::FailedPreconditionError(absl::StrCat(
      key, " in etcd has no lease, and is \"", Printable(value),
      "\": something that is no coordinator wrote it, so it does not end, and "
      "no coordinator can lead. Find out what uses the same prefix, and remove "
      "it: etcdctl del ",
      key));
}

// Terms stay below 2^63, whatever etcd's revision.
constexpr uint64_t kBaseMax = uint64_t{1} << 62;

absl::StatusOr<uint64_t> BaseOf(Client* client, const std::string& key) {
  if (key.empty()) return 0;
  const auto page = client->Read({key, ""}, 1, 0, kCallTimeout);
  if (!page.ok()) return page.status();
  if (page->keys.empty()) return 0;
  uint64_t base = 0;
  if (absl::SimpleAtoi(page->keys.front().value, &base) && base <= kBaseMax) {
    return base;
  }
  return absl::FailedPreconditionError(
      absl::StrCat(key, " in etcd is \"", Printable(page->keys.front().value),
                   "\", and must be a number up to 2^62: write the highest "
                   "term that workers "
                   "have heard, or remove it: etcdctl del ",
                   key));
}

// Returns when the key that was `seen` may be gone; Cancelled.
absl::Status AwaitGone(Client* client, const KeyValue& seen, int64_t revision) {
  while (true) {
    const absl::Status heard =
        client->AwaitDeleted(seen.key, revision, kWatchFor);
    if (absl::IsCancelled(heard)) return heard;
    if (!heard.ok()) absl::SleepFor(kRetryInterval);
    const auto now = client->Read({seen.key, ""}, 1, 0, kCallTimeout);
    if (absl::IsCancelled(now.status())) return now.status();
    const bool is_there = now.ok() && !now->keys.empty() &&
                          now->keys.front().created == seen.created &&
                          now->keys.front().lease == seen.lease;
    if (!is_there) return absl::OkStatus();
    revision = now->revision;
  }
}

}  // namespace

// The key, if nobody has it. Under a new lease: nobody renews one while this
// coordinator waits.
absl::StatusOr<Leadership::Attempt> Leadership::TryOnce(
    Client* client, const LeadershipOptions& options) {
  const Deadline fresh(kLeadsFor);
  const auto lease = client->GrantLease(kLeaseSeconds, kCallTimeout);
  if (!lease.ok()) return lease.status();
  auto claim =
      client->ClaimKey(options.key, options.identity, *lease, kCallTimeout);
  if (!claim.ok()) return claim.status();
  // It may end before it is renewed.
  const bool is_late = claim->is_mine && fresh.Passed();
  if (!claim->is_mine || is_late) {
    client->RevokeLease(*lease, kCallTimeout).IgnoreError();
  }
  return Attempt{*lease, *std::move(claim), is_late, fresh};
}

absl::StatusOr<std::unique_ptr<Leadership>> Leadership::Await(
    Client* client, LeadershipOptions options) {
  std::string leader;
  std::string foreign;
  bool in_trouble = false;
  Deadline ask(absl::ZeroDuration());
  while (true) {
    const auto attempt = TryOnce(client, options);
    // A full etcd grants no lease until an operator makes room.
    if (absl::IsUnavailable(attempt.status()) ||
        absl::IsResourceExhausted(attempt.status())) {
      if (options.why_not_wait && ask.Passed()) {
        if (absl::Status why = options.why_not_wait(); !why.ok()) return why;
        ask = Deadline(kAskInterval);
      }
      if (!in_trouble) options.on_trouble(attempt.status());
      in_trouble = true;
      absl::SleepFor(kRetryInterval);
      continue;
    }
    // The lease had ended before the claim, or nearly.
    const bool was_slow = absl::IsNotFound(attempt.status()) ||
                          (attempt.ok() && attempt->is_late);
    if (was_slow) {
      absl::SleepFor(kRetryInterval);
      continue;
    }
    if (!attempt.ok()) return attempt.status();
    if (std::exchange(in_trouble, false))
      leader.clear();  // say again who leads
    const KeyClaim& claim = attempt->claim;
    if (claim.is_mine) {
      const auto base = BaseOf(client, options.base_key);
      if (!base.ok()) {
        client->RevokeLease(attempt->lease, kCallTimeout).IgnoreError();
        if (!absl::IsUnavailable(base.status())) return base.status();
        if (!in_trouble) options.on_trouble(base.status());
        in_trouble = true;
        absl::SleepFor(kRetryInterval);
        continue;
      }
      return std::unique_ptr<Leadership>(new Leadership(
          client, std::move(options), attempt->lease, attempt->leads,
          {.key = claim.holder.key,
           .created = claim.holder.created,
           .lease = attempt->lease},
          *base));
    }
    if (claim.holder.lease == 0) {
      if (claim.holder.value != foreign) {
        options.on_trouble(NoLease(options.key, claim.holder.value));
      }
      foreign = claim.holder.value;
      leader.clear();
    } else {
      if (claim.holder.value != leader) options.on_wait(claim.holder.value);
      leader = claim.holder.value;
      foreign.clear();
    }
    const absl::Status ended = AwaitGone(client, claim.holder, claim.revision);
    if (!ended.ok()) return ended;
  }
}

Leadership::Leadership(Client* client, LeadershipOptions options, int64_t lease,
                       Deadline leads, Fence fence, uint64_t base)
    : client_(client),
      options_(std::move(options)),
      lease_(lease),
      fence_(std::move(fence)),
      base_(base),
      thread_(StartThread("ls-lease", [this, leads] { Renew(leads); })) {}

Leadership::~Leadership() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
  client_->RevokeLease(lease_, absl::Seconds(1)).IgnoreError();
}

void Leadership::Renew(Deadline fresh) {
  Deadline leads = fresh;
  Deadline suspended(leads.Left() + kSuspended);
  // Due at once: the claim has taken some of the time.
  Deadline renewal(absl::ZeroDuration());
  while (true) {
    {
      MutexLock lock(&mutex_);
      if (!stopping_) {
        changed_.WaitFor(&mutex_, std::min(renewal.Left(), leads.Left()));
      }
      if (stopping_) return;
    }
    renewal = Deadline(kRenewInterval);  // an etcd that is slow takes of it
    const Deadline from_now(kLeadsFor);
    const Deadline suspended_from_now(kLeadsFor + kSuspended);
    const auto left = client_->RenewLease(lease_, leads.Left());
    if (left.ok() && *left > absl::ZeroDuration() && !leads.Passed()) {
      leads = from_now;
      suspended = suspended_from_now;
      const absl::Status key = CheckKey(leads.Left());
      if (absl::IsAborted(key)) return Lose(key);
      continue;
    }
    if (!leads.Passed() && !left.ok() && !absl::IsCancelled(left.status())) {
      continue;
    }
    return Lose(absl::AbortedError(absl::StrCat(
        "its lease in etcd ",
        suspended.Passed() ? "has ended: this process did not run for a while"
        : left.ok()        ? "has ended"
                           : absl::StrCat("could not be renewed in time: ",
                                          left.status().message()))));
  }
}

absl::Status Leadership::CheckKey(absl::Duration timeout) {
  const auto page = client_->Read({fence_.key, ""}, 1, 0, timeout);
  if (!page.ok()) return page.status();
  const bool is_own = !page->keys.empty() &&
                      page->keys.front().created == fence_.created &&
                      page->keys.front().lease == lease_;
  if (is_own) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(
      "something that is no coordinator ",
      page->keys.empty() ? "removed " : "wrote ", fence_.key, " in etcd"));
}

void Leadership::Lose(const absl::Status& why) {
  {
    MutexLock lock(&mutex_);
    if (stopping_) return;
  }
  options_.on_lost(absl::AbortedError(
      absl::StrCat("this coordinator leads no more: ", why.message())));
}

}  // namespace lockstep::etcd
