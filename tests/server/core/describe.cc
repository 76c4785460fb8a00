#include "tests/server/core/describe.h"

#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace lockstep::core {
namespace {

// " without 1 2".
std::string FaultsOf(const std::vector<protocol::CheckpointFault>& faults) {
  std::string text = faults.empty() ? "" : " without";
  for (const protocol::CheckpointFault& fault : faults) {
    absl::StrAppend(&text, " ", fault.rank);
  }
  return text;
}

std::string DescribeDecision(const protocol::RecoveryDecision& decision) {
  return absl::StrCat(decision.steps, " steps",
                      decision.verdict.empty() ? "" : " with a verdict",
                      ", held by ", absl::StrJoin(decision.holders, " "));
}

struct DescribeRecord {
  std::string operator()(const record::JobCreated& r) const {
    return absl::StrCat("job ", r.spec.name, " is created");
  }
  std::string operator()(const record::GenerationAssigned& r) const {
    return absl::StrCat(r.worker.value, " is generation ", r.generation.value);
  }
  std::string operator()(const record::EpochBegan& r) const {
    return absl::StrCat("epoch ", r.epoch.value, " begins: ", Names(r.members));
  }
  std::string operator()(const record::PlanAdopted& r) const {
    return absl::StrCat("plan of epoch ", r.epoch.value);
  }
  std::string operator()(const record::EpochFinished& r) const {
    return absl::StrCat("epoch ", r.epoch.value, " ends");
  }
  std::string operator()(const record::JobEnded& r) const {
    switch (r.outcome) {
      case record::JobOutcome::kCompleted: return "job completed";
      case record::JobOutcome::kFailed: return "job failed";
      case record::JobOutcome::kStopped: return "job stopped";
    }
    return "?";
  }
  std::string operator()(const record::WorkerLeft& r) const {
    return absl::StrCat(r.worker.value, " left epoch ", r.epoch.value);
  }
  std::string operator()(const record::JobArchived& r) const {
    return absl::StrCat("archived as ", r.as.value);
  }
  std::string operator()(const record::JobDeleted&) const { return "deleted"; }
  std::string operator()(const record::CommandsWanted& r) const {
    return absl::StrCat("wanted: ", Names(r.wanted.commands));
  }
  std::string operator()(const record::SavePrepared& r) const {
    return absl::StrCat("prepared save ", r.number, " of step ", r.name.step,
                        " attempt ", r.name.attempt, ":",
                        absl::StrJoin(r.part_hashes, ","));
  }
  std::string operator()(const record::SaveCommitted& r) const {
    return absl::StrCat("committed save ", r.number, " of step ", r.name.step,
                        " attempt ", r.name.attempt);
  }
  std::string operator()(const record::RecoveryDecided& r) const {
    return absl::StrCat("recovery from epoch ", r.epoch.value, ": ",
                        DescribeDecision(r.decision));
  }
  std::string operator()(const record::JobAdopted& r) const {
    std::vector<protocol::Member> members;
    for (const auto& adopted : r.members) members.push_back(adopted.member);
    return absl::StrCat("job ", r.spec.name, " is adopted in epoch ",
                        r.epoch.value, ": ", Names(members));
  }
};

struct DescribeBody {
  EpochId epoch;
  std::string operator()(const protocol::Welcome& m) const {
    return absl::StrCat(
        m.resumed ? "welcome back, generation " : "welcome, generation ",
        m.generation.value);
  }
  std::string operator()(const protocol::Refused& m) const {
    return absl::StrCat("refused ", absl::StatusCodeToString(m.code), ": ",
                        m.message);
  }
  std::string operator()(const protocol::EpochFormed& m) const {
    return absl::StrCat("formed ", epoch.value, ": rank ", m.rank, " of ",
                        Names(m.members));
  }
  std::string operator()(const protocol::PlanReady&) const {
    return "plan ready";
  }
  std::string operator()(const protocol::GroupHandles& m) const {
    return absl::StrCat("handles of ", m.communicator, ": ",
                        absl::StrJoin(m.handles.items(), " "));
  }
  std::string operator()(const protocol::Start&) const { return "start"; }
  std::string operator()(const protocol::EpochEnded& m) const {
    return absl::StrCat("ended ", epoch.value, m.final ? " for good: " : ": ",
                        m.cause.message);
  }
  std::string operator()(const protocol::Left&) const { return "left"; }
  std::string operator()(const protocol::Warning& m) const {
    return absl::StrCat("warning: ", m.text);
  }
  std::string operator()(const protocol::CheckpointNews& m) const {
    std::string text = "checkpoints";
    if (m.directory) absl::StrAppend(&text, " in ", m.directory->path);
    if (m.opened) {
      absl::StrAppend(&text, " opened", FaultsOf(m.access_faults));
    }
    if (m.decided > 0) {
      absl::StrAppend(&text, " decided ", m.decided, FaultsOf(m.faults));
    }
    if (m.prepared) {
      absl::StrAppend(&text, " prepared ", m.prepared->number, ":",
                      absl::StrJoin(m.prepared->part_hashes, ","));
    }
    return text;
  }
  std::string operator()(const protocol::RecoveryDecision& m) const {
    return absl::StrCat("recover from ", epoch.value, ": ",
                        DescribeDecision(m));
  }
  std::string operator()(const protocol::DesiredCommands& m) const {
    return absl::StrCat("wanted: ", Names(m.commands));
  }
  std::string operator()(const protocol::OrderWanted& m) const {
    return absl::StrCat("order wanted for revision ", m.revision.value);
  }
  std::string operator()(const protocol::PlanWanted&) const {
    return "plan wanted";
  }
  std::string operator()(const protocol::RegistrationWanted&) const {
    return "registration wanted";
  }
  std::string operator()(const protocol::Decide& m) const {
    return absl::StrCat(
        "decide from ", m.first, ":",
        absl::StrJoin(m.decisions, "",
                      [](std::string* out, const protocol::Decision& d) {
                        absl::StrAppend(out, " ", d.pass, "/", d.parameter);
                      }));
  }
};

}  // namespace

std::string Names(const std::vector<protocol::Member>& members) {
  return absl::StrJoin(members, " ",
                       [](std::string* out, const protocol::Member& member) {
                         out->append(member.worker.value);
                       });
}

std::string Names(const std::vector<Command>& commands) {
  return absl::StrJoin(commands, " ", [](std::string* out, Command command) {
    out->append(Name(command));
  });
}

bool IsShown(const Effect& effect) {
  return !std::holds_alternative<Note>(effect) &&
         !std::holds_alternative<Compile>(effect);
}

std::string Describe(const protocol::ToWorker& message) {
  return std::visit(DescribeBody{message.epoch}, message.body);
}

std::string Describe(const record::Body& body) {
  return std::visit(DescribeRecord{}, body);
}

std::string Describe(const Effect& effect) {
  struct Visitor {
    std::string operator()(const Send& e) const {
      return absl::StrCat(e.session.value, " <- ", Describe(e.message));
    }
    std::string operator()(const CloseSession& e) const {
      return absl::StrCat("close ", e.session.value, ": ", e.status.ToString());
    }
    std::string operator()(const Persist& e) const {
      return absl::StrCat("persist ", e.record.number, ": ",
                          Describe(e.record.body));
    }
    std::string operator()(const AdminReply& e) const {
      return absl::StrCat("answer ", e.request.value, ": ",
                          e.status.ToString());
    }
    std::string operator()(const Compile& e) const {
      return absl::StrCat("compile ", e.id.value, " for ", e.job.value);
    }
    std::string operator()(const Note& e) const {
      return absl::StrCat("note ", e.job.value, ": ", e.text);
    }
  };
  return std::visit(Visitor{}, effect);
}

std::string Describe(const Effects& effects) {
  std::vector<std::string> lines;
  for (const Effect& effect : effects) {
    if (IsShown(effect)) lines.push_back(Describe(effect));
  }
  return absl::StrJoin(lines, "\n");
}

}  // namespace lockstep::core
