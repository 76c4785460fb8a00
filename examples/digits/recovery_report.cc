#include "examples/digits/recovery_report.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace lockstep::digits {

std::string NameOf(RecoveryKind kind) {
  switch (kind) {
    case RecoveryKind::kReplay: return "replay";
    case RecoveryKind::kRollForward: return "roll-forward";
    case RecoveryKind::kRestore: return "restore";
  }
  return "?";
}

std::string NameOf(StateOrigin origin) {
  switch (origin) {
    case StateOrigin::kInitial: return "initial";
    case StateOrigin::kKept: return "kept";
    case StateOrigin::kPeers: return "peers";
    case StateOrigin::kCheckpoint: return "checkpoint";
  }
  return "?";
}

std::string ToMachineLine(const EndedEpoch& ended) {
  return absl::StrCat("ended ", ended.steps, " ", ended.why);
}

std::string ToMachineLine(const ResumedEpoch& resumed) {
  return absl::StrCat("resumed ", resumed.how, " ", resumed.steps, " ",
                      resumed.epoch, " ", resumed.generation, " ",
                      resumed.workers, " ", resumed.origin);
}

std::optional<EndedEpoch> EndedFromMachineLine(absl::string_view line) {
  if (!absl::ConsumePrefix(&line, "ended ")) return std::nullopt;
  const std::vector<std::string> words =
      absl::StrSplit(line, absl::MaxSplits(' ', 1));
  EndedEpoch ended;
  if (words.size() != 2 || !absl::SimpleAtoi(words[0], &ended.steps)) {
    return std::nullopt;
  }
  ended.why = words[1];
  return ended;
}

std::optional<ResumedEpoch> ResumedFromMachineLine(absl::string_view line) {
  const std::vector<std::string> words = absl::StrSplit(line, ' ');
  ResumedEpoch resumed;
  if (words.size() != 7 || words[0] != "resumed" ||
      !absl::SimpleAtoi(words[2], &resumed.steps) ||
      !absl::SimpleAtoi(words[3], &resumed.epoch) ||
      !absl::SimpleAtoi(words[4], &resumed.generation) ||
      !absl::SimpleAtoi(words[5], &resumed.workers)) {
    return std::nullopt;
  }
  resumed.how = words[1];
  resumed.origin = words[6];
  return resumed;
}

}  // namespace lockstep::digits
