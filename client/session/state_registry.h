// The state that a rank registers, from its registration to checkpoints
// (Session::RegisterState).
//
//   Register ──▶ declarations() ──▶ the plan ──▶ Connect ──▶ Registered
//                                    SetMemory, at any time ──┘
//
// Threads: all methods from any thread.

#ifndef LOCKSTEP_CLIENT_SESSION_STATE_REGISTRY_H_
#define LOCKSTEP_CLIENT_SESSION_STATE_REGISTRY_H_

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
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
  // Errors: InvalidArgument as Normalized, or a name that was registered
  // before; ResourceExhausted for more than kStatesMax; FailedPrecondition
  // after `declarations`.
  absl::StatusOr<StateId> Register(const Mesh& mesh, const StateSpec& spec,
                                   void* data);

  // Null takes the memory away. InvalidArgument: an unknown id.
  absl::Status SetMemory(StateId id, void* data);

  // The state is copied at the end of each step, and restored if the next one
  // is replayed. Errors: InvalidArgument (an unknown id, a slice).
  absl::Status SetStepScoped(StateId id);
  // Both do nothing where no memory is set.
  void KeepStepScoped();
  void RestoreStepScoped();

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
    KeepStepScoped();
  }
  bool loaded() const { return loaded_; }

 private:
  struct Entry {
    StateSpec spec;
    void* data = nullptr;
    size_t tensor = 0;   // index in the plan, once connected
    bool holds = false;  // elements of it, once connected
    bool is_step_scoped = false;
    std::vector<char> kept;  // of the step-scoped: at the end of a step
  };

  std::atomic<bool> loaded_{false};
  std::atomic<bool> has_step_scoped_{false};
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
