// A log of events, one line each, for people.
//
// Threads: all methods from any thread.

#ifndef LOCKSTEP_SERVER_OBSERVE_EVENT_LOG_H_
#define LOCKSTEP_SERVER_OBSERVE_EVENT_LOG_H_

#include <string>

#include "protocol/ids.h"

namespace lockstep::observe {

class EventLog {
 public:
  virtual ~EventLog() = default;
  // `job` is empty for events of the whole daemon.
  virtual void Note(const JobName& job, const std::string& text) = 0;
};

}  // namespace lockstep::observe

#endif  // LOCKSTEP_SERVER_OBSERVE_EVENT_LOG_H_
