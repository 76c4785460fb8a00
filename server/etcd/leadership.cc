#include "server/etcd/leadership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/deadline.h"
#include "base/thread.h"

namespace lockstep::etcd {
namespace {

// The least that etcd grants; it ends 2.4 to 2.5 s after the last renewal.
constexpr int64_t kLeaseSeconds = 2;
constexpr absl::Duration kRenewInterval = absl::Milliseconds(500);
// From the beginning of the last renewal that succeeded. etcd counts from a
// later moment, so it has given the key to nobody else.
constexpr absl::Duration kLeadsFor = absl::Milliseconds(1900);
constexpr absl::Duration kCallTimeout = absl::Seconds(2);
// Also a watch that nothing was heard of for so long is begun again.
constexpr absl::Duration kWatchFor = absl::Seconds(5);
constexpr absl::Duration kRetryInterval = absl::Milliseconds(300);

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
  bool in_trouble = false;
  while (true) {
    const auto attempt = TryOnce(client, options);
    // A full etcd grants no lease until an operator makes room.
    if (absl::IsUnavailable(attempt.status()) ||
        absl::IsResourceExhausted(attempt.status())) {
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
    in_trouble = false;
    const KeyClaim& claim = attempt->claim;
    if (claim.is_mine) {
      return std::unique_ptr<Leadership>(new Leadership(
          client, std::move(options), attempt->lease, attempt->leads,
          {.key = claim.holder.key, .created = claim.holder.created}));
    }
    if (claim.holder.value != leader) options.on_wait(claim.holder.value);
    leader = claim.holder.value;
    const absl::Status ended =
        client->AwaitDeleted(options.key, claim.revision, kWatchFor);
    if (absl::IsCancelled(ended)) return ended;
    if (!ended.ok()) absl::SleepFor(kRetryInterval);
  }
}

Leadership::Leadership(Client* client, LeadershipOptions options, int64_t lease,
                       Deadline leads, Fence fence)
    : client_(client),
      options_(std::move(options)),
      lease_(lease),
      fence_(std::move(fence)),
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
  while (true) {
    {
      MutexLock lock(&mutex_);
      if (!stopping_) {
        changed_.WaitFor(&mutex_, std::min(kRenewInterval, leads.Left()));
      }
      if (stopping_) return;
    }
    const Deadline from_now(kLeadsFor);
    const auto left = client_->RenewLease(lease_, leads.Left());
    if (left.ok() && *left > absl::ZeroDuration() && !leads.Passed()) {
      leads = from_now;
      continue;
    }
    if (!leads.Passed() && !left.ok() && !absl::IsCancelled(left.status())) {
      continue;
    }
    {
      MutexLock lock(&mutex_);
      if (stopping_) return;
    }
    options_.on_lost(absl::AbortedError(
        absl::StrCat("this coordinator leads no more: its lease in etcd ",
                     left.ok() ? "has ended"
                               : absl::StrCat("could not be renewed in time: ",
                                              left.status().message()))));
    return;
  }
}

}  // namespace lockstep::etcd
