// Maps each stream to its worker and job.
//
// A stream is bound by its first valid Hello and forgotten when the coordinator
// closes it. Messages that still arrive on a closed stream are ignored until
// the adapter reports that the stream has ended.
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_SESSION_TABLE_H_
#define LOCKSTEP_SERVER_CORE_SESSION_TABLE_H_

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "protocol/ids.h"
#include "server/core/event.h"

namespace lockstep::core {

struct Speaker {
  JobName job;
  WorkerName worker;
  bool operator==(const Speaker&) const = default;
};

class SessionTable {
 public:
  void Bind(SessionId session, Speaker speaker) {
    bound_[session] = std::move(speaker);
  }

  // nullptr: not bound yet, or closed.
  const Speaker* Find(SessionId session) const {
    const auto found = bound_.find(session);
    return found == bound_.end() ? nullptr : &found->second;
  }

  // The coordinator closes the stream.
  void Close(SessionId session) {
    bound_.erase(session);
    closed_.insert(session);
  }
  bool IsClosed(SessionId session) const { return closed_.count(session) > 0; }

  // The adapter reports that the stream has ended.
  void Forget(SessionId session) {
    bound_.erase(session);
    closed_.erase(session);
  }

  std::vector<SessionId> Bound() const {
    std::vector<SessionId> sessions;
    for (const auto& [session, speaker] : bound_) sessions.push_back(session);
    return sessions;
  }

 private:
  std::map<SessionId, Speaker> bound_;
  std::set<SessionId> closed_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_SESSION_TABLE_H_
