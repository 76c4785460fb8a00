// One epoch while it lives: its members and what they have done together.
//
//   sealed    registry fills            ──▶ plan
//   planned   acked, handles, connected ──▶ Start
//   running   board; poll, holding, running of later revisions
//
// A record that the job fills in; the parts answer the questions.

#ifndef LOCKSTEP_SERVER_CORE_EPOCH_H_
#define LOCKSTEP_SERVER_CORE_EPOCH_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "plan/ir.h"
#include "plan/words/protocol.h"
#include "plan/words/shared_list.h"
#include "server/core/compilation.h"
#include "server/core/connections.h"
#include "server/core/evidence.h"
#include "server/core/handle_exchange.h"
#include "server/core/negotiation.h"
#include "server/core/pre_replay_buffer.h"
#include "server/core/progress_tracker.h"
#include "server/core/rank_set.h"
#include "server/core/ready_order_collector.h"
#include "server/core/registry.h"
#include "server/core/straggler_tracker.h"
#include "server/core/unsubmitted_tracker.h"
#include "server/core/value_digest_tracker.h"

namespace lockstep::core {

struct Epoch {
  Epoch(EpochId id, SharedList<protocol::Member> members, const JobSpec& spec,
        uint64_t first_step, absl::Time now)
      : id(id),
        first_step(first_step),
        members(std::move(members)),
        registry(size(), spec.limits.parameters_max),
        acked(size()),
        connected(size()),
        progress(size(), spec.timeouts.progress, now, first_step),
        values(size()),
        holding(size()),
        running(size()),
        left(size()) {
    for (int rank = 0; rank < size(); ++rank) {
      rank_of[this->members[rank].worker.value] = rank;
    }
  }

  int size() const { return static_cast<int>(members.size()); }

  // -1: no member.
  int RankOf(const WorkerName& worker) const {
    const auto found = rank_of.find(worker.value);
    return found == rank_of.end() ? -1 : found->second;
  }

  const EpochId id;
  const uint64_t first_step;                   // as in EpochFormed
  const SharedList<protocol::Member> members;  // in rank order
  absl::flat_hash_map<std::string, int> rank_of;

  Registry registry;

  CompilationId
      compiling;  // under way: the plan, or its next revision; 0: none
  std::shared_ptr<const plan::Plan> plan;  // once all have registered
  // Steps run by a plan that this coordinator cannot compile; there is none.
  bool plan_is_foreign = false;
  std::string digest;  // of it
  RankSet acked;
  std::optional<HandleExchange> handles;
  RankSet connected;
  Connections connections;  // how they say they are connected
  absl::Time connect_by = absl::InfiniteFuture();

  std::map<int, PreReplayBuffer> early;  // by rank, after a restart

  bool started = false;
  std::optional<Negotiation> negotiation;  // with the plan, in negotiated mode
  ProgressTracker progress;
  StragglerTracker lags;
  UnsubmittedTracker unsubmitted;
  ValueDigestTracker values;

  // Later revisions: one that is asked for, and who holds and who runs the one
  // that `plan` is.
  std::optional<ReadyOrderCollector> poll;
  std::vector<uint32_t> recut_order;  // of the revision that is compiled
  RankSet holding;
  RankSet running;

  Accusations accusations;

  RankSet left;  // cleanly
  // Of those, and of the ranks that have withdrawn: who stopped after the
  // fewest steps, and after how many.
  int first_leaver = -1;
  uint64_t left_at = std::numeric_limits<uint64_t>::max();
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_EPOCH_H_
