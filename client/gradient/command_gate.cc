#include "client/gradient/command_gate.h"

#include <utility>

#include "client/gradient/ending.h"

namespace lockstep::gradient {

void CommandGate::Receive(const protocol::DesiredCommands& word) {
  std::function<void()> go_on;
  {
    MutexLock lock(&mutex_);
    if (!IsNewer(word, word_)) return;
    const bool is_another = word.number != word_.number;
    word_ = word;
    if (is_another) go_on = std::exchange(held_, nullptr);
  }
  if (go_on) go_on();
}

void CommandGate::Enter(StepSummary* summary) {
  MutexLock lock(&mutex_);
  saves_entered_ = word_.saves;
  summary->holds_command[IndexOf(Command::kSave)] =
      saves_entered_ > saves_obeyed_;
  summary->holds_command[IndexOf(Command::kGrow)] = word_.wants_growth();
  if (word_.commands.empty()) return;
  summary->word = word_.number;
  for (const Command command : word_.commands) {
    summary->holds_command[IndexOf(command)] = true;
  }
}

void CommandGate::Pass(const Verdict& verdict, std::function<void()> go_on) {
  {
    MutexLock lock(&mutex_);
    if (verdict.Holds(Command::kSave)) saves_obeyed_ = saves_entered_;
    const bool heard_more = word_.number != verdict.command_word;
    if (verdict.Holds(Command::kPause) && !EndsEpoch(verdict) && !heard_more &&
        !open_for_good_) {
      held_ = std::move(go_on);
      return;
    }
  }
  go_on();
}

void CommandGate::Open() {
  std::function<void()> go_on;
  {
    MutexLock lock(&mutex_);
    open_for_good_ = true;
    go_on = std::exchange(held_, nullptr);
  }
  if (go_on) go_on();
}

bool CommandGate::shut() const {
  MutexLock lock(&mutex_);
  return held_ != nullptr;
}

}  // namespace lockstep::gradient
