#include "lockstep/state_replicas.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/text/count.h"
#include "base/text/rank_list.h"
#include "client/collectives/axis_group_impl.h"
#include "client/session/session_impl.h"
#include "client/state/recovery.h"
#include "client/state/replica_check.h"
#include "lockstep/checkpointer.h"
#include "lockstep/session.h"
#include "plan/state/elastic.h"
#include "plan/state/ranges.h"
#include "plan/state/recovery.h"

namespace lockstep {
namespace {

// The slowest hashing or transfer that is expected.
constexpr int64_t kSlowestBytesPerSecond = int64_t{16} << 20;

// All ranks, by their numbers: a declaration of its own beside that of the
// program's group over all axes.
protocol::AxisGroupDeclaration AllRanks(const Mesh& mesh) {
  protocol::AxisGroupDeclaration all;
  for (const MeshAxis& axis : mesh.axes) all.axes.push_back(axis.name);
  std::vector<int>& ranks = all.index_groups.emplace_back();
  for (int rank = 0; rank < mesh.WorldSize(); ++rank) ranks.push_back(rank);
  return all;
}

int64_t BytesOfRank(const std::vector<plan::StateTensor>& tensors,
                    const Mesh& mesh, int rank) {
  int64_t bytes = 0;
  for (const plan::StateTensor& tensor : tensors) {
    for (const plan::HeldRange& range : plan::RangesOf(tensor, mesh)) {
      if (!std::binary_search(range.ranks.begin(), range.ranks.end(), rank)) {
        continue;
      }
      bytes += range.count * static_cast<int64_t>(SizeOf(tensor.dtype));
    }
  }
  return bytes;
}

}  // namespace

class StateReplicas::Impl {
 public:
  Impl(Session& session, AxisGroup group)
      : session_(session), group_(std::move(group)) {}

  absl::Status Check() {
    return Run("StateReplicas::Check", "check",
               [this](const RegisteredState& state, Communicator& comm,
                      Stream& stream) {
                 return state::ReplicaCheck(
                            *state.tensors, mesh(),
                            {state.memory.begin(), state.memory.end()}, wire())
                     .Check(comm, stream);
               });
  }

  absl::Status Recover(std::vector<int> newcomers) {
    std::sort(newcomers.begin(), newcomers.end());
    const std::vector<int> healthy = Others(newcomers);
    const absl::Status recovered = Run(
        "StateReplicas::Recover",
        absl::StrCat("recover ", absl::StrJoin(newcomers, ",")),
        [&](const RegisteredState& state, Communicator& comm, Stream& stream) {
          const auto plan =
              plan::PlanRecovery(*state.tensors, mesh(), newcomers, healthy);
          // Without a plan the ranks still compare theirs: one that was
          // called with other newcomers would wait else.
          const absl::Status sent = state::Recover(
              *state.tensors, plan.ok() ? *plan : plan::RecoveryPlan{},
              state.memory, comm, stream, {.wire = wire()});
          return plan.ok() ? sent : plan.status();
        });
    if (recovered.ok()) session_.impl().state().NoteLoaded();
    return recovered;
  }

  absl::StatusOr<ResumedState> Resume(AsyncCheckpointer* checkpoints) {
    Session::Impl& session = session_.impl();
    const std::vector<uint32_t>& holders = session.holders();
    if (holders.empty() && session.first_step() == 0) {
      return ResumedState{.origin = StateOrigin::kInitial};
    }
    const std::vector<int> healthy(holders.begin(), holders.end());
    const std::vector<int> newcomers = Others(healthy);
    if (newcomers.empty() && !session.resized()) {
      return ResumedState{.origin = StateOrigin::kKept};
    }
    const auto state = session.state().Agreed();
    if (!state.ok()) return state.status();
    if (!newcomers.empty() && state->tensors->empty()) {
      return absl::FailedPreconditionError(absl::StrCat(
          RankList(newcomers),
          " joined without the state of the job, and none is registered: "
          "Session::RegisterState"));
    }
    const absl::Status lost =
        WhyLost(*state->tensors, newcomers, healthy, session.resized());
    if (lost.ok() && newcomers.empty()) {
      return ResumedState{.origin = StateOrigin::kKept};
    }
    if (lost.ok()) {
      absl::Status recovered = Recover(newcomers);
      if (!recovered.ok()) return recovered;
      return ResumedState{.origin = StateOrigin::kPeers};
    }
    const bool has_checkpoint =
        checkpoints != nullptr && checkpoints->newest().has_value();
    // Nobody has passed a step: newcomers have what training begins with.
    if (!has_checkpoint && session.first_step() == 0) {
      session.state().NoteLoaded();
      return ResumedState{.origin = StateOrigin::kInitial};
    }
    if (!has_checkpoint) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the state of the job after ", Count(session.first_step(), "step"),
          " is lost, and there is no checkpoint: ", lost.message()));
    }
    auto training = checkpoints->Load();
    if (!training.ok()) return training.status();
    return ResumedState{.origin = StateOrigin::kCheckpoint,
                        .training = *std::move(training)};
  }

 private:
  // Why the healthy ranks cannot give the newcomers the state; OK if they can.
  absl::Status WhyLost(const std::vector<plan::StateTensor>& tensors,
                       const std::vector<int>& newcomers,
                       const std::vector<int>& healthy, bool resized) const {
    if (healthy.empty()) {
      return absl::FailedPreconditionError("no rank has the state");
    }
    if (resized) {
      absl::Status all = plan::CheckReplicasHoldAll(tensors, session_.spec());
      if (!all.ok()) return all;
    }
    return plan::PlanRecovery(tensors, mesh(), newcomers, healthy).status();
  }

  // The ranks of the job that are not among these.
  std::vector<int> Others(const std::vector<int>& ranks) const {
    std::vector<int> others;
    for (int rank = 0; rank < session_.world_size(); ++rank) {
      if (!std::binary_search(ranks.begin(), ranks.end(), rank)) {
        others.push_back(rank);
      }
    }
    return others;
  }

  const Mesh& mesh() const { return session_.spec().mesh; }

  // Runs `body` on all ranks, as a call of the group.
  absl::Status Run(const std::string& call, const std::string& signature,
                   absl::FunctionRef<absl::Status(const RegisteredState&,
                                                  Communicator&, Stream&)>
                       body) {
    absl::StatusOr<RegisteredState> state = session_.impl().state().Agreed();
    if (!state.ok()) return state.status();
    const int64_t bytes = BytesOfRank(*state->tensors, mesh(), session_.rank());
    const auto busy =
        session_.Busy(call, session_.spec().timeouts.progress +
                                absl::Seconds(bytes / kSlowestBytesPerSecond));
    return group_.impl().RunAndWait(call, signature,
                                    [&](Communicator& comm, Stream& stream) {
                                      return body(*state, comm, stream);
                                    });
  }

  state::WireMemory wire() const {
    const GroupMemory memory = group_.impl().memory();
    return {.device = memory.device, .allocate = memory.allocate};
  }

  Session& session_;
  const AxisGroup group_;
};

absl::StatusOr<std::unique_ptr<StateReplicas>> StateReplicas::Create(
    Session& session) {
  auto group = session.impl().Group(AllRanks(session.spec().mesh));
  if (!group.ok()) return group.status();
  return std::unique_ptr<StateReplicas>(
      new StateReplicas(std::make_unique<Impl>(session, *std::move(group))));
}

StateReplicas::StateReplicas(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}
StateReplicas::~StateReplicas() = default;

absl::StatusOr<ResumedState> StateReplicas::Resume(
    AsyncCheckpointer* checkpoints) {
  return impl_->Resume(checkpoints);
}

absl::Status StateReplicas::Check() { return impl_->Check(); }

absl::Status StateReplicas::Recover(const std::vector<int>& newcomers) {
  return impl_->Recover(newcomers);
}

}  // namespace lockstep
