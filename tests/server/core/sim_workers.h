// Simulated workers: each follows the protocol unless a test makes it
// misbehave.
//
//   out ─Hello▶ greeted ─Welcome▶ waiting ─EpochFormed▶ formed ─▶ registered
//    ▲                                                              │ PlanReady
//    │ Refused: another incarnation                                 ▼
//    └── ended ◀─EpochEnded── running ◀─Start── connected ◀─ ... ─ planned
//
// After the end of an epoch a worker reports, carries the decision out, and
// joins again with its state: the updates that it has applied.
//
// The data plane is simulated too: no worker leaves a transfer or a verdict
// before all members have entered it.

#ifndef LOCKSTEP_TESTS_SERVER_CORE_SIM_WORKERS_H_
#define LOCKSTEP_TESTS_SERVER_CORE_SIM_WORKERS_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "plan/ir.h"
#include "protocol/protocol.h"
#include "server/core/event.h"

namespace lockstep::core {

enum class Act {
  kOut,
  kGreeted,
  kWaiting,
  kFormed,
  kRegistered,
  kPlanned,
  kAcked,
  kPublished,
  kConnected,
  kRunning,
  kEnded,
  kLeaving,
};

struct Actor {
  WorkerName name;
  protocol::ProcessInfo process;
  uint64_t incarnation = 1;
  Act act = Act::kOut;
  SessionId session;
  Generation generation;
  std::string secret;
  EpochId epoch;
  std::vector<protocol::Member> members;
  int rank = -1;
  Revision revision;
  std::string digest;
  protocol::PublishHandles publish;  // once it has fetched the plan
  std::set<int> handles;             // communicators whose handles it received
  bool acked = false;
  bool started = false;
  bool registers_again = false;  // the coordinator wants it
  std::string plan_wanted;       // likewise: the digest; empty: it does not
  Revision running;              // by its steps; 0: not begun
  Revision order_wanted;         // 0: none is requested
  protocol::PlanReady next;      // announced after the acknowledged one
  bool has_next = false;         // `next` is fetched
  protocol::Position position;
  uint64_t first_step = 0;  // of the epoch
  protocol::Leave leave;
  // The state of the training: for each step, the epoch whose verdict let the
  // worker apply the step's gradients.
  std::vector<EpochId> updates;
  bool holds_state = false;  // `updates` are those of position.step steps
  std::vector<uint32_t> holders;
  bool reported = false;  // since the last Welcome
  std::optional<protocol::RecoveryDecision> decision;
  std::optional<protocol::HeldState> held;
  // Until then the worker sends only heartbeats.
  absl::Time heartbeats_only_until = absl::InfinitePast();

  // A new process of the same name.
  void Die() {
    const WorkerName same = name;
    protocol::ProcessInfo next = process;
    next.pid += 10;
    ++next.start_time;
    const uint64_t next_life = incarnation + 1;
    *this = {.name = same, .process = next, .incarnation = next_life};
  }

  // The same process starts another session.
  void BeginAgain() {
    const Actor before = *this;
    *this = {.name = before.name,
             .process = before.process,
             .incarnation = before.incarnation + 1,
             .session = before.session};
  }

  // The same, with the state of the session before.
  void BeginAgainWithState() {
    const Actor before = *this;
    BeginAgain();
    if (!before.held) return;
    updates = before.updates;
    held = before.held;
  }

  static std::string VerdictOf(EpochId epoch, uint64_t step) {
    return absl::StrCat("verdict of step ", step, " in epoch ", epoch.value);
  }

  protocol::EpochReport MakeReport() const {
    protocol::EpochReport report{.position = position,
                                 .holds_state = holds_state};
    if (position.step > first_step) {
      report.verdict = VerdictOf(epoch, position.step - 1);
    }
    return report;
  }

  protocol::Hello MakeHello(const JobSpec& spec) const {
    protocol::Hello hello{.worker = name,
                          .generation = generation,
                          .incarnation = incarnation,
                          .spec = spec,
                          .process = process,
                          .held = held};
    if (generation.value == 0) return hello;
    hello.secret = secret;
    hello.resume = protocol::ResumeState{
        .epoch = epoch, .position = position, .started = started};
    if (acked) {
      hello.resume->revision = revision;
      hello.resume->plan_digest = digest;
    }
    return hello;
  }

  // Handles a message from the coordinator.
  void Receive(const protocol::ToWorker& message) {
    std::visit([&](const auto& body) { On(message.epoch, body); },
               message.body);
  }

  // Fetches the announced plan.
  void Fetch(const plan::Plan& plan) {
    publish = {};
    for (size_t c = 0; c < plan.communicators.size(); ++c) {
      const std::vector<int>& ranks = plan.communicators[c].ranks;
      if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) continue;
      publish.handles.push_back(
          {static_cast<int>(c),
           absl::StrCat("handle of ", name.value, " in ", epoch.value)});
    }
  }

  // The answer to PlanWanted: the cluster writes a plan as its digest. Some
  // incarnations have lost the plan or send another.
  protocol::PlanPart GivePlanBack() {
    protocol::PlanPart part{.digest = std::exchange(plan_wanted, "")};
    if (incarnation % 3 == 2 || part.digest != digest) return part;
    part.data = digest;
    part.total_bytes = part.data.size();
    if (incarnation % 3 == 0) part.data[0] ^= 1;
    return part;
  }

  static bool Contains(const std::vector<uint32_t>& ranks, int rank) {
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  }

  void LoseStream() {
    session = {};
    if (act == Act::kGreeted) act = Act::kOut;
  }

 private:
  void On(EpochId, const protocol::Welcome& welcome) {
    generation = welcome.generation;
    if (!welcome.secret.empty()) secret = welcome.secret;
    reported = false;
    registers_again = false;
    plan_wanted.clear();
    if (act == Act::kLeaving) return;
    // Messages sent since the epoch was formed may not have been received: the
    // worker sends all of them again.
    if (epoch.value == 0) {
      act = Act::kWaiting;
    } else if (act != Act::kEnded && !started) {
      act = Act::kFormed;
    }
  }
  void On(EpochId, const protocol::Refused&) { Die(); }
  void On(EpochId formed_epoch, const protocol::EpochFormed& formed) {
    if (formed_epoch <= epoch) return;
    epoch = formed_epoch;
    rank = formed.rank;
    members = formed.members;
    act = Act::kFormed;
    acked = started = false;
    revision = {};
    digest.clear();
    publish = {};
    handles.clear();
    position = {.step = formed.first_step};
    first_step = formed.first_step;
    holders = formed.holders;
    holds_state = Contains(holders, rank) || first_step == 0;
    if (Contains(holders, rank)) {
      EXPECT_TRUE(held) << name.value << " did not say that it has a state";
      EXPECT_EQ(updates.size(), first_step) << name.value;
    }
    held.reset();
    decision.reset();
    if (first_step == 0 && !Contains(holders, rank)) updates.clear();
    running = order_wanted = {};
    next = {};
    has_next = false;
  }
  void On(EpochId at, const protocol::PlanReady& ready) {
    if (at != epoch) return;
    if (acked) {  // a later revision, while steps run
      if (ready.revision <= revision || ready == next) return;
      next = ready;
      has_next = false;
      return;
    }
    revision = ready.revision;
    digest = ready.digest;
    if (act == Act::kRegistered) act = Act::kPlanned;
  }
  void On(EpochId at, const protocol::GroupHandles& group) {
    if (at == epoch) handles.insert(group.communicator);
  }
  void On(EpochId at, const protocol::Start&) {
    if (at != epoch || act == Act::kEnded) return;
    started = true;
    if (running.value == 0) running = {1};
    if (act != Act::kLeaving) act = Act::kRunning;
  }
  void On(EpochId, const protocol::EpochEnded&) {
    if (act != Act::kLeaving) act = Act::kEnded;
  }
  void On(EpochId at, const protocol::RecoveryDecision& taken) {
    if (at != epoch || decision) return;
    decision = taken;
    if (!Contains(taken.holders, rank)) return;
    EXPECT_TRUE(holds_state) << name.value;
    if (position.step != taken.steps) {
      EXPECT_EQ(position.step + 1, taken.steps) << name.value;
      EXPECT_EQ(position.phase, protocol::Phase::kVerdict) << name.value;
      EXPECT_EQ(taken.verdict, VerdictOf(epoch, position.step)) << name.value;
      updates.push_back(epoch);
    }
    EXPECT_EQ(updates.size(), taken.steps) << name.value;
    held = {epoch, taken.steps};
  }
  void On(EpochId, const protocol::Left&) { Die(); }
  void On(EpochId, const protocol::Warning&) {}
  void On(EpochId, const protocol::CheckpointNews&) {}
  // These workers ignore operator commands.
  void On(EpochId, const protocol::DesiredCommands&) {}
  void On(EpochId at, const protocol::OrderWanted& order) {
    if (at == epoch) order_wanted = order.revision;
  }
  void On(EpochId, const protocol::Decide&) {}
  void On(EpochId at, const protocol::PlanWanted& wanted) {
    if (at == epoch) plan_wanted = wanted.digest;
  }
  void On(EpochId at, const protocol::RegistrationWanted&) {
    registers_again = at == epoch;
  }
};

// The revisions that a member runs and holds when it enters a verdict.
struct RevisionVotes {
  Revision runs;
  Revision holds;
};

// The furthest position of each member of an epoch, and its step summaries. A
// member's contributions remain after it has left.
struct DataPlane {
  std::map<WorkerName, protocol::Position> reached;
  std::map<uint64_t, std::map<WorkerName, RevisionVotes>> votes;

  // The revision after the verdict of `step`, which all have entered: the next
  // one if all hold it. All must run the same.
  Revision After(uint64_t step) {
    const auto& all = votes[step];
    const Revision runs = all.begin()->second.runs;
    bool everyone = true;
    for (const auto& [worker, ballot] : all) {
      EXPECT_EQ(ballot.runs, runs) << worker.value << " mixes revisions";
      everyone = everyone && ballot.holds.value == runs.value + 1;
    }
    return everyone ? Revision{runs.value + 1} : runs;
  }
};

// An actor's next message by the protocol; a heartbeat if it can only wait.
inline protocol::ToCoordinatorBody NextWord(Actor* actor, DataPlane* plane,
                                            uint64_t steps) {
  using protocol::Phase;
  const protocol::RegisterChunk registration{
      .index = 0,
      .last = true,
      .parameters = {{.name = "weight", .shape = {8, 4}},
                     {.name = "bias", .shape = {8}},
                     {.name = "scale", .shape = {8}}}};
  if (!actor->plan_wanted.empty()) return actor->GivePlanBack();
  if (std::exchange(actor->registers_again, false)) return registration;
  switch (actor->act) {
    case Act::kFormed:
      actor->act = Act::kRegistered;
      if (!actor->digest.empty()) actor->act = Act::kPlanned;
      return registration;
    case Act::kPlanned:
      if (actor->publish.handles.empty()) break;  // the fetch failed
      actor->act = Act::kAcked;
      actor->acked = true;
      return protocol::PlanAck{actor->revision, actor->digest};
    case Act::kAcked: actor->act = Act::kPublished; return actor->publish;
    case Act::kPublished:
      if (actor->handles.size() < actor->publish.handles.size()) break;
      actor->act = Act::kConnected;
      return protocol::Connected{};
    case Act::kRunning: {
      protocol::Position& at = actor->position;
      if (actor->has_next && actor->next.revision > actor->revision) {
        actor->revision = actor->next.revision;
        actor->digest = actor->next.digest;
        return protocol::PlanAck{actor->revision, actor->digest};
      }
      if (actor->order_wanted.value != 0 && at.phase == Phase::kIdle) {
        const uint32_t first = static_cast<uint32_t>(at.step) % 3;
        return protocol::ReadyOrder{
            std::exchange(actor->order_wanted, Revision{}),
            {first, (first + 1) % 3, (first + 2) % 3}};
      }
      const auto all_entered = [&](Phase phase) {
        for (const protocol::Member& member : actor->members) {
          if (plane->reached[member.worker] <
              protocol::Position{at.step, phase}) {
            return false;
          }
        }
        return true;
      };
      switch (at.phase) {
        case Phase::kIdle:
          if (at.step >= steps) {
            actor->act = Act::kLeaving;
            actor->leave = {
                .clean = true,
                .steps = at.step,
                .verdict = at.step == actor->first_step
                               ? ""
                               : Actor::VerdictOf(actor->epoch, at.step - 1)};
            return actor->leave;
          }
          at.phase = Phase::kCompute;
          break;
        case Phase::kCompute: at.phase = Phase::kTransfer; break;
        case Phase::kTransfer:
          if (!all_entered(Phase::kTransfer)) return protocol::Heartbeat{};
          at.phase = Phase::kVerdict;
          plane->votes[at.step][actor->name] = {actor->running,
                                                actor->revision};
          break;
        case Phase::kVerdict:
          if (!all_entered(Phase::kVerdict)) return protocol::Heartbeat{};
          actor->running = plane->After(at.step);
          actor->updates.push_back(actor->epoch);
          at = {at.step + 1, Phase::kIdle};
          break;
      }
      plane->reached[actor->name] = at;
      return protocol::Progress{.position = at, .revision = actor->running};
    }
    case Act::kLeaving: return actor->leave;
    case Act::kOut:
    case Act::kGreeted:
    case Act::kWaiting:
    case Act::kRegistered:
    case Act::kConnected:
    case Act::kEnded: break;
  }
  return protocol::Heartbeat{};
}

}  // namespace lockstep::core

#endif  // LOCKSTEP_TESTS_SERVER_CORE_SIM_WORKERS_H_
