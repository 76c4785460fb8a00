// The plan of an epoch, and its later revisions: rebuilding the buckets while
// steps run.
//
//   OrderWanted ─▶ the lowest rank of each group
//   ReadyOrder  ◀─ ... after its next step             all have answered:
//   PlanReady   ─▶ every rank                          recut, verify, record
//   PlanAck     ◀─ a rank that has fetched and prepared the revision, as its
//                  step summaries say
//   Progress    ◀─ with the revision, once a verdict has switched to it
//
// The coordinator takes no part in the switch: ranks switch at the verdict that
// shows that every rank holds the revision (docs/architecture.md, "Step
// agreement"). One revision at a time: the next is requested when all ranks run
// this one.
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_PLAN_REVISIONS_H_
#define LOCKSTEP_SERVER_CORE_PLAN_REVISIONS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "plan/ir.h"
#include "protocol/registration.h"
#include "server/core/compilation.h"
#include "server/core/epoch_context.h"
#include "server/core/rank_set.h"
#include "server/core/ready_order_collector.h"

namespace lockstep::core {

class PlanRevisions {
 public:
  explicit PlanRevisions(int world_size)
      : holding_(world_size), running_(world_size) {}

  // --- The plan ---

  // The plan that all ranks registered for is compiled.
  void SetPlan(CompiledPlan compiled) { compiled_ = std::move(compiled); }
  // nullptr: it is not compiled or recalled yet, or another coordinator's.
  const std::shared_ptr<const plan::Plan>& plan() const {
    return compiled_.plan;
  }
  bool has_plan() const { return compiled_.plan != nullptr; }
  // The plan, if this is its digest.
  std::shared_ptr<const plan::Plan> Find(const std::string& digest) const {
    return compiled_.digest == digest ? compiled_.plan : nullptr;
  }

  // --- Requesting a revision ---

  // Requests the one revision of `rebuild: once`, unless it was requested.
  void RebuildOnce(EpochContext& context);
  // FailedPrecondition, with no change, if it cannot be requested now.
  absl::Status RebuildNow(EpochContext& context);
  // After a restart of the coordinator, once it has the plan: the announcement
  // of the revision, or the request for one, may have been lost.
  void Resume(EpochContext& context);
  // Asks a member with a new stream again.
  void RepeatRequest(int rank, EpochContext& context) const;

  // --- Messages while steps run ---

  std::optional<EpochEnd> On(int rank, const protocol::ReadyOrder& message,
                             EpochContext& context);
  // The rank holds the revision. Also without a plan, after a restart.
  std::optional<EpochEnd> On(int rank, const protocol::PlanAck& ack,
                             EpochContext& context);
  // The rank's steps run the revision.
  void NoteRunning(int rank, Revision revision, EpochContext& context);
  // The requested revision is compiled. Ignored if it is another compilation.
  void Take(const Compiled& event, EpochContext& context);

 private:
  // OK, or why the buckets of this job are never rebuilt.
  absl::Status MayRebuild(const JobSpec& spec) const;
  // OK, or why a revision is under way.
  absl::Status IsSettled(const EpochContext& context) const;
  bool OrderMatters(const JobSpec& spec) const;
  void AskForOrder(EpochContext& context);
  void Adopt(const CompiledPlan& recut, const std::vector<uint32_t>& order,
             EpochContext& context);

  CompiledPlan compiled_;
  std::optional<ReadyOrderCollector> poll_;  // for the next revision
  CompilationId compiling_;                  // the next revision; 0: none
  std::vector<uint32_t> recut_order_;        // of that compilation
  // The ranks that hold and that run this revision, if it is a later one.
  RankSet holding_;
  RankSet running_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_PLAN_REVISIONS_H_
