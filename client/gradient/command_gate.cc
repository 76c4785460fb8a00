#include "client/gradient/command_gate.h"

#include <utility>

namespace lockstep::gradient {

void CommandGate::Receive(const protocol::DesiredCommands& word) {
  std::vector<std::function<void()>> held;
  {
    MutexLock lock(&mutex_);
    if (!IsNewer(word, word_)) return;
    const bool is_another = word.number != word_.number;
    word_ = word;
    if (is_another) held = std::exchange(held_, {});
  }
  for (const auto& go_on : held) go_on();
}

void CommandGate::Enter(StepSummary* summary) {
  MutexLock lock(&mutex_);
  saves_entered_.push_back(word_.saves);
  HoldNow(summary);
}

uint64_t CommandGate::Hold(StepSummary* summary) const {
  MutexLock lock(&mutex_);
  HoldNow(summary);
  return word_.saves;
}

void CommandGate::Entered(uint64_t saves) {
  MutexLock lock(&mutex_);
  saves_entered_.push_back(saves);
}

void CommandGate::HoldNow(StepSummary* summary) const {
  summary->holds_command[IndexOf(Command::kSave)] = word_.saves > saves_obeyed_;
  summary->holds_command[IndexOf(Command::kGrow)] = word_.wants_growth();
  if (word_.commands.empty()) return;
  summary->word = word_.number;
  for (const Command command : word_.commands) {
    summary->holds_command[IndexOf(command)] = true;
  }
}

void CommandGate::Pass(const Verdict& verdict, bool ends,
                       std::function<void()> go_on) {
  {
    MutexLock lock(&mutex_);
    if (!saves_entered_.empty()) {
      if (verdict.Holds(Command::kSave)) saves_obeyed_ = saves_entered_.front();
      saves_entered_.pop_front();
    }
    const bool heard_more = word_.number != verdict.command_word;
    const bool pauses = verdict.Holds(Command::kPause) && !ends && !heard_more;
    // None goes on before those that passed earlier.
    if ((pauses || !held_.empty()) && !open_for_good_) {
      held_.push_back(std::move(go_on));
      return;
    }
  }
  go_on();
}

void CommandGate::Open() {
  std::vector<std::function<void()>> held;
  {
    MutexLock lock(&mutex_);
    open_for_good_ = true;
    held = std::exchange(held_, {});
  }
  for (const auto& go_on : held) go_on();
}

bool CommandGate::shut() const {
  MutexLock lock(&mutex_);
  return !held_.empty();
}

}  // namespace lockstep::gradient
