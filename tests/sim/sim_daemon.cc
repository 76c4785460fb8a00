#include "tests/sim/sim_daemon.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "proto/codec.h"
#include "proto/plan_chunks.h"
#include "server/core/commands.h"
#include "server/core/secret.h"
#include "server/runtime/replay.h"

namespace lockstep::sim {
namespace {

runtime::JournalCodec Codec() {
  return {.record_bytes = proto::RecordBytes,
          .parse_record = proto::ParseRecord,
          .snapshot_parts = proto::SnapshotParts,
          .parse_snapshot = proto::ParseSnapshot};
}

core::PlanCodec Plans() {
  return {.bytes = proto::PlanBytes, .parse = proto::PlanFromBytes};
}

}  // namespace

SimDaemon::SimDaemon(const Surroundings* world, SimDisk* disk,
                     const Options& options)
    : world_(*world),
      options_(options),
      core_({.secret_seed = absl::StrCat("seed ", options.number)}),
      follower_({}),
      disk_(*disk),
      journal_(disk, [this](std::function<void()> done) {
        After(world_.draw(options_.sync_max), std::move(done));
      }) {
  Start();
}

SimDaemon::~SimDaemon() { *alive_ = false; }

void SimDaemon::After(absl::Duration delay, std::function<void()> what) {
  world_.after(delay, [this, alive = alive_, what = std::move(what)] {
    if (!*alive) return;
    if (world_.now() < stopped_until_) {
      return After(stopped_until_ - world_.now(), what);
    }
    what();
  });
}

void SimDaemon::Start() {
  const auto replayed = runtime::Replay(&journal_, Codec(), &core_);
  if (!replayed.ok()) {
    return world_.violated(absl::StrCat("the journal does not replay: ",
                                        replayed.status().message()));
  }
  CheckReplayed();
  safe_ = *core::StateOf(core::SnapshotOf(core_.durable()));
  follower_.Restore(*core::StateOf(core::SnapshotOf(core_.durable())));
  Apply(core::TimerExpired{});
}

// A snapshot stands for the records that it replaces.
void SimDaemon::CheckReplayed() {
  const uint64_t found = core_.durable().records;
  if (found > disk_.written.size()) {
    return world_.violated("the disk has records that were never written");
  }
  disk_.written.resize(found);
  core::DurableState was;
  for (const record::Record& record : disk_.written) {
    if (!core::Apply(record, &was).ok()) {
      return world_.violated("a record that was written cannot follow");
    }
  }
  if (!(was == core_.durable())) {
    world_.violated(absl::StrCat(
        "a restarted coordinator finds another state after record ", found,
        " than the one that was live"));
  }
}

void SimDaemon::Apply(const core::Event& event) {
  if (world_.now() < stopped_until_) {
    return After(absl::ZeroDuration(), [this, event] { Apply(event); });
  }
  if (const auto* received = std::get_if<core::MessageReceived>(&event)) {
    const auto& body = received->message.body;
    if (const auto* hello = std::get_if<protocol::Hello>(&body)) {
      hellos_[received->session.value] = *hello;
    }
    const auto hello = hellos_.find(received->session.value);
    if (hello != hellos_.end()) {
      oracle_.Heard(world_.now(), hello->second, received->message);
    }
  }
  core::Effects effects = core_.Step(options_.clock.Local(world_.now()), event);
  const std::vector<record::Record> records = gate_.Admit(std::move(effects));
  for (const record::Record& record : records) Append(record);
  if (!records.empty() && !(follower_.durable() == core_.durable())) {
    world_.violated("the replay of the records differs from the live state");
  }
  Deliver();
  Wake();
}

void SimDaemon::Append(const record::Record& record) {
  disk_.written.push_back(record);
  if (const auto* end = std::get_if<record::EpochFinished>(&record.body)) {
    CheckDead(*end);
  }
  const auto job = follower_.durable().jobs.find(record.job);
  if (job != follower_.durable().jobs.end()) {
    const auto wrong =
        oracle_.Check(world_.now(), record.body, job->second, world_.lives);
    if (wrong) world_.violated(*wrong);
  }
  if (!follower_.Replay(record).ok()) {
    world_.violated(absl::StrCat("record ", record.number, " cannot follow"));
  }
  journal_.Append(proto::RecordBytes(record),
                  [this, record](const absl::Status&) {
                    if (!core::Apply(record, &safe_).ok()) {
                      world_.violated("a durable record cannot follow");
                    }
                    gate_.MarkDurable(record.number);
                    Deliver();
                  });
  if (options_.records_per_snapshot == 0 ||
      ++since_snapshot_ < options_.records_per_snapshot) {
    return;
  }
  since_snapshot_ = 0;
  journal_.Compact([snapshot = core::SnapshotOf(follower_.durable())] {
    return proto::SnapshotParts(snapshot);
  });
}

void SimDaemon::Deliver() {
  for (const core::Effect& effect : gate_.Release()) {
    if (const auto* send = std::get_if<core::Send>(&effect)) {
      CheckPromised(send->session.value, send->message);
      world_.send(send->session.value, send->message);
    } else if (const auto* close = std::get_if<core::CloseSession>(&effect)) {
      world_.close(close->session.value, close->status);
    } else if (const auto* compile = std::get_if<core::Compile>(&effect)) {
      After(world_.draw(absl::Milliseconds(20)), [this, compile = *compile] {
        Apply(core::Compiled{compile.id, compile.job,
                             core::MakePlan(*compile.input, Plans())});
      });
    } else if (const auto* note = std::get_if<core::Note>(&effect)) {
      world_.note(note->text);
    }
  }
}

void SimDaemon::Wake() {
  const absl::Time wake = core_.NextWake();
  if (wake >= wake_ || wake == absl::InfiniteFuture()) return;
  wake_ = wake;
  const absl::Duration delay = std::max(
      options_.clock.Simulated(wake) - world_.now(), absl::ZeroDuration());
  After(delay, [this, wake] {
    if (wake_ != wake) return;
    wake_ = absl::InfiniteFuture();
    Apply(core::TimerExpired{});
  });
}

// Proof is about one process, and not about its name.
void SimDaemon::CheckDead(const record::EpochFinished& finished) {
  if (finished.cause.kind != protocol::CauseKind::kProcessDied) return;
  for (const auto& [name, job] : core_.durable().jobs) {
    if (job.epoch != finished.epoch) continue;
    for (const protocol::Member& member : job.members.items()) {
      const auto& dead = finished.cause.workers;
      const bool is_dead =
          std::find(dead.begin(), dead.end(), member.worker) != dead.end();
      if (is_dead && world_.lives(static_cast<uint64_t>(member.process.pid))) {
        world_.violated(absl::StrCat("epoch ", finished.epoch.value,
                                     " ends because ", member.worker.value,
                                     " died, which lives"));
      }
    }
  }
}

void SimDaemon::CheckWelcome(uint64_t stream, const core::DurableJob& job,
                             Generation welcomed) const {
  const auto hello = hellos_.find(stream);
  if (hello == hellos_.end()) {
    return world_.violated("a process is welcomed that said no Hello");
  }
  const std::string& name = hello->second.worker.value;
  const auto holder = job.name_holders.find(hello->second.worker);
  if (holder == job.name_holders.end() ||
      holder->second.generation < welcomed) {
    return world_.violated(
        absl::StrCat("not durable when sent: the generation of ", name));
  }
  if (holder->second.generation > welcomed) {
    return world_.violated(
        absl::StrCat("generation ", welcomed.value, " of ", name,
                     " is welcomed, though it is over: the newest is ",
                     holder->second.generation.value));
  }
  const bool resumes = hello->second.generation.value != 0;
  if (resumes &&
      !core::SecretOpens(hello->second.secret, holder->second.secret_hash)) {
    world_.violated(absl::StrCat("a process that does not know the secret of ",
                                 name, " is welcomed"));
  }
}

bool SimDaemon::IsAccusedOfALink(uint64_t stream,
                                 const protocol::Cause& cause) const {
  const auto hello = hellos_.find(stream);
  return hello != hellos_.end() && cause.kind == protocol::CauseKind::kLink &&
         std::find(cause.workers.begin(), cause.workers.end(),
                   hello->second.worker) != cause.workers.end();
}

// What the message promises must be in the durable records.
void SimDaemon::CheckPromised(uint64_t stream,
                              const protocol::ToWorker& message) const {
  const auto require = [&](bool holds, const char* what) {
    if (!holds) world_.violated(absl::StrCat("not durable when sent: ", what));
  };
  if (std::holds_alternative<protocol::Refused>(message.body)) return;
  const auto found = safe_.jobs.find(message.job);
  if (found == safe_.jobs.end()) return require(false, "the job");
  const core::DurableJob& job = found->second;
  if (const auto* formed = std::get_if<protocol::EpochFormed>(&message.body)) {
    require(job.epoch >= message.epoch, "the epoch");
    if (job.epoch != message.epoch) return;
    require(job.members == formed->members, "the members");
    require(job.first_step == formed->first_step, "the first step");
    require(job.holders == formed->holders, "the holders");
  } else if (const auto* welcome =
                 std::get_if<protocol::Welcome>(&message.body)) {
    CheckWelcome(stream, job, welcome->generation);
  } else if (const auto* plan =
                 std::get_if<protocol::PlanReady>(&message.body)) {
    require(job.epoch > message.epoch || job.revision >= plan->revision,
            "the plan");
  } else if (const auto* ended =
                 std::get_if<protocol::EpochEnded>(&message.body)) {
    const bool is_over = job.epoch > message.epoch || !job.epoch_lives;
    // The end of the job, a drain, or a member with bad links, which goes.
    const bool goes = is_over && IsAccusedOfALink(stream, ended->cause);
    const bool drains = is_over && core::Wants(job.wanted, Command::kDrain);
    const bool is_final = job.ended.has_value() || goes || drains;
    require(ended->final ? is_final : is_over, "the end");
  } else if (const auto* decision =
                 std::get_if<protocol::RecoveryDecision>(&message.body)) {
    if (job.epoch != message.epoch) return;
    require(job.recovery == *decision, "the decision");
  }
}

}  // namespace lockstep::sim
