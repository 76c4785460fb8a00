// Collects the effects of one Step.
//
// All output of the core passes through this class, so that every message
// carries the leader's term, nothing is sent on a closed stream, and a record
// is applied to the durable state when it is written.
//
// Threads: none. Exists for one Step.
// Errors:  a record that cannot follow is a bug of the core and aborts.

#ifndef LOCKSTEP_SERVER_CORE_EFFECT_SINK_H_
#define LOCKSTEP_SERVER_CORE_EFFECT_SINK_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "protocol/ids.h"
#include "protocol/protocol.h"
#include "protocol/record.h"
#include "server/core/durable_state.h"
#include "server/core/event.h"
#include "server/core/session_table.h"

namespace lockstep::core {

class EffectSink {
 public:
  // `compilations`: the number requested so far.
  EffectSink(LeaderTerm term, DurableState* durable, SessionTable* sessions,
             uint64_t* compilations)
      : term_(term),
        durable_(*durable),
        sessions_(*sessions),
        compilations_(*compilations) {}

  // Does nothing for session 0, which means no stream.
  void Send(SessionId session, const JobName& job, EpochId epoch,
            protocol::ToWorkerBody body);

  // Sends a final refusal on a stream and closes it with the same status.
  void Refuse(SessionId session, const JobName& job,
              const absl::Status& status);

  // Closes a stream: later sends are dropped. Does nothing for session 0.
  void Close(SessionId session, absl::Status status);

  void Record(const JobName& job, record::Body body);
  void Answer(RequestId request, absl::Status status);
  CompilationId Compile(const JobName& job, CompileInput input);
  void Note(const JobName& job, std::string text);

  void Bind(SessionId session, Speaker speaker);

  // The status with which the stream was refused in this Step; OK if it was
  // not.
  absl::Status RefusalOf(SessionId session) const {
    return session == refused_ ? refusal_ : absl::OkStatus();
  }

  // The status with which the stream was closed in this Step, also if it was
  // not refused for good; OK if another or none was closed last.
  absl::Status EndOf(SessionId session) const {
    return session == closed_ ? closed_with_ : absl::OkStatus();
  }

  Effects Take() { return std::move(effects_); }

 private:
  const LeaderTerm term_;
  DurableState& durable_;
  SessionTable& sessions_;
  uint64_t& compilations_;
  SessionId refused_;  // the last one
  absl::Status refusal_;
  SessionId closed_;  // the last one
  absl::Status closed_with_;
  Effects effects_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_EFFECT_SINK_H_
