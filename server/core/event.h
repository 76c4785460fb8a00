// Everything that can happen to the coordinator, and everything it can ask for.
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
#include "plan/words/ids.h"
#include "plan/words/job_command.h"
#include "plan/words/protocol.h"
#include "plan/words/record.h"
#include "server/core/compilation.h"

namespace lockstep::core {

// One stream of one worker, as the adapter numbers them: never reused.
using SessionId = Id<struct SessionTag, uint64_t>;

// A question that wants an Answer: an admin call, as the adapter numbers them.
using RequestId = Id<struct RequestTag, uint64_t>;

// --- What can happen --------------------------------------------------------

// A message came in on a stream. The first on each is Hello; anything else
// before it is refused.
struct Received {
  SessionId session;
  protocol::ToCoordinator message;
};

// A stream ended, whoever ended it.
struct SessionClosed {
  SessionId session;
  std::string why;  // for people
};

// An operator, or a launcher, asks. Each is answered once.
struct CreateJob {
  RequestId request;
  JobSpec spec;
  std::string token;  // empty: the job will have none
};
struct CommandJob {
  RequestId request;
  JobName job;
  std::string token;
  JobCommand command = JobCommand::kPause;
  std::string reason;  // for people
};
struct StopJob {
  RequestId request;
  JobName job;
  std::string token;
  std::string reason;
};
// Forgets a job that is over, or gives its name free and keeps it under
// another.
struct DeleteJob {
  RequestId request;
  JobName job;
  std::string token;
  bool keep = false;
};
struct ReportEvidence {
  RequestId request;
  JobName job;
  std::string token;
  protocol::Evidence evidence;
};

// What came of a Compile.
struct Compiled {
  CompilationId id;
  JobName job;
  absl::StatusOr<CompiledPlan> result;
};

// The daemon is going down: every stream gets to know, no job ends.
struct ShuttingDown {};

// The moment the coordinator last asked for has passed.
struct Wake {};

using Event =
    std::variant<Received, SessionClosed, CreateJob, CommandJob, StopJob,
                 DeleteJob, ReportEvidence, Compiled, ShuttingDown, Wake>;

// --- What can be asked for --------------------------------------------------

// Send to a worker.
struct Send {
  SessionId session;
  protocol::ToWorker message;
};

// End a stream, after what was sent on it before.
struct CloseSession {
  SessionId session;
  absl::Status status;
};

// Make durable. Effects that follow it, in this and later Steps, may promise
// what it records: the adapter holds them back until it is durable.
struct Persist {
  record::Record record;
};

// The answer to an admin event.
struct Answer {
  RequestId request;
  absl::Status status;
};

// Run the input on another thread, and say what came of it: Compiled with the
// same id.
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

using Effect = std::variant<Send, CloseSession, Persist, Answer, Compile, Note>;
using Effects = std::vector<Effect>;

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_EVENT_H_
