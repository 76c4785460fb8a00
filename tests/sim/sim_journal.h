// A simulated disk, and the coordinator's journal on it.
//
//   Append    frame 1 2 3 4 5 6 7      written: in the machine's memory
//                   ──sync──▶          one sync at a time; it covers what was
//                   safe: 1 2 3        written before it began (group commit)
//   a crash of the process keeps 1 2 3 4 5 6 7
//   a crash of the machine keeps 1 2 3 and perhaps 4, and perhaps half of 5
//
// Frames, their chain and the treatment of a torn tail are the product's
// (server/journal/frame.h).

#ifndef LOCKSTEP_TESTS_SIM_SIM_JOURNAL_H_
#define LOCKSTEP_TESTS_SIM_SIM_JOURNAL_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "protocol/record.h"
#include "server/journal/frame.h"
#include "server/journal/journal.h"

namespace lockstep::sim {

// What is on the disk of the coordinator's machine. Outlives its processes.
struct SimDisk {
  std::vector<std::string> snapshot;  // replaces all frames before `base`
  journal::Chain base;                // the end of what the snapshot replaces
  std::vector<std::string> frames;
  size_t safe = 0;  // of `frames`: they survive a crash of the machine
  // All records that were ever written, but for those that a crash has lost. No
  // part of the disk: what a restart finds is compared with it.
  std::vector<record::Record> written;

  // Unsynced frames are lost, but for a random number; the last of these may be
  // torn.
  void CrashMachine(std::mt19937_64* random);
};

class SimJournal final : public journal::Journal {
 public:
  // `sync` calls its argument when the disk has done a sync that begins now;
  // never after the journal was destroyed.
  using Sync = std::function<void(std::function<void()> done)>;

  SimJournal(SimDisk* disk, Sync sync) : disk_(disk), sync_(std::move(sync)) {}

  absl::StatusOr<journal::LoadedJournal> Load() override;
  void Append(std::string record, Durable durable) override;
  void Compact(MakeSnapshot make) override;

 private:
  struct Compaction {
    uint64_t through;  // the last record that the snapshot replaces
    MakeSnapshot make;
  };

  void StartSync();
  void Synced(size_t frames);
  void CompactDue();

  SimDisk* const disk_;
  const Sync sync_;
  journal::Chain chain_;
  bool syncing_ = false;
  std::deque<Durable> waiting_;  // of the frames that are not safe
  std::deque<Compaction> compactions_;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_SIM_JOURNAL_H_
