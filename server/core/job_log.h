// What a job writes for people: its newest events and warnings.
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_JOB_LOG_H_
#define LOCKSTEP_SERVER_CORE_JOB_LOG_H_

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "protocol/job_view.h"
#include "server/core/durable_state.h"
#include "server/core/event_context.h"
#include "server/core/history.h"

namespace lockstep::core {

class JobLog {
 public:
  // `durable` must outlive it.
  explicit JobLog(const DurableJob& durable) : durable_(durable) {}

  // Adds a line to the job's history and to the event log.
  void Remember(std::string text, EventContext& context) {
    history_.Add(context.now, text);
    context.out.Note(durable_.name(), std::move(text));
  }

  // As Remember; the text also stays in the job's view.
  void Warn(const std::string& text, EventContext& context) {
    if (warnings_.size() == kWarningsMax) warnings_.pop_front();
    warnings_.push_back(text);
    Remember(absl::StrCat("warning: ", text), context);
  }

  // Oldest first.
  std::vector<EventView> Events(absl::Time now) const {
    return history_.View(now);
  }
  std::vector<std::string> Warnings() const {
    return {warnings_.begin(), warnings_.end()};
  }

 private:
  static constexpr size_t kWarningsMax = 16;

  const DurableJob& durable_;
  History history_;
  std::deque<std::string> warnings_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_JOB_LOG_H_
