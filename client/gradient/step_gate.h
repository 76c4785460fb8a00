// A rank's step gate: the memory of kernels/step_gate.h for one epoch, and what
// the host does with it.
//
//   host     Seal ─────────────▶ [input]          ┌─▶ [journal] ──▶ Find
//   device   [transfers] WriteRecord ▶ all-gather ▶ Decide ▶ [scalars] ▶ update
//
// The device alone decides whether a step passes. The host learns it from the
// journal, also after an abort: what has been decided is there once the device
// has ended the launch. `Stop` is set before any abort, by whom ever
// (DeviceContext::StopWord), so that no rank contributes a record of a step
// whose gradients an abort may have damaged.
//
// A loss scale on the device is a term of each record (lockstep/loss_scale.h):
// the journal says which one a step used.
//
// A launch is one step, eager or of a graph; launches are numbered from 0 in
// the order in which the device runs them.
//
// Threads: Seal, WriteRecord, Decide and Find by one at a time; Stop by any;
//          SetLossScale while no step is in flight.

#ifndef LOCKSTEP_CLIENT_GRADIENT_STEP_GATE_H_
#define LOCKSTEP_CLIENT_GRADIENT_STEP_GATE_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "client/gradient/step_summary.h"
#include "client/transport/device_context.h"
#include "kernels/gate_tiles.h"
#include "kernels/step_gate.h"
#include "kernels/step_replays.h"
#include "lockstep/arena.h"
#include "protocol/ids.h"

namespace lockstep::gradient {

// A loss scale on the device, and where it begins.
struct DeviceLossScale {
  kernels::LossScaleRule rule;
  LossScale first;
};

class StepGate {
 public:
  using KernelQueue = transport::DeviceContext::KernelQueue;

  struct Options {
    EpochId epoch;
    uint64_t first_step = 0;
    int rank = 0;
    int world = 1;
    int more_data_min = 0;  // GateContext
    int run_ahead = 0;      // at most kDepth - 5
    std::optional<DeviceLossScale> loss_scale = {};
  };

  // Errors of `compute` and of `allocate`, which provides its memory.
  static absl::StatusOr<std::unique_ptr<StepGate>> Create(
      const Options& options, transport::DeviceContext& compute,
      absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate);

  // The steps whose scalars and entries are kept at once.
  static constexpr int kDepth = 32;

  // --- On the device ---

  // The accumulator of norms, which WriteRecord reads and zeroes.
  kernels::FiniteCheck* norm() { return &device().norm; }
  // This rank's record, which WriteRecord writes, and those of all ranks.
  kernels::StepRecord* own_record() { return &device().own; }
  kernels::StepRecord* records() { return device().records; }
  // What kernels read; null: there is none.
  const LossScale* loss_scale() const {
    return options_.loss_scale ? &device().loss_scale : nullptr;
  }
  // Where an eager launch writes its scalars: until launch + kDepth does.
  VerdictScalars* ScalarsOf(uint64_t launch) {
    return &device().scalars[launch % kDepth];
  }

  // --- One launch ---

  // What this rank says of the step, without the norm, which the device adds.
  // Call it before the launch can run.
  void Seal(uint64_t launch, Revision revision, const StepSummary& summary);
  void WriteRecord(KernelQueue& kernel_queue,
                   const kernels::GateContext& context);
  // Behind the all-gather. A graph keeps `scalars`.
  void Decide(KernelQueue& kernel_queue, const kernels::GateContext& context,
              VerdictScalars* scalars);
  // What both need of a launch by the library.
  kernels::GateContext ContextOf(Revision revision) const;
  // Behind Decide of an eager launch: clears the scalars of the launches whose
  // updates may run though their gate does not. A program that does not wait
  // for them finds that it may not update.
  void ClearLaterScalars(KernelQueue& kernel_queue, uint64_t launch);

  // --- What was decided ---

  struct Outcome {
    bool passed = false;
    // Behind a step that ran out of data: nothing changes.
    bool is_void = false;
    // This rank's record was valid: it holds the step's reduced gradients.
    bool contributed = false;
    // The lowest rank whose record was not valid; -1: none.
    int invalid_rank = -1;
    // It is a record, but not of this launch, nor of the one before, which may
    // have been in the buffer: the rank is in another step.
    bool out_of_step = false;
    // The record of invalid_rank is valid, but this device's memory changed
    // behind it: the summary of its tile is not (kernels/gate_tiles.h).
    bool tile_is_damaged = false;
    // The summaries of all ranks, if all were valid.
    SummaryVectors summaries{};
    // Likewise: the loss scale that all ranks have used.
    std::optional<LossScale> loss_scale = {};
    // Ranks have different ones, or different rules; or some launch the step in
    // a graph of their program.
    absl::Status ranks_differ;
  };
  // Call it once the device has ended the launch, or will run nothing more; no
  // value: the gate has not run.
  std::optional<Outcome> Find(uint64_t launch, const StepId& step_id) const;

  // --- Replays: launches by the program (kernels/step_replays.h) ---

  // `revision`: of all replays. Fewer than `ends_below` ranks with more data:
  // later launches are void. With no step in flight. Errors of `compute`.
  absl::Status BeginReplays(transport::DeviceContext& compute,
                            Revision revision, int ends_below);
  // For a graph whose launches say `usual`, unless they have an input.
  kernels::GateContext ReplayContextOf(const StepSummary& usual) const;
  // Where all replays write their scalars: the next one overwrites them.
  VerdictScalars* replay_scalars() { return &device().replay_scalars; }
  // Whether reduced gradients may be kept: as scalars of CommitCopy.
  VerdictScalars* keeps() { return &device().keeps; }
  // What a replay says. OutOfRange if it is decided, or too far ahead.
  absl::Status SealReplay(uint64_t replay, const StepSummary& summary);
  // What all replays say from now on, besides.
  void PostReplays(const StepSummary& held, uint64_t acted, uint64_t saves);
  kernels::ReplayCounts CountReplays() const {
    return kernels::CountReplays(board());
  }
  // Null: there is no such entry yet.
  const kernels::StepEntry* EntryAt(uint64_t entry) const {
    return kernels::FindStepEntry(ContextOf({}), entry);
  }
  // What this rank's record said, and the requests for a save. Of a complete
  // entry.
  StepSummary OwnOf(uint64_t entry, uint64_t* saves) const;
  // The host needs no entry before `entry` any more.
  void NoteRead(uint64_t entry) { kernels::NoteRead(&board(), entry); }

  // For the next launch; on return it is in device memory.
  absl::Status SetLossScale(transport::DeviceContext& compute,
                            const LossScale& scale);

  // Enqueues something. An error of the device, which fails all later calls
  // too; DeadlineExceeded: it has not run it yet. OK also if there was no
  // memory to enqueue it, which says nothing of the device.
  absl::Status Probe(transport::DeviceContext& compute, absl::Duration timeout);

  // The epoch ends: no record that is written from now on is valid.
  void Stop() { stop_->Set(); }
  bool stopped() const { return stop_->is_set(); }

 private:
  struct DeviceMemory {
    kernels::StepControl control;
    kernels::FiniteCheck norm;
    uint64_t probe;
    LossScale loss_scale;
    VerdictScalars scalars[kDepth];
    VerdictScalars replay_scalars;
    VerdictScalars keeps;
    alignas(256) kernels::StepRecord own;
    alignas(256) kernels::StepRecord records[1];  // of each rank
    // Behind them, if there are several tiles: TileSummary of each.
  };

  explicit StepGate(const Options& options) : options_(options) {}
  DeviceMemory& device() const {
    return *reinterpret_cast<DeviceMemory*>(memory_.data());
  }
  kernels::ReplayBoard& board() const {
    return *reinterpret_cast<kernels::ReplayBoard*>(board_.data());
  }
  kernels::TileSummary* tiles() const {
    return reinterpret_cast<kernels::TileSummary*>(device().records +
                                                   options_.world);
  }
  bool WasBefore(uint64_t launch, int rank,
                 const kernels::StepRecord& record) const;
  absl::Status Begin(transport::DeviceContext& compute);
  template <typename T>
  static absl::Status Put(transport::DeviceContext& compute, const T& value,
                          T* to);

  const Options options_;
  ArenaBuffer memory_;         // DeviceMemory
  ArenaBuffer inputs_;         // staging: kDepth records
  ArenaBuffer journal_;        // staging: kDepth entries
  ArenaBuffer board_;          // staging: of replays, once they have begun
  ArenaBuffer replay_inputs_;  // staging: kDepth records, likewise
  Revision replays_revision_;
  std::shared_ptr<transport::DeviceContext::StopWord> stop_;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_STEP_GATE_H_
