#include "server/core/commands.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lockstep::core {
namespace {

// The command that the request sets; nullopt for resume.
std::optional<Command> Meant(JobCommand asked) {
  switch (asked) {
    case JobCommand::kPause: return Command::kPause;
    case JobCommand::kStop: return Command::kStop;
    case JobCommand::kDrain: return Command::kDrain;
    case JobCommand::kResume:
    case JobCommand::kRebuild:
    case JobCommand::kSave: break;
  }
  return std::nullopt;
}

absl::Status Refuse(JobCommand asked, const std::string& why) {
  return absl::FailedPreconditionError(
      absl::StrFormat("cannot %s: %s", std::string(Name(asked)), why));
}

std::string CannotBeTakenBack(std::string_view what,
                              const std::string& reason) {
  return absl::StrCat(
      "an operator wants the job to ", std::string(what),
      reason.empty() ? "" : " (" + reason + ")",
      ", which is not taken back: ranks may have taken their last step");
}

}  // namespace

bool Wants(const protocol::DesiredCommands& wanted, Command command) {
  return std::count(wanted.commands.begin(), wanted.commands.end(), command) >
         0;
}

absl::StatusOr<protocol::DesiredCommands> Ask(
    const protocol::DesiredCommands& now, JobCommand asked,
    const std::string& reason) {
  if (asked == JobCommand::kSave) {
    protocol::DesiredCommands wanted = now;
    ++wanted.saves;
    return wanted;
  }
  const std::optional<Command> meant = Meant(asked);
  const bool free = now.commands.empty() || Wants(now, Command::kPause);
  if (!meant) {  // resume
    if (now.commands.empty()) return Refuse(asked, "the job is not paused");
    if (free) return Nothing(now);
  } else if (Wants(now, *meant)) {
    return now;
  }
  if (!free && meant != Command::kStop) {
    return Refuse(asked,
                  CannotBeTakenBack(Name(now.commands.front()), now.reason));
  }
  return protocol::DesiredCommands{.commands = {*meant},
                                   .reason = reason,
                                   .number = now.number + 1,
                                   .saves = now.saves,
                                   .growths = now.growths};
}

protocol::DesiredCommands Nothing(const protocol::DesiredCommands& now) {
  return {.number = now.number + 1, .saves = now.saves, .growths = now.growths};
}

std::string ByOperator(const std::string& what, const std::string& reason,
                       const std::string& by) {
  return absl::StrCat(what, " by ", by.empty() ? "an operator" : by,
                      reason.empty() ? "" : ": ", reason);
}

std::string AllRanks(Command command, uint64_t steps_committed) {
  return absl::StrFormat("all ranks %s after step %d",
                         std::string(Name(command)), steps_committed - 1);
}

}  // namespace lockstep::core
