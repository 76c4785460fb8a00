// The journal's frames in etcd, for coordinators of which one leads.
//
//   PREFIX/leader                        leadership.h
//   PREFIX/term-base                     likewise; an operator writes it
//   PREFIX/format                        the version of this format
//   PREFIX/head                          the newest record that was promised: a
//                                        frame with its number and hash alone
//   PREFIX/record/NUMBER/CHUNK           one frame, in chunks of 512 KiB
//   PREFIX/snapshot                      the number of the newest snapshot
//   PREFIX/snapshot/NUMBER/INDEX/CHUNK   its frames, likewise
//
// NUMBER, INDEX and CHUNK have leading zeros: keys are in the order of frames.
//
// Every transaction compares the leader's key: a coordinator that does not lead
// any more writes nothing. A transaction whose answer was lost is made again;
// it writes the same. What does not fit into one transaction is written in
// several, in order: a record of which the last chunks are missing was never
// promised, and is dropped like a torn tail. The last transaction of records
// writes the head: records that are missing at the end are noticed.
//
// etcd keeps old values of keys until it is compacted: run it with
// --auto-compaction-retention (docs/high-availability.md).
//
// Threads: one at a time.
// Errors:  as store.h; DataLoss also for a key that is gone.
// FailedPrecondition: another coordinator leads, or a newer
//          version wrote the journal. Cancelled: this one goes down.
//          Unavailable only by what reads.

#ifndef LOCKSTEP_SERVER_ETCD_ETCD_STORE_H_
#define LOCKSTEP_SERVER_ETCD_ETCD_STORE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/etcd/client.h"
#include "server/journal/store.h"

namespace lockstep::etcd {

inline constexpr size_t kChunkBytesMax = 512 << 10;

class EtcdStore final : public journal::Store {
 public:
  // `prefix` without a slash at its end. `client` outlives the store.
  EtcdStore(Client* client, std::string prefix, Fence fence)
      : client_(client), prefix_(std::move(prefix)), fence_(std::move(fence)) {}

  absl::StatusOr<journal::StoredJournal> Read() override;
  absl::Status Append(uint64_t first, const std::vector<std::string>& frames,
                      const journal::Chain& end) override;
  absl::Status ReplaceBySnapshot(
      const journal::Chain& of, const std::vector<std::string>& parts) override;

 private:
  // A frame with its key, without the chunk.
  using Frames = std::vector<std::pair<std::string, std::string>>;

  absl::StatusOr<journal::StoredJournal> Damaged(absl::Status damage);
  absl::Status CheckFormat();
  absl::Status CheckNoRest();
  // DataLoss: records up to the head are missing, or are others.
  absl::Status CheckHead(const journal::StoredJournal& stored,
                         const std::vector<std::string>& records);
  // The number of the newest; empty if there is none.
  absl::StatusOr<std::string> NewestSnapshot();
  absl::StatusOr<std::vector<KeyValue>> ReadAll(const std::string& prefix);
  absl::StatusOr<Frames> ReadFrames(const std::string& prefix);
  // `last` is the key behind which they are written, then the last of them. The
  // last transaction also writes `with`.
  absl::Status Write(const Frames& frames, std::string* last,
                     const std::vector<KeyValue>& with = {});
  absl::Status Commit(const std::vector<KeyRange>& deletes,
                      std::vector<KeyValue> puts,
                      const std::string& behind = "");
  std::string KeyOf(const std::string& name) const;

  Client* const client_;
  const std::string prefix_;
  const Fence fence_;
  int64_t turn_ = 0;  // Transaction::turn of the next one
  std::string last_;  // the key that was written last, or read
};

}  // namespace lockstep::etcd

#endif  // LOCKSTEP_SERVER_ETCD_ETCD_STORE_H_
