#include "tests/sim/sim_daemon.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "proto/codec.h"
#include "server/runtime/replay.h"

namespace lockstep::sim {
namespace {

runtime::JournalCodec Codec() {
  return {.record_bytes = proto::RecordBytes,
          .parse_record = proto::ParseRecord,
          .snapshot_parts = proto::SnapshotParts,
          .parse_snapshot = proto::ParseSnapshot};
}

}  // namespace

SimDaemon::SimDaemon(const Surroundings* world, SimDisk* disk,
                     const Options& options)
    : world_(*world),
      options_(options),
      core_({.secret_seed = absl::StrCat("seed ", options.number)}),
      follower_({}),
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
  safe_ = *core::StateOf(core::SnapshotOf(core_.durable()));
  follower_.Restore(*core::StateOf(core::SnapshotOf(core_.durable())));
  Apply(core::TimerExpired{});
}

void SimDaemon::Apply(const core::Event& event) {
  if (world_.now() < stopped_until_) {
    return After(absl::ZeroDuration(), [this, event] { Apply(event); });
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
      CheckPromised(send->message);
      world_.send(send->session.value, send->message);
    } else if (const auto* close = std::get_if<core::CloseSession>(&effect)) {
      world_.close(close->session.value, close->status);
    } else if (const auto* compile = std::get_if<core::Compile>(&effect)) {
      After(world_.draw(absl::Milliseconds(20)), [this, compile = *compile] {
        Apply(core::Compiled{compile.id, compile.job,
                             core::MakePlan(*compile.input)});
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

// What the message promises must be in the durable records.
void SimDaemon::CheckPromised(const protocol::ToWorker& message) const {
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
    bool assigned = false;
    for (const auto& [name, holder] : job.name_holders) {
      assigned |= holder.generation >= welcome->generation;
    }
    require(assigned, "the generation");
  } else if (const auto* plan =
                 std::get_if<protocol::PlanReady>(&message.body)) {
    require(job.epoch > message.epoch || job.revision >= plan->revision,
            "the plan");
  } else if (const auto* ended =
                 std::get_if<protocol::EpochEnded>(&message.body)) {
    const bool is_over = job.epoch > message.epoch || !job.epoch_lives;
    require(ended->final ? job.ended.has_value() : is_over, "the end");
  } else if (const auto* decision =
                 std::get_if<protocol::RecoveryDecision>(&message.body)) {
    if (job.epoch != message.epoch) return;
    require(job.recovery == *decision, "the decision");
  }
}

}  // namespace lockstep::sim
