// The mark beside a journal: the newest record that was reported durable.
//
//   commit of 5 and 6:  write the log | fdatasync | write the mark | callbacks
//   crash here leaves:    4, torn 5       4 .. 6         6               6
//                         mark 4          mark 4         mark 4 or 6     mark 6
//
// A commit waits for the disk before it writes the mark, so no crash leaves
// fewer records than the mark says: only records that were never reported can
// be torn. If fewer are there, a file was cut, removed or replaced by an older
// copy, and what the missing records promised is lost.
//
// A commit does not wait until its mark is on the disk: after a power failure
// the mark may be older, and then proves less. It exists durably before the
// database does.
//
// Threads: one at a time.

#ifndef LOCKSTEP_SERVER_JOURNAL_DURABLE_MARK_H_
#define LOCKSTEP_SERVER_JOURNAL_DURABLE_MARK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_descriptor.h"
#include "base/file_system.h"
#include "server/journal/frame.h"
#include "server/journal/wal_check.h"

namespace lockstep::journal {

struct DurableMark {
  bool exists = false;
  Chain newest;             // number 0: no record, or the mark is damaged
  absl::Status unreadable;  // OK, or why it says nothing
};

// An absent or damaged mark is no error.
absl::StatusOr<DurableMark> ReadMark(FileSystem* files,
                                     const std::string& path);

// What was read of a journal in which nothing is damaged.
struct JournalEnd {
  uint64_t last = 0;  // number of the newest record, or of the snapshot
  // The hash of the record of the mark; nullopt: that record is inside the
  // snapshot, or not there.
  std::optional<uint64_t> hash_at_mark;
  std::optional<WalExtent> log;  // nullopt: there is none, or it is empty
};

// DataLoss: records that were reported durable are missing, or are not those of
// the mark, or there is no mark.
absl::Status CompareWithMark(const DurableMark& mark, const JournalEnd& end);

// The mark of a journal that is written.
class MarkFile {
 public:
  // Creates the file, with mode 0600, if it does not exist.
  static absl::StatusOr<MarkFile> Open(const std::string& path);

  // Does not wait for the disk. An error is ignored: an old mark proves less.
  void Write(const Chain& newest);

  // Replaces all of the file, whatever its length, and waits for the disk; its
  // name is durable once the folder is synced. ResourceExhausted: no room.
  absl::Status Renew(const Chain& newest);

 private:
  MarkFile(std::string path, FileDescriptor fd)
      : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  FileDescriptor fd_;
};

}  // namespace lockstep::journal

#endif  // LOCKSTEP_SERVER_JOURNAL_DURABLE_MARK_H_
