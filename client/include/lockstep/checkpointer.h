// Asynchronous checkpoints of the registered state of a job (state_spec.h).
//
//   session->RegisterState({.name = "w", .shape = {64, 10}}, w.data());
//   sync->Seal();
//   auto made = AsyncCheckpointer::Create(*session, {.directory = dir});
//   if ((*made)->newest()) training = *(*made)->Load();
//   for (...) {
//     auto verdict = sync->Finish(...);
//     ...update...
//     if (training.step % 100 == 0 || verdict->Holds(Command::kSave))
//       (*made)->Save(training);          // returns after a copy
//   }
//   (*made)->Wait();
//
//   Save ─copy─▶ returns           the program trains on
//          └───▶ files ▶ durable ▶ those of all ranks ▶ manifest: committed
//                  (thread ls-save)
//
// All ranks call Create, Save and Load alike; Save is called at the same steps.
// Elements that several ranks hold are written once, by one of them; the work
// is balanced. A save counts once its manifest is on disk: until then, and if
// it fails, the checkpoints before it stay valid. docs/checkpoints.md has the
// format and the commit protocol.
//
// Threads: one caller; progress() from any thread. The object has one thread of
//          its own.
// Ownership: the session must outlive it. The registered memory is read in
//            Save, and written in Load, and not touched at other times.
// Errors: a save that fails does not end the epoch: training goes on, and Wait,
//         or the next Save, returns the error.

#ifndef LOCKSTEP_CHECKPOINTER_H_
#define LOCKSTEP_CHECKPOINTER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/checkpoint_name.h"
#include "lockstep/export.h"
#include "lockstep/stream.h"
#include "lockstep/training_state.h"

namespace lockstep {

class Session;

struct CheckpointerOptions {
  // Has the job's checkpoints: on a file system that all ranks share. Created
  // if it does not exist. Checkpoints are in its folder "checkpoints". One job
  // at a time may use it.
  std::string directory;
  // The newest committed checkpoints that are kept, at least 1, and those whose
  // step is a multiple of `keep_every` (0: none). Others are removed after each
  // commit.
  int64_t keep_last = 2;
  int64_t keep_every = 0;
};

enum class LoadCheck : uint8_t {
  kFull = 1,  // the hash of each block that is read
  kSampled,   // of one block in 16
  kOff,
};

struct LoadCheckpointOptions {
  // The step to load; nullopt: the newest committed checkpoint.
  std::optional<int64_t> step;
  LoadCheck check = LoadCheck::kFull;
  // From the checkpoint's names to registered names. One '*' on each side
  // stands for the same text: {"model.*", "net.*"}; full names go before
  // patterns.
  std::map<std::string, std::string> renamed;
  // Registered names, in which '*' stands for any text: others keep their
  // values. Empty: all.
  std::vector<std::string> only;
  // Likewise: names that are left out, though `only` may have them.
  std::vector<std::string> except;
};

struct SaveProgress {
  bool saving = false;
  int64_t step = 0;  // of the save in progress, or of the last one
  uint64_t bytes_done = 0;
  uint64_t bytes_total = 0;  // that this rank writes
  double seconds = 0;        // since Save
};

class LOCKSTEP_EXPORT AsyncCheckpointer {
 public:
  // After GradientSync::Seal or Session::Connect. Blocks until every rank has
  // called it, and proves that all of them see the same directory: rank 0
  // writes a file that the others read. Errors: InvalidArgument (options, or
  // registered state without memory), FailedPrecondition (no state is
  // registered; a second Create; ranks that cannot use the directory, all of
  // them named; another job uses it), those of the file system,
  // Session::status(). It fails on all ranks or on none, and if it failed all
  // ranks may call it again.
  static absl::StatusOr<std::unique_ptr<AsyncCheckpointer>> Create(
      Session& session, const CheckpointerOptions& options);

  // Waits for the save in progress. An error that no call has returned is
  // printed.
  ~AsyncCheckpointer();
  AsyncCheckpointer(const AsyncCheckpointer&) = delete;
  AsyncCheckpointer& operator=(const AsyncCheckpointer&) = delete;

  // Copies the state and returns; the rest happens in the background. One save
  // is in progress at a time: a second call waits for the first. The caller may
  // change the state once Save has returned; with `stream`, the copies run
  // there, and later work on it may change the state.
  //
  // Returns the error of an earlier save that no call has returned yet; the new
  // save has begun nevertheless. Errors of this call, which begin no save:
  // InvalidArgument (a training state that the manifest cannot have),
  // ResourceExhausted (no memory for the copy), Session::status().
  absl::Status Save(const TrainingState& training);
  absl::Status Save(const TrainingState& training, Stream& stream);

  // Blocks until the save in progress is committed on all ranks, or failed, and
  // returns its error, with the ranks, the file and the tensor; OK if none is.
  absl::Status Wait();

  // The newest committed checkpoint that this object knows: when it was
  // created, or saved since. The same on all ranks.
  std::optional<CheckpointName> newest() const;

  // Reads this rank's part of each registered tensor, whatever mesh saved it,
  // and returns the training state. All ranks call it with the same options;
  // it does not wait for them. Waits for a save in progress.
  //
  // NotFound: no committed checkpoint, or none of that step. FailedPrecondition
  // lists all tensors that are missing, unexpected, or have another shape or
  // dtype; nothing was read then. DataLoss names the file and the tensor. After
  // another error than the first two the state has undefined contents.
  absl::StatusOr<TrainingState> Load(const LoadCheckpointOptions& options = {});

  SaveProgress progress() const;

 private:
  class LOCKSTEP_HIDDEN Impl;
  explicit AsyncCheckpointer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CHECKPOINTER_H_
