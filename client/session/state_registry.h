// The state that a rank registers, from its registration to checkpoints
// (Session::RegisterState).
//
//   Register ──▶ declarations() ──▶ the plan ──▶ Connect ──▶ Registered
//                                    SetMemory, at any time ──┘
//
// Threads: all methods from any thread.

#ifndef LOCKSTEP_CLIENT_SESSION_STATE_REGISTRY_H_
#define LOCKSTEP_CLIENT_SESSION_STATE_REGISTRY_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "lockstep/job_spec.h"
#include "lockstep/mesh.h"
#include "lockstep/state_spec.h"
#include "plan/ir.h"

namespace lockstep {

// The state of the job, as all ranks agreed on it.
struct RegisteredState {
  // Plan::state, the same on all ranks and in all revisions of an epoch.
  std::shared_ptr<const std::vector<plan::StateTensor>> tensors;
  // This rank's memory of each of them, laid out as plan::BoxesOf says. Null
  // where it holds no elements. The program's: registered for as long as it
  // uses checkpoints.
  std::vector<void*> memory;
};

namespace session {

class StateRegistry {
 public:
  // Steps in flight, the one that is replayed, and the one that begins.
  static constexpr size_t kKept = JobSpec::kRunAheadMax + 2;

  // Errors: InvalidArgument as Normalized, or a name that was registered
  // before; ResourceExhausted for more than kStatesMax; FailedPrecondition
  // after `declarations`.
  absl::StatusOr<StateId> Register(const Mesh& mesh, const StateSpec& spec,
                                   void* data);

  // Null takes the memory away. InvalidArgument: an unknown id.
  absl::Status SetMemory(StateId id, void* data);

  // The state is copied at the end of each step, and restored when training
  // goes on with the step behind it. Errors: InvalidArgument (an unknown id, a
  // slice).
  absl::Status SetStepScoped(StateId id);
  // For good: the program runs steps whose end the host does not see.
  // FailedPrecondition if there is such a state.
  absl::Status ForbidStepScoped();
  // Copies the state with which step `next` begins. Steps are kept for as long
  // as they may be in flight (kKept).
  void KeepStepScoped(uint64_t next);
  // What was kept for this step; if none was, what was registered or loaded.
  // Both do nothing where no memory is set.
  void RestoreStepScoped(uint64_t next);

  // Ends the registrations, and returns them in their order.
  std::vector<StateSpec> declarations();
  bool empty() const;

  // Once. InternalError if the plan lacks a tensor.
  absl::Status Connect(const plan::Plan& plan, int rank);

  // FailedPrecondition before Connect. InvalidArgument names the tensors of
  // which this rank holds elements for which no memory is set.
  absl::StatusOr<RegisteredState> Registered() const;
  // As Registered, but with null for memory that is not set.
  absl::StatusOr<RegisteredState> Agreed() const;

  // The state was loaded: memory beyond this rank's part is what it was.
  void NoteLoaded() {
    loaded_ = true;
    KeepFirst();
  }
  bool loaded() const { return loaded_; }

 private:
  struct Entry {
    StateSpec spec;
    void* data = nullptr;
    size_t tensor = 0;   // index in the plan, once connected
    bool holds = false;  // elements of it, once connected
    bool is_step_scoped = false;
    std::vector<char> first;                    // as registered or loaded
    std::array<std::vector<char>, kKept> kept;  // in turn, by step
  };

  void KeepFirst();

  std::atomic<bool> loaded_{false};
  std::atomic<bool> has_step_scoped_{false};
  bool step_scoped_is_forbidden_ ABSL_GUARDED_BY(mutex_) = false;
  // The steps that `kept` is about; 0: none. The first step of a job is kept as
  // `first`.
  std::array<uint64_t, kKept> kept_steps_ ABSL_GUARDED_BY(mutex_) = {};
  mutable Mutex mutex_;
  bool declared_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // by StateId
  std::map<std::string, size_t> index_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const std::vector<plan::StateTensor>> tensors_
      ABSL_GUARDED_BY(mutex_);  // null until connected
};

}  // namespace session
}  // namespace lockstep

#endif  // LOCKSTEP_CLIENT_SESSION_STATE_REGISTRY_H_
