// What the coordinator's core accepts at most, and how often it refused more.
//
//   limit              of what                        who is refused
//   jobs               jobs that are not over         the Hello or call that
//                                                     creates one more
//   workers_per_job    ranks of the mesh, and spares  likewise
//   parameters_per_job registered, over all ranks     the job: it fails
//   registration_bytes that one worker registers      the job: it fails
//   joins_per_second   of new workers of a job        the Hello, which may be
//                                                     repeated
//
// A job's workers may all join at once; only then the rate counts
// (join_rate.h).
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_LIMITS_H_
#define LOCKSTEP_SERVER_CORE_LIMITS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lockstep/job_spec.h"
#include "protocol/ids.h"
#include "protocol/limit_use.h"
#include "server/core/join_rate.h"

namespace lockstep::core {

struct LimitValues {
  int64_t jobs = 1000;
  int64_t workers_per_job = 10'000;
  int64_t parameters_per_job = 10'000'000;
  int64_t registration_bytes = int64_t{256} << 20;
  int64_t joins_per_second = 100;
};

class Limits {
 public:
  explicit Limits(const LimitValues& values);

  // Each returns ResourceExhausted if the limit is exceeded; the message names
  // the flag of lockstepd that raises it. A refused join is Unavailable, since
  // another try may succeed.

  // Another job beside `living`.
  absl::Status AdmitJob(const JobSpec& spec, int64_t living);
  // `parameters`: of all ranks. `bytes`: of the registration of one.
  absl::Status AdmitRegistration(int64_t parameters, int64_t bytes);
  absl::Status AdmitJoin(const JobSpec& spec, const WorkerName& worker,
                         JoinRate* joins, absl::Time now);

  // `living`: the jobs that are not over.
  std::vector<LimitUse> Uses(int64_t living) const;

 private:
  LimitUse jobs_, workers_, parameters_, bytes_, joins_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_LIMITS_H_
