// The part of Job about workers that wait while an epoch lives: spares,
// survivors of broken replicas, and newcomers. A waiting worker has arrived,
// has a stream and a lease, and is no member.
//
//   epoch lives ─▶ a loss ends it ─────────────────▶ they take lost ranks
//               └▶ elastic, and they make it larger:
//                  Command::kGrow is wanted ─▶ all ranks end it at one step,
//                                              by the verdict of that step
//
// The wish is withdrawn if the workers leave before that step. If ranks have
// passed it already, the next epoch forms with the members of this one.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/core/commands.h"
#include "server/core/formation.h"
#include "server/core/job.h"
#include "server/core/status_text.h"
#include "spec/elastic.h"

namespace lockstep::core {
namespace {

// Workers that join one after another join in one epoch.
constexpr absl::Duration kArrivalsPause = absl::Milliseconds(200);

}  // namespace

// "; w-4 and w-5 wait"; empty if none does.
std::string Job::WhoWaits() const {
  const std::set<WorkerName>& waiting = roster_.arrived();
  if (!epoch_ || waiting.empty()) return "";
  return absl::StrCat(
      "; ", NameList(std::vector<WorkerName>(waiting.begin(), waiting.end())),
      waiting.size() == 1 ? " waits" : " wait");
}

void Job::BeginWaiting(const Worker& worker, EventContext& context) {
  Remember(absl::StrFormat("%s waits: epoch %d lives, with %d of %d workers",
                           WhoIs(worker), durable_.epoch.value,
                           durable_.members.size(), spec().mesh.WorldSize()),
           context);
  grow_at_ = context.now + kArrivalsPause;
  ReviseGrowth(context);
}

// How many members the next epoch would have if this one ended now in order.
int Job::WorldIfGrown(bool also_suspects) const {
  std::vector<ArrivedWorker> arrived = Arrived(also_suspects);
  const auto world = static_cast<int>(durable_.members.size());
  int rank = 0;
  for (const protocol::Member& member : durable_.members) {
    arrived.push_back({member, CellOf(spec(), world, rank++)});
  }
  return static_cast<int>(
      FormEpoch(spec(), std::move(arrived), durable_.members).size());
}

bool Job::MayGrow() const {
  const bool ends = Wants(durable_.wanted, Command::kStop) ||
                    Wants(durable_.wanted, Command::kDrain);
  return epoch_ && spec::IsElastic(spec()) && MayTrain() && !ends &&
         !epoch_->any_left() && !roster_.arrived().empty();
}

void Job::ReviseGrowth(EventContext& context) {
  if (!epoch_) return;
  const bool wanted = durable_.wanted.wants_growth();
  const int world = MayGrow() ? WorldIfGrown(/*also_suspects=*/wanted) : 0;
  const bool grows = world > static_cast<int>(durable_.members.size());
  if (!grows) grow_at_ = absl::InfiniteFuture();
  if (grows && !wanted && grow_at_ == absl::InfiniteFuture()) {
    grow_at_ = context.now + kArrivalsPause;
  }
  const bool is_time =
      world == spec().mesh.WorldSize() || grow_at_ <= context.now;
  if (grows && !wanted && !is_time) return;
  grow_at_ = absl::InfiniteFuture();
  if (wanted == grows) return;
  Remember(grows ? absl::StrFormat("the job grows to %s after the next step "
                                   "that all ranks end%s",
                                   Count(world, "worker"), WhoWaits())
                 : std::string("the job does not grow now"),
           context);
  protocol::DesiredCommands next = durable_.wanted;
  ++next.growths;
  Want(std::move(next), context);
}

// The verdict of the last step ended the epoch, on all ranks.
void Job::EndGrown(const Worker& worker, EventContext& context) {
  const std::set<WorkerName>& waiting = roster_.arrived();
  std::vector<WorkerName> names(waiting.begin(), waiting.end());
  std::string message = absl::StrFormat(
      "the job grows: all ranks ended the epoch in order, as %s reports",
      WhoIs(worker));
  if (names.empty()) {
    absl::StrAppend(&message, "; those that waited to join are gone");
  } else {
    absl::StrAppend(&message, WhoWaits(), " to join");
  }
  EndEpoch({{.kind = protocol::CauseKind::kGrown,
             .workers = std::move(names),
             .message = std::move(message)},
            Again::kIfDesired,
            {}},
           context);
}

}  // namespace lockstep::core
