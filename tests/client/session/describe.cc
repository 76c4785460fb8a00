#include "tests/client/session/describe.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace lockstep::session {
namespace {

using absl::StrCat;

struct Visitor {
  std::string operator()(const protocol::Hello& m) const {
    std::string text = StrCat("hello gen ", m.generation.value);
    if (m.resume) {
      absl::StrAppend(&text, " epoch ", m.resume->epoch.value, " plan '",
                      m.resume->plan_digest, "' step ",
                      m.resume->position.step);
    }
    return text;
  }
  std::string operator()(const protocol::RegisterChunk& m) const {
    return StrCat("chunk ", m.index, m.last ? " last" : "");
  }
  std::string operator()(const protocol::PlanAck& m) const {
    return StrCat("ack ", m.digest);
  }
  std::string operator()(const protocol::PublishHandles& m) const {
    return StrCat("publish ", m.handles.size());
  }
  std::string operator()(const protocol::Connected&) const {
    return "connected";
  }
  std::string operator()(const protocol::Progress& m) const {
    return StrCat("progress step ", m.position.step);
  }
  std::string operator()(const protocol::Heartbeat&) const {
    return "heartbeat";
  }
  std::string operator()(const protocol::Busy& m) const {
    return StrCat("busy '", m.reason, "'");
  }
  std::string operator()(const protocol::Evidence& m) const {
    return StrCat("evidence against ", m.subject.value, ": ", m.detail);
  }
  std::string operator()(const protocol::LocalFailure& m) const {
    return StrCat("failure ", m.call, ": ", m.message);
  }
  std::string operator()(const protocol::RecoveryDecision& m) const {
    return StrCat("recover at step ", m.steps);
  }
  std::string operator()(const protocol::EpochReport& m) const {
    return StrCat("report step ", m.position.step);
  }
  std::string operator()(const protocol::Leave& m) const {
    return StrCat("leave ", m.clean ? "clean" : "unclean", " after ", m.steps);
  }

  std::string operator()(const protocol::CheckpointReport& m) const {
    std::string text = "checkpoints";
    if (m.directory) absl::StrAppend(&text, " in ", m.directory->path);
    if (m.save) {
      absl::StrAppend(&text, " save ", m.save->number, " stage ",
                      static_cast<int>(m.save->stage), " bytes ",
                      m.save->bytes_done);
    }
    if (m.decided > 0) absl::StrAppend(&text, " decided ", m.decided);
    return text;
  }
  std::string operator()(const protocol::ReadyOrder& m) const {
    return StrCat("order of ", m.parameters.size());
  }
  std::string operator()(const protocol::Announce& m) const {
    return StrCat("announce ", m.pass, ": ", absl::StrJoin(m.parameters, " "));
  }
  std::string operator()(const protocol::Submitted& m) const {
    return StrCat("submitted ", m.pass, ": ", absl::StrJoin(m.parameters, " "));
  }
  std::string operator()(const protocol::ValueDigests& m) const {
    return StrCat("values of ", m.parameters.size());
  }
  std::string operator()(const protocol::Held& m) const {
    return StrCat("held ", m.decisions.size(), " from ", m.first);
  }

  std::string operator()(const protocol::Welcome& m) const {
    return StrCat("welcome gen ", m.generation.value,
                  m.resumed ? " resumed" : "");
  }
  std::string operator()(const protocol::Refused& m) const {
    return StrCat("refused: ", m.message);
  }
  std::string operator()(const protocol::EpochFormed& m) const {
    return StrCat("formed rank ", m.rank, " of ", m.members.size());
  }
  std::string operator()(const protocol::PlanReady& m) const {
    return StrCat("plan ", m.revision.value, " ", m.digest);
  }
  std::string operator()(const protocol::GroupHandles& m) const {
    return StrCat("handles of ", m.communicator);
  }
  std::string operator()(const protocol::Start&) const { return "start"; }
  std::string operator()(const protocol::EpochEnded& m) const {
    return StrCat("ended", m.final ? " for good: " : ": ", m.cause.message);
  }
  std::string operator()(const protocol::Left&) const { return "left"; }
  std::string operator()(const protocol::Warning& m) const {
    return StrCat("warning: ", m.text);
  }
  std::string operator()(const protocol::CheckpointNews& m) const {
    return StrCat("checkpoints decided ", m.decided);
  }
  std::string operator()(const protocol::DesiredCommands& m) const {
    return StrCat("wanted ", m.commands.size());
  }
  std::string operator()(const protocol::OrderWanted& m) const {
    return StrCat("order wanted for ", m.revision.value);
  }
  std::string operator()(const protocol::PlanWanted& m) const {
    return StrCat("plan wanted: ", m.digest);
  }
  std::string operator()(const protocol::PlanPart& m) const {
    return StrCat("part of plan ", m.digest, ": ", m.data.size(), " bytes at ",
                  m.offset, " of ", m.total_bytes);
  }
  std::string operator()(const protocol::RegistrationWanted&) const {
    return "registration wanted";
  }
  std::string operator()(const protocol::Decide& m) const {
    return StrCat("decide ", m.decisions.size(), " from ", m.first);
  }

  std::string operator()(const OpenStream& e) const {
    return StrCat("open ", e.stream, " at ", e.address);
  }
  std::string operator()(const SendOn& e) const {
    return StrCat("send ", e.stream, ": ", Describe(e.message.body));
  }
  std::string operator()(const Decided& e) const {
    return StrCat("decided ", e.decisions.size());
  }
  std::string operator()(const Warn& e) const {
    return StrCat("warn: ", e.text);
  }
  std::string operator()(const CloseStream& e) const {
    return StrCat("close ", e.stream);
  }
};

}  // namespace

std::string Describe(const protocol::ToCoordinatorBody& body) {
  return std::visit(Visitor{}, body);
}

std::string Describe(const protocol::ToWorkerBody& body) {
  return std::visit(Visitor{}, body);
}

std::string Describe(const Effect& effect) {
  return std::visit(Visitor{}, effect);
}

std::string Describe(const Effects& effects) {
  return absl::StrJoin(effects, "\n", [](std::string* out, const Effect& e) {
    out->append(Describe(e));
  });
}

}  // namespace lockstep::session
