// The rule of the door: may this Hello speak under this name?
//
//   generation  holder of the name            answer
//   older       any                           refused: fenced
//   newest      proven dead                   refused: fenced
//   newest      any                           the same life again
//   0           with the same life            the same life again
//   0           suspect                       a new life; the old one is fenced
//   0           alive, waits for nothing, is
//               the same process, no epoch    a new life: it comes again
//   0           alive                         refused: the name is taken
//   0           lost, left, nobody            a new life, if a seat is free
//
// A pure function, so that the table above can be tested as a table.

#ifndef LOCKSTEP_SERVER_CORE_ADMISSION_H_
#define LOCKSTEP_SERVER_CORE_ADMISSION_H_

#include <variant>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lockstep/job_spec.h"
#include "plan/words/protocol.h"
#include "server/core/roster.h"

namespace lockstep::core {

struct NewLife {};
struct SameLife {};
using Admission = std::variant<NewLife, SameLife, absl::Status>;

struct Door {
  const JobSpec& spec;
  const Roster& roster;
  Generation newest;         // of the name; 0: never given
  uint64_t newest_life = 0;  // ... and its Hello::life
  bool epoch_lives = false;
};

// A status is a refusal: InvalidArgument (a name that is no name, or not in the
// spec's list, which is named), FailedPrecondition (an old or unknown
// generation, a full job: its holders are named), AlreadyExists (the name is
// taken: its holder is named).
Admission Admit(const Door& door, const protocol::Hello& hello, absl::Time now);

// The refusal of a job that has no free seat, with the holders named.
absl::Status Full(const Door& door, const WorkerName& worker);

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_ADMISSION_H_
