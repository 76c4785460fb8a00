// One worker's membership in a job: the first object that a worker creates.
//
//   auto session = lockstep::Session::Join({});         // from the environment
//   auto sync = lockstep::GradientSync::Create(**session);
//   ...
//   (*session)->Leave();
//
// Join blocks until every rank of the job has joined, or, in a job that takes
// more workers than it has ranks (elastic, limits.spares), until this one is
// given a rank: then as long as the job lives. Then a thread of the
// session exchanges messages with the coordinator. No call of a training step
// waits for the coordinator, except in negotiated mode. Otherwise training
// continues while the coordinator is unreachable.
//
// When the epoch ends (a worker died or failed, an operator stopped the job),
// every blocked call in this process returns within 100 ms with status(), which
// names the worker, its position and the time. So do later calls that need
// other ranks, those before the first step too. To continue, a program calls
// Recover, destroys the session and joins again under the same name; recovery.h
// shows the loop.
//
// Threads: all methods may be called from any thread; Join and the destructor
//          from one thread.
// Ownership: GradientSync, groups and what they prepared must be destroyed
//            before it.

#ifndef LOCKSTEP_SESSION_H_
#define LOCKSTEP_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "lockstep/arena.h"
#include "lockstep/axis_group.h"
#include "lockstep/export.h"
#include "lockstep/halo_exchange.h"
#include "lockstep/job_spec.h"
#include "lockstep/recovery.h"
#include "lockstep/state_spec.h"

namespace lockstep {

// Empty fields are read from the environment, which `lockstepctl run` sets.
struct JoinOptions {
  // HOST:PORT of each coordinator, tried in turn. LOCKSTEP_ADDRESS (comma
  // separated), else 127.0.0.1:7070.
  std::vector<std::string> addresses;
  // LOCKSTEP_JOB; may be empty if `spec` is set, which contains the name.
  std::string job;
  // LOCKSTEP_WORKER_NAME, else "HOST-PID".
  std::string worker;
  // Creates the job if it does not exist; else it must equal the job's spec.
  std::optional<JobSpec> spec;
  // LOCKSTEP_TOKEN.
  std::string token;
  // A folder with ca.crt, tls.crt and tls.key, for a coordinator that serves
  // TLS: LOCKSTEP_TLS, else plaintext.
  std::string tls_folder;
  // The address at which other workers reach this one: LOCKSTEP_HOST_ADDRESS,
  // else 127.0.0.1.
  std::string host_address;
  // transport: nccl only: the CUDA device of this process, numbered as CUDA
  // numbers the visible devices. Negative: LOCAL_RANK, unless only one device
  // is visible; else the current device of the thread that calls Join. No call
  // changes the current device of the caller's threads.
  int device = -1;
  // What Recover of this process's last session returned, and the program has
  // carried out: the worker joins with the state that it has.
  std::optional<Recovery> recovered = std::nullopt;
  // How long to try to reach a coordinator. Once it has answered, the job's
  // join timeout applies.
  absl::Duration connect_timeout = absl::Seconds(30);
};

// Bytes by kind of lane (docs/architecture.md): the input of each operation; a
// message counts on its sender. Verdicts and groups' collectives are not
// included.
struct LaneBytes {
  uint64_t gradient = 0;
  uint64_t pipeline = 0;
  uint64_t halo = 0;
};

class LOCKSTEP_EXPORT Session {
 public:
  // Errors: Unavailable (no coordinator answered), InvalidArgument (another
  // spec, with the differing fields; no job name), AlreadyExists (a living
  // worker has this name), DeadlineExceeded (with the absent workers),
  // FailedPrecondition (another protocol version, a job that is over, a job
  // that is full), Unauthenticated (no token, or one that does not admit to
  // this job), PermissionDenied (the job has another token), ResourceExhausted
  // (a limit, which is named), Cancelled (an operator ended the job, or it
  // completed while this worker waited for a rank: it was not needed).
  static absl::StatusOr<std::unique_ptr<Session>> Join(
      const JoinOptions& options);

  // Leaves the job. Without a call of Leave before, the worker leaves
  // uncleanly, and the destructor waits for the coordinator as Leave does.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // The job's, with the mesh of this epoch: in an elastic job its elastic axis
  // may be smaller than the job's.
  const JobSpec& spec() const;
  const Mesh& mesh() const { return spec().mesh; }
  const std::string& worker() const;
  uint64_t generation() const;
  uint64_t epoch() const;
  int rank() const;
  int world_size() const;

  // OK until the epoch ends; then the cause.
  absl::Status status() const;

  // The CUDA device of this process, numbered as CUDA numbers the visible
  // devices: streams of the program are made on it. None: the job's transport
  // moves host memory.
  std::optional<int> device() const;

  // Allocates memory that the job's transports can use without a copy. Zeroed,
  // aligned to 256 bytes.
  absl::StatusOr<ArenaBuffer> Allocate(size_t bytes);

  // Declares the group of the ranks that differ from this one only in `axes`,
  // row-major in the given order; `index_groups` divide it further
  // (axis_collective.h). The same arguments give the same group. Each member
  // must declare it, in any order, before the groups are connected: by
  // GradientSync::Seal, or by Connect. Errors: InvalidArgument (an axis that
  // the mesh lacks or that is there twice; index groups that repeat, miss or
  // exceed members), FailedPrecondition (a new group once they are connected),
  // ResourceExhausted (more than 256 groups).
  absl::StatusOr<AxisGroup> Group(
      const std::vector<std::string>& axes,
      const std::vector<std::vector<int>>& index_groups = {});

  // Declares a halo exchange with the ranks that differ from this one only in
  // the axes that cut its tensors (halo_exchange.h). Each of them declares it,
  // in any order, before the session is connected: with the same tensors, but
  // blocks of any sizes. Errors: InvalidArgument (what one rank can see:
  // dimensions, axes, widths, sizes, constants; a name declared before),
  // FailedPrecondition (once the session is connected), ResourceExhausted (more
  // than 1024, or 2048 tensors).
  absl::StatusOr<HaloExchange> Halo(const HaloSpec& halo);

  // Registers state of the program for checkpoints and recovery
  // (state_spec.h), before the session is connected: in any order, by the ranks
  // that hold it. `data` is this rank's part, in host memory or in memory of
  // the job's device; null: SetStateMemory gives it.
  // GradientSync::RegisterState registers a parameter and its optimizer's
  // state. Errors: InvalidArgument (what one rank can see: names, dtypes,
  // shapes, cuts, slices; a name registered before), FailedPrecondition (once
  // the session is connected), ResourceExhausted (more than 131072).
  absl::StatusOr<StateId> RegisterState(const StateSpec& state,
                                        void* data = nullptr);

  // A number, which all ranks have alike, and bytes, such as the state of a
  // generator of random numbers: as many on all ranks.
  template <typename T>
  absl::StatusOr<StateId> RegisterScalar(const std::string& name, T* number) {
    return RegisterState({.name = name, .dtype = DTypeOfNumber<T>()}, number);
  }
  absl::StatusOr<StateId> RegisterBytes(const std::string& name,
                                        absl::Span<std::byte> bytes) {
    return RegisterState({.name = name,
                          .dtype = DType::kU8,
                          .shape = {static_cast<int64_t>(bytes.size())}},
                         bytes.data());
  }

  // Sets the memory of this rank's part of the state, or another one: of
  // slices, whose sizes are known once the session is connected. Errors:
  // InvalidArgument (unknown state).
  absl::Status SetStateMemory(StateId state, void* data);

  // The state changes within a step, as that of a generator of random numbers
  // or the statistics of a batch normalisation: it is copied at the end of each
  // step, when Finish, FinishAsync or Launch is called, and Recover restores
  // what it was when the step with which training goes on began. In host
  // memory; small. Errors: InvalidArgument (unknown state, a
  // slice).
  absl::Status SetStepScoped(StateId state);

  // Connects the declared groups and halos and agrees on the state, in a
  // program without a GradientSync. Blocks until every rank has called it.
  // Errors: InvalidArgument (one that some members did not declare, or
  // differently; state that ranks hold differently, or not all of),
  // FailedPrecondition (called before, or Seal was), Session::status().
  absl::Status Connect();

  // What this rank has sent so far, of gradients as they are on the wire. The
  // steps of a captured graph count once.
  LaneBytes lane_bytes() const;

  // Tells the coordinator to expect no progress for at most `max`, until the
  // returned object is destroyed: for validation, loading, compiling. With
  // several scopes at once, the newest one is reported.
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
  // GradientSync does this for failures of its own calls.
  void ReportFailure(const std::string& call, const absl::Status& failure);

  // After the end of the epoch (status() is not OK), or a step with which the
  // job grows (Verdict::Grows): waits until all members have quiesced, or are
  // lost, and returns how training goes on. The program carries it out
  // (recovery.h), destroys the session and what belongs to it, and joins again.
  // Errors: FailedPrecondition (the epoch lives, or this worker has left it;
  // training begins anew, and this process has passed a step, or joined after
  // one: end the process, so that it is started again), DeadlineExceeded (no
  // decision within timeouts.join), NotFound (the coordinator was replaced by
  // one that does not know the epoch: start all workers again), status() if the
  // job does not go on.
  absl::StatusOr<Recovery> Recover();

  // Leaves the job after the last step. If the epoch has ended before, and
  // Recover was not called, returns the cause, as status() does. Waits for a
  // save of the AsyncCheckpointer that is in progress, and then at most 2 s for
  // the coordinator, or 2 min if it cannot be reached, since it may restart:
  // Unavailable if it did not answer (the worker has left nevertheless).
  absl::Status Leave();

  // Internal: what GradientSync and Pipeline use.
  class LOCKSTEP_HIDDEN Impl;
  Impl& impl() { return *impl_; }

 private:
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_SESSION_H_
