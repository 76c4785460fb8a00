// One worker's membership in a job: the first thing a worker program makes.
//
//   auto session = lockstep::Session::Join({});         // from the environment
//   auto sync = lockstep::GradientSync::Create(**session);
//   ...
//   (*session)->Leave();
//
// Join blocks until every rank of the job is there. From then on a thread of
// the session talks to the coordinator; no call of a training step waits for
// it, and a coordinator that is away changes nothing until it is needed.
//
// When the epoch ends (a worker died, somebody failed, an operator stopped the
// job), everything that waits in this process returns within 100 ms with
// status(), which says who, where and since when. A program that wants to go on
// destroys the session and joins again under the same name.
//
// Threads: all methods from any thread, Join and the destructor from one.
// Ownership: GradientSync and communicators must be destroyed before it.

#ifndef LOCKSTEP_SESSION_H_
#define LOCKSTEP_SESSION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/arena.h"
#include "lockstep/export.h"
#include "lockstep/job_spec.h"

namespace lockstep {

// Empty fields are taken from the environment: what `lockstepctl run` sets.
struct JoinOptions {
  // HOST:PORT of each coordinator, tried in turn. LOCKSTEP_ADDRESS (comma
  // separated), else 127.0.0.1:7070.
  std::vector<std::string> addresses;
  // LOCKSTEP_JOB; may be left empty if a spec is given, which has the name.
  std::string job;
  // LOCKSTEP_WORKER_NAME, else "HOST-PID".
  std::string worker;
  // Creates the job if it does not exist; if it does, it must be equal.
  std::optional<JobSpec> spec;
  // LOCKSTEP_TOKEN.
  std::string token;
  // The address that other workers reach this one at: LOCKSTEP_HOST_ADDRESS,
  // else 127.0.0.1.
  std::string host_address;
  // transport: nccl only: the CUDA device of this process, as CUDA numbers
  // those that it sees. Negative: LOCAL_RANK, unless only one is to be seen;
  // else the current device of the thread that calls Join. The current device
  // of the caller's threads is not changed by any call.
  int device = -1;
  // How long to try to reach a coordinator at all. Once it answers, the job's
  // own join deadline holds.
  absl::Duration connect_timeout = absl::Seconds(30);
};

class LOCKSTEP_EXPORT Session {
 public:
  // Errors: Unavailable (no coordinator answered), InvalidArgument (another
  // spec: the differing fields are named; no job name), AlreadyExists (the name
  // is held by a living worker, which is named), DeadlineExceeded (the missing
  // workers are named), FailedPrecondition (another protocol version, a job
  // that is over, a job that is full), PermissionDenied (the token),
  // ResourceExhausted (a limit, which is named).
  static absl::StatusOr<std::unique_ptr<Session>> Join(
      const JoinOptions& options);

  // Leaves, uncleanly if Leave was not called; then it waits for the
  // coordinator as Leave does.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const JobSpec& spec() const;
  const std::string& worker() const;
  uint64_t generation() const;
  uint64_t epoch() const;
  int rank() const;
  int world_size() const;

  // OK while the epoch lives; then why it ended.
  absl::Status status() const;

  // Memory that the job's transports can use without a copy. Zeroed, aligned to
  // 256 bytes.
  absl::StatusOr<ArenaBuffer> Allocate(size_t bytes);

  // Tells the coordinator that no progress is to be expected for at most `max`:
  // validation, loading, compiling. Ends with the returned object. Of several
  // at once the newest is told.
  class BusyScope {
   public:
    BusyScope(BusyScope&& other) noexcept
        : session_(std::exchange(other.session_, nullptr)),
          number_(other.number_) {}
    ~BusyScope();

   private:
    friend class Session;
    BusyScope(Session* session, uint64_t number)
        : session_(session), number_(number) {}
    Session* session_;
    uint64_t number_;
  };
  [[nodiscard]] BusyScope Busy(const std::string& reason, absl::Duration max);

  // Ends the epoch for every rank: all get this rank, `call` and the message.
  // The gradient lane does this by itself for failures of its own calls.
  void ReportFailure(const std::string& call, const absl::Status& failure);

  // Leaves in order, after the last step; if the epoch ended before that, says
  // why, as status() does. Waits at most 2 s for the coordinator: Unavailable
  // if it did not answer (this worker is gone all the same).
  absl::Status Leave();

  // The library's own side: what GradientSync and its like are built on.
  class LOCKSTEP_HIDDEN Impl;
  Impl& impl() { return *impl_; }

 private:
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_SESSION_H_
