// A journal in memory: survives its own object, not the process.
//
//   MemoryStore store;
//   MemoryJournal first(&store);    // a daemon
//   MemoryJournal second(&store);   // the next one, once `first` is destroyed
//
// For a daemon that need not survive a crash, and for tests, which may damage
// the frames. Records are durable before Append returns.

#ifndef LOCKSTEP_SERVER_JOURNAL_MEMORY_JOURNAL_H_
#define LOCKSTEP_SERVER_JOURNAL_MEMORY_JOURNAL_H_

#include <string>
#include <vector>

#include "server/journal/frame.h"
#include "server/journal/journal.h"

namespace lockstep::journal {

// The frames, as a disk would store them.
struct MemoryStore {
  std::vector<std::string> snapshot;
  Chain snapshot_end;               // after the records that it replaces
  std::vector<std::string> frames;  // the records after it
};

class MemoryJournal : public Journal {
 public:
  // `store` must outlive it; one journal at a time uses it.
  explicit MemoryJournal(MemoryStore* store) : store_(*store) {}

  absl::StatusOr<LoadedJournal> Load() override;
  void Append(std::string record, Durable durable) override;
  void Compact(MakeSnapshot make) override;

 private:
  MemoryStore& store_;
  Chain chain_;
  bool loaded_ = false;
};

}  // namespace lockstep::journal

#endif  // LOCKSTEP_SERVER_JOURNAL_MEMORY_JOURNAL_H_
