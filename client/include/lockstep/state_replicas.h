// Uses of the registered state (state_spec.h) that need no storage: ranks that
// hold the same elements compare them, and a rank that lost its state receives
// it from the others.
//
//   session->RegisterState({.name = "w", .shape = {64, 10}}, w.data());
//   auto replicas = StateReplicas::Create(*session);    // declared ...
//   sync->Seal();                                       // ... and connected
//   (*replicas)->Resume();                              // newcomers have it
//   for (...) {
//     ...
//     if (step % 100 == 0) {
//       absl::Status same = (*replicas)->Check();       // DataLoss: tensor "w"
//     }                                                 // of rank 2 ...
//   }
//
// All ranks call Create, and then the same calls in the same order, at the same
// steps: a call blocks until all ranks have made it. They have a communicator
// of their own, so other calls may be in progress; on a device the ranks call
// all of them in one order, and not while gradients are being reduced.
//
// Progress:  a call may take longer than timeouts.progress: the session is busy
//            meanwhile (Session::Busy), for at most that time and a second for
//            each 16 MiB of this rank's state.
// Memory:    that of RegisterState and SetStateMemory. No other thread or
//            stream changes it during a call. With transport: nccl each tensor
//            may be in device memory, or on the host; work that was enqueued on
//            the device and changes it must be done before the call. A call
//            needs 2 MiB beside the state, on a device 12 MiB there and as much
//            pinned memory.
// Threads:   one caller at a time. Work runs on a stream of the object.
// Ownership: destroyed before the session.
// Errors:    a call that the end of the epoch interrupts returns
//            Session::status(). InvalidArgument, on all ranks, names a rank
//            that holds state without memory. FailedPrecondition before the
//            session is connected, and after it has left. Internal, on all
//            ranks, names a rank and its tensor that could not be copied, or
//            for which there was no staging memory; the rank itself has the
//            device's error. None of these ends the epoch, and neither do those
//            below.

#ifndef LOCKSTEP_STATE_REPLICAS_H_
#define LOCKSTEP_STATE_REPLICAS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/export.h"
#include "lockstep/training_state.h"

namespace lockstep {

class Session;

class AsyncCheckpointer;

// Where the state came from that an epoch begins with.
enum class StateOrigin : uint8_t {
  kInitial = 1,  // the job begins: each rank has what the program set
  kKept,         // all ranks have it from the epoch before
  kPeers,        // newcomers received it from the others
  kCheckpoint,   // all ranks loaded it
};

struct ResumedState {
  StateOrigin origin = StateOrigin::kInitial;
  // kCheckpoint: that of the checkpoint.
  std::optional<TrainingState> training;
};

class LOCKSTEP_EXPORT StateReplicas {
 public:
  // Before GradientSync::Seal or Session::Connect. Errors: FailedPrecondition
  // after, ResourceExhausted as Session::Group.
  static absl::StatusOr<std::unique_ptr<StateReplicas>> Create(
      Session& session);

  ~StateReplicas();
  StateReplicas(const StateReplicas&) = delete;
  StateReplicas& operator=(const StateReplicas&) = delete;

  // Compares the bytes of elements that several ranks hold: 64-bit hashes are
  // sent, not the elements. DataLoss, the same on all ranks, names each tensor
  // that differs, its elements, and the ranks: those that differ from more than
  // half of the holders, or all holders.
  absl::Status Check();

  // Gives each rank the state that the epoch begins with, once it is sealed and
  // before its first step: what Session::Recover returned in the epoch before,
  // and was passed to Session::Join, says who has it. Newcomers receive it as
  // by Recover. If no rank has all of it any more, all ranks load the newest
  // checkpoint of `checkpoints`, which they have created; null: without one.
  //
  // If an elastic job goes on with another number of replicas, state that each
  // of them holds whole is kept, and sent to newcomers. State that is cut among
  // them, as with sync: reduce_scatter, is not what the new ranks need: all
  // load the newest checkpoint, and the steps since are computed again, even
  // those of ranks that Recover told to replay or to roll forward.
  //
  // Before the first step of a job nothing can be lost: without a checkpoint
  // all then begin with what the program set (kInitial).
  //
  // FailedPrecondition: the state is lost, and there is no checkpoint; or none
  // is registered, and there are newcomers. Else the errors of Recover and of
  // AsyncCheckpointer::Load.
  absl::StatusOr<ResumedState> Resume(AsyncCheckpointer* checkpoints = nullptr);

  // Sends the newcomers, whose memory may have any contents, all state that
  // they hold, from the other ranks: from several holders at once, and
  // compared with their hashes. A holder whose bytes differ from the others' is
  // replaced by the next one.
  //
  // InvalidArgument: a rank that the job does not have, or one that is named
  // twice; ranks that name different newcomers. FailedPrecondition names
  // tensors, and newcomers, whose elements no other rank holds: load a
  // checkpoint. Nothing was sent then. DataLoss, the same on all ranks, names
  // the tensor, the elements and the holders, of which no two agree; the
  // newcomers' state has undefined contents.
  absl::Status Recover(const std::vector<int>& newcomers);

 private:
  class LOCKSTEP_HIDDEN Impl;
  explicit StateReplicas(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_STATE_REPLICAS_H_
