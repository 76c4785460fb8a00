// Every event the coordinator handles, and every effect it can request.
//
// The coordinator is a function (state, now, Event) -> Effects. Adapters turn
// RPCs and timers into Events, and Effects into RPCs and records. A test is
// therefore a list of Events and the Effects it expects back.

#ifndef LOCKSTEP_SERVER_CORE_EVENT_H_
#define LOCKSTEP_SERVER_CORE_EVENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/job_spec.h"
#include "protocol/ids.h"
#include "protocol/job_command.h"
#include "protocol/protocol.h"
#include "protocol/record.h"
#include "server/core/compilation.h"

namespace lockstep::core {

// One stream of one worker. The adapter assigns the numbers and never reuses
// one.
using SessionId = Id<struct SessionTag, uint64_t>;

// An admin call that expects an AdminReply. The adapter assigns the numbers.
using RequestId = Id<struct RequestTag, uint64_t>;

// --- Events -----------------------------------------------------------------

// A message was received on a stream. The first message on each stream is
// Hello; any other first message is refused.
struct MessageReceived {
  SessionId session;
  protocol::ToCoordinator message;
};

// A stream ended, closed by either side.
struct SessionClosed {
  SessionId session;
  std::string why;  // for people
};

// The caller of a request, as the gate admitted it.
struct Requester {
  std::string token;  // opens the jobs that have it
  // For people: "alice at 10.0.0.7:40123". Empty: an operator.
  std::string name = {};
};

// Requests of an operator or a launcher. Each is answered once. `by` is the
// name of the Requester.
struct CreateJob {
  RequestId request;
  JobSpec spec;
  std::string token;  // empty: the job will have none
  std::string by = {};
};
struct CommandJob {
  RequestId request;
  JobName job;
  std::string token;
  JobCommand command = JobCommand::kPause;
  std::string reason;  // for people
  std::string by = {};
};
struct StopJob {
  RequestId request;
  JobName job;
  std::string token;
  std::string reason;
  std::string by = {};
};
// Forgets a job that is over or, with `keep`, frees its name and keeps the job
// under another name.
struct DeleteJob {
  RequestId request;
  JobName job;
  std::string token;
  bool keep = false;
  std::string by = {};
};
struct ReportEvidence {
  RequestId request;
  JobName job;
  std::string token;
  protocol::Evidence evidence;
};

// The result of a Compile.
struct Compiled {
  CompilationId id;
  JobName job;
  absl::StatusOr<CompiledPlan> result;
};

// The daemon shuts down: every stream is closed, no job ends.
struct ShuttingDown {};

// The time of NextWake() has passed.
struct TimerExpired {};

using Event = std::variant<MessageReceived, SessionClosed, CreateJob,
                           CommandJob, StopJob, DeleteJob, ReportEvidence,
                           Compiled, ShuttingDown, TimerExpired>;

// --- Effects ----------------------------------------------------------------

// Send a message to a worker.
struct Send {
  SessionId session;
  protocol::ToWorker message;
};

// End a stream, after the messages already sent on it.
struct CloseSession {
  SessionId session;
  absl::Status status;
};

// Make a record durable. Effects that follow it, in this and later Steps, may
// promise what it records: the adapter delays them until it is durable.
struct Persist {
  record::Record record;
};

// The answer to an admin event.
struct AdminReply {
  RequestId request;
  absl::Status status;
};

// Compile the input on another thread and report the result as Compiled with
// the same id.
struct Compile {
  CompilationId id;
  JobName job;
  std::shared_ptr<const CompileInput> input;
};

// A line for the event log.
struct Note {
  JobName job;
  std::string text;
};

using Effect =
    std::variant<Send, CloseSession, Persist, AdminReply, Compile, Note>;
using Effects = std::vector<Effect>;

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_EVENT_H_
