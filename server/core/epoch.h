// A live epoch: its members and their shared progress.
//
//   sealed    registry fills            ──▶ plan
//   planned   acked, handles, connected ──▶ Start
//   running   progress; poll, holding, running of later revisions
//
// A plain record that the job fills in; its parts contain the logic.

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
#include "protocol/protocol.h"
#include "protocol/shared_list.h"
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

  // The running compilation, of the plan or its next revision; 0: none.
  CompilationId compiling;
  std::shared_ptr<const plan::Plan> plan;  // once all have registered
  // Ranks run a plan that this coordinator cannot compile; `plan` is null.
  bool plan_is_foreign = false;
  std::string digest;  // of the plan
  RankSet acked;
  std::optional<HandleExchange> handles;
  RankSet connected;
  Connections connections;  // as reported, for display
  absl::Time connect_by = absl::InfiniteFuture();

  std::map<int, PreReplayBuffer> early;  // by rank, after a coordinator restart

  bool started = false;
  std::optional<Negotiation> negotiation;  // from the plan; negotiated mode
  ProgressTracker progress;
  StragglerTracker lags;
  UnsubmittedTracker unsubmitted;
  ValueDigestTracker values;

  // Later revisions: the poll for a requested one, and the ranks that hold and
  // that run the revision of `plan`.
  std::optional<ReadyOrderCollector> poll;
  std::vector<uint32_t> recut_order;  // of the revision being compiled
  RankSet holding;
  RankSet running;

  Accusations accusations;

  RankSet left;  // cleanly
  // Among the ranks in `left` and the ranks that have withdrawn: the one that
  // stopped after the fewest steps, and that number of steps.
  int first_leaver = -1;
  uint64_t left_at = std::numeric_limits<uint64_t>::max();
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_EPOCH_H_
