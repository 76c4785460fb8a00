// The rule of the door: may this Hello speak under this name?
//
//   generation      holder of the name          answer
//   any, incarnation (Hello::life) 0            refused
//   older           any                         refused: fenced
//   never given     any                         a stranger
//   newest, not its
//   incarnation or
//   not its secret  any                         a stranger
//   newest          proven dead                 refused: fenced
//   newest          any                         the same life again
//   0, the newest's
//   incarnation     any                         the same life again, and a new
//                                               secret: its Welcome was lost
//   0               suspect                     a new life; the old one is
//                                               fenced
//   0               suspect since the
//                   coordinator restarted       refused: the name is taken
//   0               alive, waits for nothing, is
//                   the same process, no epoch  a new life: it comes again
//   0               alive                       refused: the name is taken
//   0               lost, left, nobody          a new life, if a seat is free
//
// A refusal is final: the worker ends. A stranger is not let in, but may be a
// running worker of a job that this coordinator does not know: its stream ends
// with the reason, and it goes on.
//
// A pure function, so that the table above can be tested as a table.

#ifndef LOCKSTEP_SERVER_CORE_ADMISSION_H_
#define LOCKSTEP_SERVER_CORE_ADMISSION_H_

#include <variant>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lockstep/job_spec.h"
#include "plan/words/protocol.h"
#include "server/core/durable_state.h"
#include "server/core/roster.h"

namespace lockstep::core {

struct NewLife {};
struct SameLife {};
struct Stranger {
  absl::Status why;
};
using Admission = std::variant<NewLife, SameLife, Stranger, absl::Status>;

struct AdmissionState {
  const JobSpec& spec;
  const Roster& roster;
  NameHolder newest;  // of the name
  bool epoch_lives = false;
};

// A status is a refusal: InvalidArgument (a name that is no name, or not in the
// spec's list, which is named; incarnation 0), FailedPrecondition (an old
// generation, a full job: its holders are named), AlreadyExists (the name is
// taken: its holder is named). A stranger's is FailedPrecondition (an unknown
// generation) or PermissionDenied (another incarnation or secret).
Admission Admit(const AdmissionState& door, const protocol::Hello& hello,
                absl::Time now);

// The refusal of a job that has no free seat, with the holders named.
absl::Status Full(const AdmissionState& door, const WorkerName& worker);

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_ADMISSION_H_
