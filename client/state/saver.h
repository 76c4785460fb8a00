// The engine of AsyncCheckpointer (lockstep/checkpointer.h), over a channel to
// the coordinator and a file system: opens the directory, takes snapshots,
// writes them in the background, and loads.
//
//   caller    Save ─copy─▶ returns                Save waits, or Wait
//                    │                             ▲
//   ls-save          └▶ files, part ─▶ report ─▶ outcome ─▶ old ones removed
//                                        ▲│
//   channel                       prepared└▶ manifest, if this member is told
//
// Threads: one caller; progress() and newest() from any thread. The thread
//          ls-save, which starts with the first Save, writes; it waits for
//          files and for the channel.
// Ownership: what Open is given must outlive it; so must the memory of the
//          job's parts, which is read in Save and written in Load.
// Errors:  lockstep/checkpointer.h.

#ifndef LOCKSTEP_CLIENT_STATE_SAVER_H_
#define LOCKSTEP_CLIENT_STATE_SAVER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/file_system.h"
#include "base/mutex.h"
#include "client/checkpoint/directory.h"
#include "client/checkpoint/tensor_files.h"
#include "client/session/checkpoint_channel.h"
#include "client/state/checkpoint_job.h"
#include "client/state/snapshot.h"
#include "client/transport/device_context.h"
#include "lockstep/checkpointer.h"

namespace lockstep::state {

struct SaverOptions {
  std::string directory;
  checkpoint::Retention retention = {.keep_last = 2};
  // File systems of several hosts may show rank 0's file late.
  absl::Duration nonce_patience = absl::Seconds(10);
  uint64_t file_bytes_max = checkpoint::kFileBytesMax;
};

class Saver {
 public:
  // What it works with.
  struct Context {
    FileSystem* files = nullptr;
    session::CheckpointChannel* channel = nullptr;
    transport::DeviceContext* device = nullptr;
    // The nonce of the last directory that this session has opened, or tried
    // to; empty before that. Open sets it.
    std::string* last_nonce = nullptr;
  };

  // All ranks call it. An error in `ready` is this rank's, which cannot use the
  // directory: it is returned here, and all ranks learn it. After an error all
  // ranks may call it again, for this directory or another one.
  static absl::StatusOr<std::unique_ptr<Saver>> Open(
      CheckpointJob job, const Context& context, const SaverOptions& options,
      const absl::Status& ready = absl::OkStatus());
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // `stream`: null for none.
  absl::Status Save(const TrainingState& training, Stream* stream);
  absl::Status Wait();
  // Blocks as Wait does; Wait or Save still returns the error.
  void AwaitOutcomes();
  std::optional<CheckpointName> newest() const;
  absl::StatusOr<TrainingState> Load(const LoadCheckpointOptions& options);
  SaveProgress progress() const;

 private:
  // A save from the call to its outcome.
  struct SaveTask {
    uint64_t number = 0;
    CheckpointName attempt;
    TrainingState training;
    absl::Status refused;  // by Save, which has returned it
  };

  Saver(CheckpointJob job, const Context& context, const SaverOptions& options);

  // Open.
  void OpenAsRankZero(const absl::Status& ready);
  absl::Status AwaitNonce(const protocol::CheckpointDirectory& found);
  absl::Status Agree(const absl::Status& ready);

  // OK as long as the session is not over.
  absl::Status SessionStatus();
  void AwaitIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // On ls-save.
  void Run();
  // The outcome; `decided`: it is known, and not only that the session ended.
  absl::Status Perform(const SaveTask& task, bool* decided);
  absl::StatusOr<std::string> Write(const SaveTask& task);
  void ReportProgress(uint64_t bytes_done);
  absl::Status AwaitOutcome(const SaveTask& task, bool* decided);
  void CommitFor(const SaveTask& task,
                 const protocol::CheckpointPrepared& told);
  void CleanUp(const SaveTask& task, bool saved);

  const CheckpointJob job_;
  const Context context_;
  const SaverOptions options_;
  std::unique_ptr<FileLock> lock_;  // rank 0's
  int64_t first_attempt_ = 1;
  Snapshot snapshot_;
  uint64_t number_ = 0;  // of the last save

  // Used by Open, then by ls-save.
  protocol::CheckpointReport report_;
  absl::Time reported_ = absl::InfinitePast();

  mutable Mutex mutex_;
  CondVar changed_;
  std::optional<SaveTask> task_ ABSL_GUARDED_BY(mutex_);  // in progress
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status unreturned_ ABSL_GUARDED_BY(mutex_);
  std::optional<CheckpointName> newest_ ABSL_GUARDED_BY(mutex_);
  SaveProgress progress_ ABSL_GUARDED_BY(mutex_);
  absl::Time began_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // ls-save
};

}  // namespace lockstep::state

#endif  // LOCKSTEP_CLIENT_STATE_SAVER_H_
