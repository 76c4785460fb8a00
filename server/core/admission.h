// The admission rule: may this Hello use this name?
//
//   generation      holder of the name          answer
//   any, incarnation 0                          refused
//   older           any                         refused: fenced
//   never assigned  any                         a stranger
//   newest, not its
//   incarnation or
//   not its secret  any                         a stranger
//   newest          proven dead                 refused: fenced
//   newest          any                         the same incarnation resumes
//   0, the newest's
//   incarnation     has its secret              a stranger: an earlier Hello
//                                               comes late
//   0, the newest's
//   incarnation     any                         the same incarnation; a new
//                                               secret, as its Welcome was lost
//   0               suspect                     a new incarnation; the old one
//                                               is fenced
//   0               suspect since the
//                   coordinator restarted       a stranger, for now
//   0               alive, not arrived, the
//                   same process, no member     a new incarnation: it rejoins
//   0               alive                       refused: the name is taken
//   0               lost, left, none            a new incarnation, if there is
//                                               a place
//
// Places are the mesh's ranks and limits.spares. While an epoch lives, its
// members hold their ranks; in an elastic job that runs with fewer workers than
// the mesh has ranks, the others are places of workers that wait.
//
// A drained job refuses, under each name, the survivors of its last epoch and
// the launches that were sent away, whose launchers restart workers.
//
// A refusal is final: the worker exits. A stranger is not admitted, but may be
// a running worker of a job that this coordinator does not know, or come too
// early: its stream ends with the reason, and the worker keeps training, or
// tries again.
//
// A pure function, so that the table above can be tested as a table.

#ifndef LOCKSTEP_SERVER_CORE_ADMISSION_H_
#define LOCKSTEP_SERVER_CORE_ADMISSION_H_

#include <set>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lockstep/job_spec.h"
#include "protocol/session.h"
#include "server/core/durable_state.h"
#include "server/core/recovery_tracker.h"
#include "server/core/roster.h"

namespace lockstep::core {

struct NewIncarnation {};
struct SameIncarnation {};
struct Stranger {
  absl::Status why;
};
using Admission =
    std::variant<NewIncarnation, SameIncarnation, Stranger, absl::Status>;

struct AdmissionState {
  const JobSpec& spec;
  const Roster& roster;
  NameHolder newest;       // the newest holder of the name
  int members = 0;         // of the living epoch; 0: none lives
  bool is_member = false;  // the holder of the name is one of them
  bool has_begun = false;  // the job has had an epoch
  // Survivors of the last epoch, of other names, that left to join again. Their
  // ranks are kept, until they are not waited for any more.
  int away = 0;
  const RecoveryTracker* recovery = nullptr;  // names them; null: none is
  absl::Time away_until = absl::InfiniteFuture();
  // "drained by an operator: ...", while the job waits for a new launch.
  std::string drained;
  const std::set<std::string>* drained_launches = nullptr;  // their ids
};

// InvalidArgument if no job of this spec admits the worker: its name is
// malformed, or not in the spec's list, which is quoted; or its incarnation is
// 0.
absl::Status MayJoin(const JobSpec& spec, const protocol::Hello& hello);

// A status is a refusal: InvalidArgument (MayJoin), FailedPrecondition (an
// old generation, or a full job, with its workers named), AlreadyExists (the
// name is taken, with its holder named), Cancelled (drained). The status of a
// Stranger is FailedPrecondition (an unknown generation), PermissionDenied
// (another incarnation or secret) or Unavailable (a name that may be free
// soon).
Admission Admit(const AdmissionState& state, const protocol::Hello& hello,
                absl::Time now);

// Whether another worker may join, or wait.
bool HasPlace(const AdmissionState& state);

// The refusal of a job without a place; names the workers that hold them, and
// those that are not there, and for how long their ranks are kept.
absl::Status Full(const AdmissionState& state, const WorkerName& worker,
                  absl::Time now);

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_ADMISSION_H_
