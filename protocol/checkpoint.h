// Checkpoints: what ranks report, and what the coordinator answers.
//
//   rank 0        every rank                 coordinator
//   nonce ────────────────────────────────▶
//                 ◀──────────────────────── nonce, first attempt, newest
//                 reads the nonce's file ─▶
//                 ◀──────────────────────── opened: all can, or who cannot
//   Save 1        writes ─────────────────▶ progress
//                 written (part's hash) ──▶ of all ranks: journals Prepared
//   one rank      ◀──────────────────────── prepared: the hashes of all parts
//                 manifest ───────────────▶ journals Committed
//                 ◀──────────────────────── outcome of save 1
//
// Each rank's part is a file beside its tensors, which lists them: the member
// that writes the manifest joins the parts. The coordinator sees their hashes
// only, and so needs memory and records that do not grow with the model.
//
// Both messages are states, not events: the newest replaces the earlier ones,
// so a new stream repeats the newest, and nothing else. From the newest reports
// of all ranks a coordinator that has forgotten everything goes on.

#ifndef LOCKSTEP_PROTOCOL_CHECKPOINT_H_
#define LOCKSTEP_PROTOCOL_CHECKPOINT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/checkpoint_name.h"

namespace lockstep::protocol {

// What rank 0 found in the directory and wrote there.
struct CheckpointDirectory {
  std::string path;  // as rank 0 sees it, for people
  // 32 hexadecimal digits, others for each opening; if rank 0 failed, the first
  // 16 are zeros.
  std::string nonce;
  // Larger than the number of any attempt in the directory. Save 1 of this
  // epoch has it, save k has k - 1 more.
  int64_t first_attempt = 1;
  std::optional<CheckpointName> newest;  // committed
  bool operator==(const CheckpointDirectory&) const = default;
};

// A save as a rank sees it. Saves of an epoch are numbered 1, 2, 3...; a rank
// begins the next one after the outcome of the one before.
struct CheckpointSave {
  enum class Stage : uint8_t {
    kWriting = 1,
    kWritten = 2,  // this rank's files and its part are durable
    kFailed = 3,   // on this rank: `error`
  };
  uint64_t number = 0;
  int64_t step = 0;
  Stage stage = Stage::kWriting;
  uint64_t bytes_done = 0;
  uint64_t bytes_total = 0;
  std::string part_hash;  // kWritten: 32 hexadecimal digits
  absl::Status error;     // kFailed
  // The member that was told `prepared`: the manifest is durable (OK), or could
  // not be written.
  std::optional<absl::Status> committed;
  bool operator==(const CheckpointSave&) const = default;
};

// A rank, and what is wrong there.
struct CheckpointFault {
  int rank = 0;
  absl::Status error;
  bool operator==(const CheckpointFault&) const = default;
};
inline constexpr int kCheckpointFaultsMax = 16;
// Longer messages of errors are cut when they are sent.
inline constexpr int kCheckpointErrorBytesMax = 4096;

// From a rank: all that the coordinator must know about it. A rank sends an
// empty one when it begins to open the directory: it waits for rank 0 then. So
// it does when it opens a directory again, after an opening that failed: that
// one begins once all ranks have.
struct CheckpointReport {
  // Sent by rank 0; with `access` by other ranks: the one that they have tried.
  std::optional<CheckpointDirectory> directory;
  // Whether this rank can read the nonce; nullopt: it has not tried yet.
  std::optional<absl::Status> access;
  std::optional<CheckpointSave> save;  // the newest
  // As in the rank's newest CheckpointNews, for a coordinator that has
  // forgotten it. The session sets these fields.
  uint64_t decided = 0;
  std::vector<CheckpointFault> faults;
  int faults_more = 0;
  bool operator==(const CheckpointReport&) const = default;
};

// To the member that writes the manifest of a save.
struct CheckpointPrepared {
  uint64_t number = 0;
  std::vector<std::string> part_hashes;  // by rank; empty: it has written none
  bool operator==(const CheckpointPrepared&) const = default;
};

// To a rank: all that it must know.
struct CheckpointNews {
  std::optional<CheckpointDirectory> directory;
  bool opened = false;  // all ranks have tried to read the nonce
  // Once opened: empty if all ranks can read it. The first
  // ones by rank.
  std::vector<CheckpointFault> access_faults;
  int access_faults_more = 0;
  // The newest save with an outcome; 0: none.
  uint64_t decided = 0;
  std::vector<CheckpointFault> faults;  // of that save; empty: it is committed
  int faults_more = 0;
  std::optional<CheckpointPrepared> prepared;
  bool operator==(const CheckpointNews&) const = default;
};

}  // namespace lockstep::protocol

#endif  // LOCKSTEP_PROTOCOL_CHECKPOINT_H_
