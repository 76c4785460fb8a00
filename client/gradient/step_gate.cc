#include "client/gradient/step_gate.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "client/gradient/disagreement.h"
#include "plan/summary.h"

namespace lockstep::gradient {
namespace {

using kernels::StepRecord;

static_assert(kernels::kRecordWords == plan::kRecordWords);

uint64_t BitOf(int command) {
  return static_cast<uint64_t>(StepRecord::kFirstCommand) << command;
}

StepRecord InputOf(const StepSummary& summary) {
  StepRecord record{.samples = summary.samples,
                    .command_word = summary.word,
                    .inverse_scale = summary.terms.inverse_scale,
                    .max_norm = summary.terms.max_norm.value_or(0),
                    .step_seconds = summary.step_seconds};
  if (summary.more_data) record.flags |= StepRecord::kMoreData;
  if (summary.terms.per_sample) record.flags |= StepRecord::kPerSample;
  if (summary.terms.max_norm) record.flags |= StepRecord::kHasMaxNorm;
  if (summary.holds_next_revision) record.flags |= StepRecord::kHoldsRevision;
  for (int c = 0; c < kCommands; ++c) {
    if (summary.holds_command[c]) record.flags |= BitOf(c);
  }
  return record;
}

StepSummary SummaryOf(const StepRecord& record) {
  const auto has = [&](uint64_t flag) { return (record.flags & flag) != 0; };
  StepSummary summary{.norm_squared = record.norm_squared,
                      .nonfinite = static_cast<int64_t>(record.non_finite),
                      .samples = record.samples,
                      .more_data = has(StepRecord::kMoreData),
                      .terms = {.inverse_scale = record.inverse_scale,
                                .per_sample = has(StepRecord::kPerSample)},
                      .holds_next_revision = has(StepRecord::kHoldsRevision),
                      .word = record.command_word,
                      .step_seconds = record.step_seconds};
  if (has(StepRecord::kHasMaxNorm)) summary.terms.max_norm = record.max_norm;
  for (int c = 0; c < kCommands; ++c) summary.holds_command[c] = has(BitOf(c));
  return summary;
}

std::string Describe(const StepRecord& record) {
  if ((record.flags & StepRecord::kScalesLoss) == 0) {
    return "none on its device";
  }
  const LossScale scale = kernels::LossScaleOf(record);
  return absl::StrFormat("%.9g after %d steps without overflow", scale.scale,
                         scale.steps_without_overflow);
}

// Compares what only devices know of all ranks, whose records are valid: who
// launches, and the loss scales.
absl::Status CompareOnDevice(const kernels::StepEntry& entry, int world) {
  const StepRecord& first = entry.records()[0];
  for (int rank = 1; rank < world; ++rank) {
    const StepRecord& other = entry.records()[rank];
    if (((other.flags ^ first.flags) & StepRecord::kReplay) != 0) {
      return OfAllRanks(absl::AbortedError(absl::StrFormat(
          "step %d: rank %d launches it in a graph of the program "
          "(ReplayedSteps), and rank %d does not",
          entry.step, (other.flags & StepRecord::kReplay) != 0 ? rank : 0,
          (other.flags & StepRecord::kReplay) != 0 ? 0 : rank)));
    }
    if (other.loss_scale != first.loss_scale) {
      return OfAllRanks(absl::AbortedError(absl::StrFormat(
          "step %d: ranks differ in the loss scale: rank 0 has %s, rank %d has "
          "%s; give the same to SetLossScale on every rank",
          entry.step, Describe(first), rank, Describe(other))));
    }
    if (other.loss_scale_rule != first.loss_scale_rule) {
      return OfAllRanks(absl::AbortedError(absl::StrFormat(
          "step %d: the options of the loss scale of rank %d are not those of "
          "rank 0; give the same to ScaleLossOnDevice on every rank",
          entry.step, rank)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<StepGate>> StepGate::Create(
    const Options& options, transport::DeviceContext& compute,
    absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate) {
  std::unique_ptr<StepGate> gate(new StepGate(options));
  const size_t others = static_cast<size_t>(options.world - 1);
  size_t bytes = sizeof(DeviceMemory) + others * sizeof(StepRecord);
  if (kernels::HasTiles(options.world)) {
    bytes += kernels::TilesOf(options.world) * sizeof(kernels::TileSummary);
  }
  auto memory = allocate(bytes);
  if (!memory.ok()) return memory.status();
  gate->memory_ = *std::move(memory);
  auto staging = compute.AllocateStaging(kDepth * sizeof(StepRecord));
  if (!staging.ok()) return staging.status();
  gate->inputs_ = *std::move(staging);
  staging =
      compute.AllocateStaging(kDepth * kernels::StepEntryBytes(options.world));
  if (!staging.ok()) return staging.status();
  gate->journal_ = *std::move(staging);
  auto stop = compute.MakeStopWord();
  if (!stop.ok()) return stop.status();
  gate->stop_ = *std::move(stop);
  if (absl::Status begun = gate->Begin(compute); !begun.ok()) return begun;
  return gate;
}

// The arena's memory is zeroed.
absl::Status StepGate::Begin(transport::DeviceContext& compute) {
  const kernels::StepControl first{.step = options_.first_step};
  absl::Status begun = Put(compute, first, &device().control);
  if (!begun.ok() || !options_.loss_scale) return begun;
  return SetLossScale(compute, options_.loss_scale->first);
}

absl::Status StepGate::SetLossScale(transport::DeviceContext& compute,
                                    const LossScale& scale) {
  return Put(compute, scale, &device().loss_scale);
}

template <typename T>
absl::Status StepGate::Put(transport::DeviceContext& compute, const T& value,
                           T* to) {
  auto staging = compute.AllocateStaging(sizeof value);
  if (!staging.ok()) return staging.status();
  staging->as<T>()[0] = value;
  return compute.Perform(nullptr, [&](KernelQueue& kernel_queue) {
    kernel_queue.Copy(staging->data(), to, sizeof value);
    const absl::Status copied = kernel_queue.status();
    return copied.ok() ? kernel_queue.Done().Wait() : copied;
  });
}

absl::Status StepGate::Probe(transport::DeviceContext& compute,
                             absl::Duration timeout) {
  absl::Status probed =
      compute.Perform(nullptr, [&](KernelQueue& kernel_queue) {
        kernel_queue.Zero(&device().probe, sizeof device().probe);
        const absl::Status zeroed = kernel_queue.status();
        return zeroed.ok() ? kernel_queue.Done().Wait(timeout) : zeroed;
      });
  return absl::IsResourceExhausted(probed) ? absl::OkStatus() : probed;
}

kernels::GateContext StepGate::ContextOf(Revision revision) const {
  kernels::GateContext context{.epoch = options_.epoch.value,
                               .revision = revision.value,
                               .rank = options_.rank,
                               .world = options_.world,
                               .depth = kDepth,
                               .control = &device().control,
                               .stop = stop_->address(),
                               .inputs = inputs_.as<StepRecord>().data(),
                               .journal = journal_.data(),
                               .more_data_min = options_.more_data_min};
  if (options_.loss_scale) {
    context.loss_scale = &device().loss_scale;
    context.loss_scale_rule = options_.loss_scale->rule;
  }
  if (kernels::HasTiles(options_.world)) context.tiles = tiles();
  return context;
}

void StepGate::Seal(uint64_t launch, Revision revision,
                    const StepSummary& summary) {
  StepRecord input = InputOf(summary);
  kernels::SealStepInput(ContextOf(revision), launch, &input);
  inputs_.as<StepRecord>()[launch % kDepth] = input;
}

void StepGate::WriteRecord(KernelQueue& kernel_queue,
                           const kernels::GateContext& context) {
  kernel_queue.WriteStepRecord(context, norm(), own_record());
}

void StepGate::Decide(KernelQueue& kernel_queue,
                      const kernels::GateContext& context,
                      VerdictScalars* scalars) {
  kernel_queue.GateStep(context, own_record(), records(), scalars);
}

// --- Replays -----------------------------------------------------------------

absl::Status StepGate::BeginReplays(transport::DeviceContext& compute,
                                    Revision revision, int ends_below) {
  auto staging = compute.AllocateStaging(sizeof(kernels::ReplayBoard));
  if (!staging.ok()) return staging.status();
  board_ = *std::move(staging);
  staging = compute.AllocateStaging(kDepth * sizeof(StepRecord));
  if (!staging.ok()) return staging.status();
  replay_inputs_ = *std::move(staging);
  replays_revision_ = revision;
  absl::Status begun = Put(compute, static_cast<uint64_t>(ends_below),
                           &device().control.ends_below);
  if (!begun.ok()) return begun;
  return Put(compute, VerdictScalars{.commit = 1, .finite = 1}, keeps());
}

kernels::GateContext StepGate::ReplayContextOf(const StepSummary& usual) const {
  kernels::GateContext context = ContextOf(replays_revision_);
  context.replays = &board();
  context.replay_inputs = replay_inputs_.as<StepRecord>().data();
  context.keeps = &device().keeps;
  context.usual = InputOf(usual);
  kernels::SealStepInput(context, kernels::kUsual, &context.usual);
  return context;
}

absl::Status StepGate::SealReplay(uint64_t replay, const StepSummary& summary) {
  const uint64_t decided = CountReplays().gates;
  if (replay < decided || replay >= decided + kDepth) {
    return absl::OutOfRangeError(
        absl::StrFormat("launch %d: an input can be set for launches %d to %d",
                        replay, decided, decided + kDepth - 1));
  }
  StepRecord input = InputOf(summary);
  kernels::SealStepInput(ContextOf(replays_revision_),
                         kernels::OfReplay(replay), &input);
  kernels::PutStepInput(input,
                        &replay_inputs_.as<StepRecord>()[replay % kDepth]);
  return absl::OkStatus();
}

void StepGate::PostReplays(const StepSummary& held, uint64_t acted,
                           uint64_t saves) {
  StepRecord said = InputOf(held);
  said.flags &= ~uint64_t{StepRecord::kFirstCommand - 1};
  said.acted = acted;
  said.saves = saves;
  kernels::GateContext context = ContextOf(replays_revision_);
  context.replays = &board();
  kernels::PostReplays(context, said);
}

StepSummary StepGate::OwnOf(uint64_t entry, uint64_t* saves) const {
  const StepRecord& own =
      kernels::EntryOf(ContextOf({}), entry)->records()[options_.world];
  *saves = own.saves;
  return SummaryOf(own);
}

// --- What was decided --------------------------------------------------------

void StepGate::ClearLaterScalars(KernelQueue& kernel_queue, uint64_t launch) {
  const auto run_ahead = static_cast<uint64_t>(options_.run_ahead);
  for (uint64_t later = 1; later <= run_ahead + 1; ++later) {
    kernel_queue.Zero(ScalarsOf(launch + later), sizeof(VerdictScalars));
  }
}

bool StepGate::WasBefore(uint64_t launch, int rank,
                         const StepRecord& record) const {
  if (launch == 0) return false;
  const kernels::StepEntry* const before =
      kernels::FindStepEntry(ContextOf({}), launch - 1);
  return before != nullptr && before->records()[rank] == record;
}

std::optional<StepGate::Outcome> StepGate::Find(uint64_t launch,
                                                const StepId& step_id) const {
  const kernels::GateContext context = ContextOf(step_id.revision);
  const kernels::StepEntry* const entry =
      kernels::FindStepEntry(context, launch);
  if (entry == nullptr) return std::nullopt;
  const uint64_t id = kernels::StepRecordId(
      context, {.step = step_id.step, .sequence = entry->gate});
  Outcome decision{
      .passed = entry->outcome == kernels::StepOutcome::kCommitted &&
                entry->step == step_id.step,
      .is_void = entry->outcome == kernels::StepOutcome::kVoid,
      .contributed = entry->contributed != 0};
  const auto world = static_cast<uint64_t>(options_.world);
  if (entry->invalid_rank < world) {
    const auto rank = static_cast<int>(entry->invalid_rank);
    const StepRecord& record = entry->records()[rank];
    decision.invalid_rank = rank;
    decision.out_of_step =
        record.checksum == kernels::ChecksumOf(record, rank) &&
        record.id != id && !WasBefore(launch, rank, record);
    decision.tile_is_damaged = kernels::IsValid(record, rank, id);
    return decision;
  }
  if (!decision.is_void) {
    decision.ranks_differ = CompareOnDevice(*entry, options_.world);
  }
  if (options_.loss_scale) {
    decision.loss_scale = kernels::LossScaleOf(entry->records()[0]);
  }
  // As the gate adds them.
  decision.summaries = kernels::SumInTiles<SummaryVectors>(
      options_.world,
      [&](int rank) {
        return Encode(step_id, SummaryOf(entry->records()[rank]));
      },
      AddTo);
  return decision;
}

}  // namespace lockstep::gradient
