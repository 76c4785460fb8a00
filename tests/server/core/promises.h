// The coordinator's guarantees to workers and operators, checked from outside:
// this class sees only the coordinator's events and effects.
//
//   * nothing is sent on a closed stream; each stream is closed once
//   * each name is bound to one stream: a worker is welcomed on one stream
//     only, and its generation is durable
//   * the epochs of a job never overlap, their numbers increase, and each has
//     as many members as the mesh has ranks; former members keep their ranks;
//     all members receive the same list
//   * nothing is promised before its record: membership, plan, ends
//   * a revision is adopted when all run the previous one
//   * a plan starts when every member has acknowledged it and is connected
//   * every reachable member of an ended epoch gets its end, at once, and once
//     per Hello
//   * a lost worker was silent, had left, or was reported by a peer
//   * every request is answered once
//
// Failures are gtest failures; the test prints the history that led to one.

#ifndef LOCKSTEP_TESTS_SERVER_CORE_PROMISES_H_
#define LOCKSTEP_TESTS_SERVER_CORE_PROMISES_H_

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "plan/ir.h"
#include "server/core/commands.h"
#include "server/core/coordinator.h"
#include "tests/server/core/describe.h"

namespace lockstep::core {

class Promises {
 public:
  void Saw(absl::Time now, const Event& event, const Effects& effects,
           const Coordinator& core) {
    now_ = now;
    core_ = &core;
    answers_ = 0;
    std::visit([this](const auto& e) { Note(e); }, event);
    for (const Effect& effect : effects) {
      std::visit([this](const auto& e) { Check(e); }, effect);
      if (testing::Test::HasFailure()) {
        ADD_FAILURE() << "at " << Describe(effect);
        return;
      }
    }
    EXPECT_EQ(answers_, questions_) << "a question is answered once";
    questions_ = 0;
    CheckThatAllWereTold();
    if (std::holds_alternative<TimerExpired>(event)) {
      EXPECT_GT(core.NextWake(), now) << "would spin";
    }
  }

  // The coordinator died with all its streams; another one replaces it.
  void Restarted(absl::Time now) {
    streams_.clear();
    closed_.clear();
    restarted_ = now;
    for (auto& [name, job] : jobs_) {
      job.speaker.clear();
      job.recovered = true;
    }
  }

  // Coverage of a history: one with few events proves little.
  int epochs() const { return epochs_; }
  int starts() const { return starts_; }
  int completed() const { return completed_; }
  int later_revisions() const { return later_revisions_; }
  const std::map<protocol::CauseKind, int>& causes() const { return causes_; }
  int replays() const { return replays_; }
  int roll_forwards() const { return roll_forwards_; }

 private:
  struct Stream {
    JobName job;
    WorkerName worker;
    Generation generation;
    std::set<std::pair<uint64_t, bool>> ends_told;
  };
  struct Life {
    uint64_t incarnation = 0;  // Hello::incarnation
    absl::Time heard;
    std::optional<absl::Time> broke;
    bool accused = false;
    bool left = false;
    bool said_connected = false;
    bool acked = false;
    Revision runs;  // as reported in this epoch
  };
  struct JobSeen {
    JobSpec spec;
    bool over = false;
    bool drains = false;     // an operator wants it
    bool recovered = false;  // by a restarted coordinator
    EpochId newest;
    bool lives = false;
    std::vector<protocol::Member> members;  // of the newest
    std::vector<protocol::Member> before;
    std::string digest;
    Revision revision;  // adopted
    protocol::Cause cause;
    WorkerName unfinished;  // as in EpochFinished
    std::set<EpochId> ended;
    std::set<EpochId> decided;  // how to recover from them
    std::optional<protocol::RecoveryDecision> recovery;  // of the newest
    std::set<WorkerName> left;  // the newest, in order, as the journal says
    std::map<WorkerName, Generation> generations;
    std::set<std::string> secrets;  // hashes of all secrets
    std::map<WorkerName, SessionId> speaker;
    std::map<WorkerName, Life> lives_of;
    std::map<int, std::map<int, std::string>> handles;  // by communicator, rank
  };

  // --- Events ---

  void Note(const MessageReceived& e) {
    opened_.insert(e.session);
    if (const auto* hello = std::get_if<protocol::Hello>(&e.message.body)) {
      greets_ = e.session;
      newest_hello_ = hello->worker;
    }
    const auto stream = streams_.find(e.session);
    if (stream == streams_.end()) return;
    JobSeen& job = jobs_[stream->second.job];
    Life& incarnation = job.lives_of[stream->second.worker];
    incarnation.heard = now_;
    const bool this_epoch = job.lives && e.message.epoch == job.newest;
    const auto& body = e.message.body;
    if (const auto* leave = std::get_if<protocol::Leave>(&body)) {
      incarnation.left = true;
      incarnation.accused |= !leave->clean;
    }
    if (!this_epoch) return;
    if (std::holds_alternative<protocol::Connected>(body)) {
      incarnation.said_connected = true;
    }
    if (const auto* ack = std::get_if<protocol::PlanAck>(&body)) {
      incarnation.acked |= ack->digest == job.digest;
    }
    if (const auto* progress = std::get_if<protocol::Progress>(&body)) {
      incarnation.runs = progress->revision;
    }
    if (const auto* evidence = std::get_if<protocol::Evidence>(&body)) {
      Accuse(job, *evidence);
    }
    if (const auto* publish = std::get_if<protocol::PublishHandles>(&body)) {
      for (const protocol::GroupHandle& handle : publish->handles) {
        job.handles[handle.communicator][RankOf(job, stream->second.worker)] =
            handle.handle;
      }
    }
  }
  void Note(const SessionClosed& e) {
    Drop(e.session);
    closed_.insert(e.session);
  }
  void Note(const CreateJob&) { ++questions_; }
  void Note(const CommandJob&) { ++questions_; }
  void Note(const StopJob&) { ++questions_; }
  void Note(const DeleteJob&) { ++questions_; }
  void Note(const Compiled&) {}
  void Note(const ReportEvidence& e) {
    ++questions_;
    Accuse(jobs_[e.job], e.evidence);
  }
  void Note(const ShuttingDown&) {}
  void Note(const TimerExpired&) {}

  void Accuse(JobSeen& job, const protocol::Evidence& evidence) {
    job.lives_of[evidence.subject].accused = true;
  }

  // --- Effects ---

  void Check(const core::Note&) {}
  void Check(const Compile&) {}
  void Check(const AdminReply&) { ++answers_; }

  void Check(const Persist& e) {
    EXPECT_EQ(e.record.number, ++records_);
    JobSeen& job = jobs_[e.record.job];
    const bool ends_its_memory =
        std::holds_alternative<record::JobArchived>(e.record.body) ||
        std::holds_alternative<record::JobDeleted>(e.record.body);
    EXPECT_EQ(job.over, ends_its_memory)
        << "a job that is over changes no more";
    std::visit([&](const auto& body) { Persisted(job, body); }, e.record.body);
  }
  void Persisted(JobSeen& job, const record::JobCreated& r) {
    job.spec = r.spec;
  }
  void Persisted(JobSeen& job, const record::WorkerLeft& r) {
    EXPECT_EQ(r.epoch, job.newest);  // also of a member that heard of its end
    EXPECT_TRUE(job.left.insert(r.worker).second) << "left twice";
  }
  void Persisted(JobSeen& job, const record::CommandsWanted& r) {
    job.drains = Wants(r.wanted, Command::kDrain);
  }
  void Persisted(JobSeen& job, const record::JobArchived&) { job = {}; }
  void Persisted(JobSeen& job, const record::JobDeleted&) { job = {}; }
  void Persisted(JobSeen& job, const record::RecoveryDecided& r) {
    EXPECT_TRUE(!job.lives && job.newest == r.epoch);
    EXPECT_TRUE(job.decided.insert(r.epoch).second) << "decided twice";
    job.recovery = r.decision;
    ++(r.decision.verdict.empty() ? replays_ : roll_forwards_);
  }
  void Persisted(JobSeen&, const record::SavePrepared&) {}
  void Persisted(JobSeen&, const record::SaveCommitted&) {}
  void Persisted(JobSeen&, const record::JobAdopted&) {
    ADD_FAILURE() << "these coordinators know all jobs";
  }
  void Persisted(JobSeen& job, const record::GenerationAssigned& r) {
    const auto newest = job.lives_of.find(r.worker);
    const bool again = newest != job.lives_of.end() &&
                       newest->second.incarnation == r.incarnation &&
                       r.incarnation != 0;
    if (again) {  // its Welcome was lost: it gets another secret
      EXPECT_EQ(r.generation, job.generations[r.worker]);
    } else {
      EXPECT_GT(r.generation, job.generations[r.worker]);
      job.lives_of[r.worker] = {.incarnation = r.incarnation, .heard = now_};
    }
    job.generations[r.worker] = r.generation;
    EXPECT_TRUE(job.secrets.insert(r.secret_hash).second) << "a secret again";
  }
  void Persisted(JobSeen& job, const record::EpochBegan& r) {
    EXPECT_FALSE(job.lives) << "two epochs at once";
    EXPECT_GT(r.epoch, job.newest);
    EXPECT_EQ(static_cast<int>(r.members.size()), job.spec.mesh.WorldSize());
    job.before = std::exchange(job.members, r.members);
    job.left.clear();
    std::set<WorkerName> names;
    for (size_t rank = 0; rank < r.members.size(); ++rank) {
      const protocol::Member& member = r.members[rank];
      EXPECT_TRUE(names.insert(member.worker).second);
      EXPECT_EQ(member.generation, job.generations[member.worker]);
      EXPECT_TRUE(job.speaker.count(member.worker))
          << member.worker.value << " cannot hear that it is a member";
      for (size_t had = 0; had < job.before.size(); ++had) {
        const bool same = job.before[had].worker == member.worker;
        EXPECT_TRUE(!same || rank == had) << "a survivor keeps its rank";
      }
      Life& incarnation = job.lives_of[member.worker];
      incarnation.said_connected = incarnation.acked = incarnation.accused =
          incarnation.left = false;
      incarnation.runs = {};
    }
    job.newest = r.epoch;
    job.lives = true;
    job.recovery.reset();
    job.recovered = false;
    job.digest.clear();
    job.revision = {};
    job.handles.clear();
    ++epochs_;
  }
  void Persisted(JobSeen& job, const record::PlanAdopted& r) {
    EXPECT_TRUE(job.lives && job.newest == r.epoch);
    EXPECT_EQ(r.revision.value, job.revision.value + 1);
    if (r.revision.value > 1) ++later_revisions_;
    for (const protocol::Member& member : job.members) {
      if (r.revision.value <= 2) break;
      EXPECT_EQ(job.lives_of[member.worker].runs, job.revision)
          << member.worker.value << " has a revision to switch to still";
    }
    job.revision = r.revision;
    job.digest = r.digest;
  }
  void Persisted(JobSeen& job, const record::EpochFinished& r) {
    if (!job.lives && job.ended.count(r.epoch) > 0)
      return CauseIsAddedTo(job, r);
    EXPECT_TRUE(job.lives && job.newest == r.epoch);
    job.lives = false;
    job.ended.insert(r.epoch);
    job.cause = r.cause;
    job.unfinished = r.unfinished;
    ++causes_[r.cause.kind];
    EXPECT_FALSE(r.cause.message.empty());
    CheckCause(job, r.cause);
    just_ended_ = {{&job, r.epoch}};
  }
  // A later record adds how a lost worker died.
  void CauseIsAddedTo(JobSeen& job, const record::EpochFinished& r) {
    EXPECT_EQ(job.newest, r.epoch);
    EXPECT_FALSE(job.over);
    EXPECT_EQ(r.cause.kind, job.cause.kind);
    EXPECT_EQ(r.cause.workers, job.cause.workers);
    if (r.unfinished != job.unfinished) {
      EXPECT_TRUE(job.unfinished.value.empty());
      EXPECT_EQ(r.cause, job.cause);
      job.unfinished = r.unfinished;
      return;
    }
    EXPECT_GT(r.cause.message.size(), job.cause.message.size());
    EXPECT_EQ(r.cause.message.rfind(job.cause.message, 0), 0u);
    job.cause = r.cause;
  }
  void Persisted(JobSeen& job, const record::JobEnded& r) {
    if (r.outcome == record::JobOutcome::kCompleted) {
      EXPECT_FALSE(job.left.empty());
      EXPECT_TRUE(job.lives || job.unfinished.value.empty() ||
                  job.left.count(job.unfinished) > 0)
          << job.unfinished.value << " was to go on";
      for (size_t rank = 0; rank < job.members.size(); ++rank) {
        // After a recovery from the last step: those that hold its state.
        // Without a decision: those that are not lost.
        const bool counts =
            job.lives ||
            (job.recovery && std::count(job.recovery->holders.begin(),
                                        job.recovery->holders.end(), rank) > 0);
        const protocol::Member& member = job.members[rank];
        const bool has_left = job.left.count(member.worker) > 0;
        EXPECT_TRUE(!counts || has_left || (!job.lives && IsGone(job, member)))
            << member.worker.value;
      }
      ++completed_;
    } else {
      EXPECT_FALSE(job.lives) << "its epoch ends first";
    }
    job.lives = false;
    job.over = true;
  }

  // Lost, by the coordinator's word, or replaced by another incarnation.
  bool IsGone(const JobSeen& job, const protocol::Member& member) const {
    const auto newest = job.generations.find(member.worker);
    if (newest != job.generations.end() && newest->second > member.generation) {
      return true;
    }
    const auto view = core_->Describe({job.spec.name}, now_);
    if (!view.ok()) return false;
    for (const WorkerView& worker : view->workers) {
      if (worker.name == member.worker) {
        return worker.state == WorkerState::kLost;
      }
    }
    return true;  // not seen since the coordinator restarted
  }

  void CheckCause(JobSeen& job, const protocol::Cause& cause) {
    for (const WorkerName& worker : cause.workers) {
      const Life& incarnation = job.lives_of[worker];
      switch (cause.kind) {
        case protocol::CauseKind::kLeaseExpired:
          if (job.spec.on_stuck == OnStuck::kEvict) break;  // alive but stuck
          EXPECT_GE(now_ - std::max(incarnation.heard, restarted_),
                    job.spec.timeouts.lease)
              << worker.value << " was heard";
          break;
        case protocol::CauseKind::kStreamLost:
          ASSERT_TRUE(incarnation.broke) << worker.value << " has its stream";
          EXPECT_GE(now_ - *incarnation.broke, job.spec.timeouts.resume);
          break;
        case protocol::CauseKind::kReplaced:
          EXPECT_TRUE(incarnation.broke || restarted_ > absl::InfinitePast());
          break;
        case protocol::CauseKind::kProcessDied:
        case protocol::CauseKind::kLink:
          EXPECT_TRUE(incarnation.accused || cause.workers.size() == 2)
              << "nobody accused " << worker.value;
          break;
        case protocol::CauseKind::kLeft:
          EXPECT_TRUE(incarnation.left) << worker.value << " did not leave";
          break;
        default: break;
      }
    }
  }

  void Check(const CloseSession& e) {
    EXPECT_EQ(closed_.count(e.session), 0u) << "closed before";
    EXPECT_EQ(opened_.count(e.session), 1u) << "never opened";
    Drop(e.session);
    closed_.insert(e.session);
  }

  void Check(const Send& e) {
    EXPECT_EQ(closed_.count(e.session), 0u) << "sent on a closed stream";
    EXPECT_EQ(opened_.count(e.session), 1u) << "never opened";
    if (std::holds_alternative<protocol::Refused>(e.message.body)) return;
    JobSeen& job = jobs_[e.message.job];
    if (const auto* welcome = std::get_if<protocol::Welcome>(&e.message.body)) {
      return Welcomed(e.session, e.message.job, *welcome);
    }
    const auto stream = streams_.find(e.session);
    ASSERT_TRUE(stream != streams_.end()) << "nobody was welcomed there";
    EXPECT_EQ(stream->second.job, e.message.job);
    Told(job, stream->second, e.message);
  }

  void Welcomed(SessionId session, const JobName& name,
                const protocol::Welcome& welcome) {
    JobSeen& job = jobs_[name];
    EXPECT_EQ(welcome.spec, job.spec);
    ASSERT_EQ(session, greets_);
    const WorkerName worker = newest_hello_;
    EXPECT_EQ(welcome.generation, job.generations[worker]);
    const auto speaker = job.speaker.find(worker);
    if (speaker != job.speaker.end() && speaker->second != session) {
      ADD_FAILURE() << worker.value << " speaks on two streams";
    }
    job.speaker[worker] = session;
    // Each Hello is answered with the epoch's end again.
    streams_[session] = {
        .job = name, .worker = worker, .generation = welcome.generation};
    Life& incarnation = job.lives_of[worker];
    incarnation.heard = now_;
    incarnation.broke.reset();
  }

  void Told(JobSeen& job, Stream& stream, const protocol::ToWorker& message) {
    const bool live = job.lives && message.epoch == job.newest;
    if (const auto* formed =
            std::get_if<protocol::EpochFormed>(&message.body)) {
      EXPECT_TRUE(live);
      EXPECT_EQ(formed->members.items(), job.members);
      ASSERT_LT(formed->rank, static_cast<int>(job.members.size()));
      EXPECT_EQ(job.members[formed->rank].worker, stream.worker);
      EXPECT_EQ(job.members[formed->rank].generation, stream.generation);
    } else if (const auto* ready =
                   std::get_if<protocol::PlanReady>(&message.body)) {
      EXPECT_TRUE(live);
      EXPECT_EQ(ready->digest, job.digest);
    } else if (const auto* group =
                   std::get_if<protocol::GroupHandles>(&message.body)) {
      EXPECT_TRUE(live);
      CheckHandles(job, stream, message.job, *group);
    } else if (std::holds_alternative<protocol::Start>(message.body)) {
      EXPECT_TRUE(live);
      CheckStart(job);
    } else if (const auto* ended =
                   std::get_if<protocol::EpochEnded>(&message.body)) {
      const bool is_over = job.ended.count(message.epoch) > 0;
      const bool is_drained = is_over && job.drains;
      EXPECT_TRUE(ended->final ? job.over || is_drained : is_over);
      EXPECT_TRUE(
          stream.ends_told.insert({message.epoch.value, ended->final}).second)
          << "told twice";
    }
  }

  void CheckHandles(JobSeen& job, const Stream& stream, const JobName& name,
                    const protocol::GroupHandles& group) {
    const auto plan = core_->FindPlan(name, job.digest);
    ASSERT_NE(plan, nullptr);
    const auto& ranks = plan->communicators[group.communicator].ranks;
    ASSERT_EQ(group.handles.size(), ranks.size());
    bool is_member = false;
    for (size_t i = 0; i < ranks.size(); ++i) {
      EXPECT_EQ(group.handles[i], job.handles[group.communicator][ranks[i]]);
      is_member |= job.members[ranks[i]].worker == stream.worker;
    }
    EXPECT_TRUE(is_member);
  }

  void CheckStart(JobSeen& job) {
    ++starts_;
    if (job.recovered) return;  // a former coordinator received some messages
    for (const protocol::Member& member : job.members) {
      EXPECT_TRUE(job.lives_of[member.worker].said_connected);
      EXPECT_TRUE(job.lives_of[member.worker].acked);
    }
  }

  void CheckThatAllWereTold() {
    if (!just_ended_) return;
    const auto& [job, epoch] = *just_ended_;
    for (const protocol::Member& member : job->members) {
      const auto speaker = job->speaker.find(member.worker);
      if (speaker == job->speaker.end()) continue;
      const Stream& stream = streams_.at(speaker->second);
      if (stream.generation != member.generation) continue;
      EXPECT_TRUE(stream.ends_told.count({epoch.value, false}) ||
                  stream.ends_told.count({epoch.value, true}))
          << member.worker.value << " was not told that its epoch ended";
    }
    just_ended_.reset();
  }

  static int RankOf(const JobSeen& job, const WorkerName& worker) {
    for (size_t rank = 0; rank < job.members.size(); ++rank) {
      if (job.members[rank].worker == worker) return static_cast<int>(rank);
    }
    return -1;
  }

  void Drop(SessionId session) {
    const auto stream = streams_.find(session);
    if (stream == streams_.end()) return;
    JobSeen& job = jobs_[stream->second.job];
    job.speaker.erase(stream->second.worker);
    job.lives_of[stream->second.worker].broke = now_;
    streams_.erase(stream);
  }

  absl::Time now_;
  const Coordinator* core_ = nullptr;
  absl::Time restarted_ = absl::InfinitePast();
  uint64_t records_ = 0;
  std::map<JobName, JobSeen> jobs_;
  SessionId greets_;         // the stream of the Hello in this event
  WorkerName newest_hello_;  // the worker of that Hello
  std::map<SessionId, Stream> streams_;  // welcomed and open
  std::set<SessionId> opened_;
  std::set<SessionId> closed_;
  std::optional<std::pair<JobSeen*, EpochId>> just_ended_;
  int questions_ = 0;
  int answers_ = 0;
  int epochs_ = 0;
  int starts_ = 0;
  int completed_ = 0;
  int later_revisions_ = 0;
  int replays_ = 0;
  int roll_forwards_ = 0;
  std::map<protocol::CauseKind, int> causes_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_TESTS_SERVER_CORE_PROMISES_H_
