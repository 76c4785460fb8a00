// When the journal's records are replaced by a snapshot.
//
//   bytes of records  ──┐                      ┌──▶ snapshot
//   since the last      │    grow past         │
//   snapshot            └──  max(1 MiB, twice the last snapshot)
//
// So a journal has at most three times the bytes of its state, or 1 MiB, and
// each byte of a record is written again at most once on average.
//
// Threads: values; the coordinator's loop owns the only instance.

#ifndef LOCKSTEP_SERVER_RUNTIME_COMPACTION_H_
#define LOCKSTEP_SERVER_RUNTIME_COMPACTION_H_

#include <algorithm>
#include <cstddef>

namespace lockstep::runtime {

class CompactionRule {
 public:
  static constexpr size_t kBytesMin = 1 << 20;

  void Appended(size_t bytes) { since_ += bytes; }

  // Whether to make a snapshot now; then counts from anew. No further one is
  // due before Made.
  bool TakeDue() {
    if (making_ || since_ <= std::max(kBytesMin, 2 * last_)) return false;
    since_ = 0;
    making_ = true;
    return true;
  }

  // The snapshot has this size.
  void Made(size_t bytes) {
    last_ = bytes;
    making_ = false;
  }

 private:
  size_t since_ = 0;
  size_t last_ = 0;
  bool making_ = false;
};

}  // namespace lockstep::runtime

#endif  // LOCKSTEP_SERVER_RUNTIME_COMPACTION_H_
