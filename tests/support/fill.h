// Fills every field of the protocol's messages and records: at random, or with
// fixed values for examples.
//
//   RandomSource source(seed);
//   auto hello = Filled<protocol::Hello>(source);
//
// The lists of fields are structured bindings: a field that is added to a
// message and not here does not compile. The values are well-formed for the
// codec, but not necessarily sensible.

#ifndef LOCKSTEP_TESTS_SUPPORT_FILL_H_
#define LOCKSTEP_TESTS_SUPPORT_FILL_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "plan/ir.h"
#include "protocol/job_view.h"
#include "protocol/limit_use.h"
#include "protocol/protocol.h"
#include "protocol/record.h"
#include "protocol/snapshot.h"

namespace lockstep::fill {

// The source of values.
class Source {
 public:
  virtual ~Source() = default;
  // Begins a new value.
  virtual void Begin() {}
  virtual uint64_t Number(uint64_t max) = 0;  // in [0, max]
  virtual std::string Text() = 0;
  virtual bool Bool() = 0;
  virtual int Count() = 0;  // the number of a list's entries, at most 3
};

// Random values, often the extremes.
class RandomSource final : public Source {
 public:
  explicit RandomSource(uint64_t seed) : random_(seed) {}
  uint64_t Number(uint64_t max) override {
    const uint64_t kind = random_() % 4;
    if (kind == 0) return 0;
    if (kind == 1) return max;
    const uint64_t some = kind == 2 ? random_() % 100 : random_();
    return max == UINT64_MAX ? some : some % (max + 1);
  }
  std::string Text() override {
    static const char* const kTexts[] = {"", "a", "worker-10", "größe 重み",
                                         "layers.7.weight"};
    if (random_() % 8 == 0) return std::string(random_() % 300, 'x');
    return kTexts[random_() % 5];
  }
  bool Bool() override { return random_() % 2 == 0; }
  int Count() override { return static_cast<int>(random_() % 4); }

 private:
  std::mt19937_64 random_;
};

// Sets every field to a number of its own: 1, 2, 3, ... from each Begin.
class ExampleSource final : public Source {
 public:
  void Begin() override { next_ = 0; }
  uint64_t Number(uint64_t max) override {
    return std::min(max, ++next_ % (max == UINT64_MAX ? max : max + 1));
  }
  std::string Text() override { return absl::StrCat("text-", ++next_); }
  bool Bool() override { return true; }
  int Count() override { return 2; }

 private:
  uint64_t next_ = 0;
};

// --- Simple values ----------------------------------------------------------

inline void Fill(Source& s, std::string& v) { v = s.Text(); }
inline void Fill(Source& s, bool& v) { v = s.Bool(); }
inline void Fill(Source& s, int& v) {
  v = static_cast<int>(s.Number(INT32_MAX));
}
inline void Fill(Source& s, uint32_t& v) {
  v = static_cast<uint32_t>(s.Number(UINT32_MAX));
}
inline void Fill(Source& s, int64_t& v) {
  v = static_cast<int64_t>(s.Number(INT64_MAX));
}
inline void Fill(Source& s, uint64_t& v) { v = s.Number(UINT64_MAX); }
inline void Fill(Source& s, double& v) {
  v = static_cast<double>(s.Number(1'000'000)) / 1024;
}
inline void Fill(Source& s, absl::Duration& v) {
  v = absl::Nanoseconds(static_cast<int64_t>(s.Number(INT64_MAX)));
  if (s.Number(99) == 7) v = absl::InfiniteDuration();
}
template <typename Tag, typename Rep>
void Fill(Source& s, Id<Tag, Rep>& v) {
  Fill(s, v.value);
}

template <typename E>
void FillEnum(Source& s, E last, E& v) {
  v = static_cast<E>(1 + s.Number(static_cast<uint64_t>(last) - 1));
}
inline void Fill(Source& s, DType& v) { FillEnum(s, DType::kF64, v); }
inline void Fill(Source& s, ReduceOp& v) { FillEnum(s, ReduceOp::kProd, v); }
inline void Fill(Source& s, SyncMode& v) {
  FillEnum(s, SyncMode::kReduceScatter, v);
}
inline void Fill(Source& s, DataPlane& v) {
  FillEnum(s, DataPlane::kTrusted, v);
}
inline void Fill(Source& s, OnStuck& v) { FillEnum(s, OnStuck::kEvict, v); }
inline void Fill(Source& s, OnUnsubmitted& v) {
  FillEnum(s, OnUnsubmitted::kIgnore, v);
}
inline void Fill(Source& s, Rebuild& v) { FillEnum(s, Rebuild::kOnDemand, v); }
inline void Fill(Source& s, Command& v) { FillEnum(s, Command::kDrain, v); }
inline void Fill(Source& s, Uneven& v) { FillEnum(s, Uneven::kStop, v); }
inline void Fill(Source& s, Overlap& v) { FillEnum(s, Overlap::kThread, v); }
inline void Fill(Source& s, absl::StatusCode& v) {
  FillEnum(s, absl::StatusCode::kUnauthenticated, v);
}
inline void Fill(Source& s, protocol::Phase& v) {
  using enum protocol::Phase;  // 4 is not a phase
  constexpr protocol::Phase kAll[] = {kIdle, kCompute, kTransfer, kVerdict};
  v = kAll[s.Number(std::size(kAll) - 1)];
}
inline void Fill(Source& s, protocol::CauseKind& v) {
  v = static_cast<protocol::CauseKind>(
      s.Number(static_cast<uint64_t>(protocol::CauseKind::kGrown)));
}
inline void Fill(Source& s, protocol::EvidenceKind& v) {
  FillEnum(s, protocol::EvidenceKind::kSocketClosed, v);
}
inline void Fill(Source& s, plan::LaneKind& v) {
  FillEnum(s, plan::LaneKind::kVerdict, v);
}
inline void Fill(Source& s, plan::TransferKind& v) {
  FillEnum(s, plan::TransferKind::kAllReducePairs, v);
}
inline void Fill(Source& s, plan::LocalKind& v) {
  FillEnum(s, plan::LocalKind::kReadSummary, v);
}
inline void Fill(Source& s, plan::Work& v) {
  FillEnum(s, plan::Work::kBackwardWeight, v);
}
inline void Fill(Source& s, HaloEdge& v) { FillEnum(s, HaloEdge::kNone, v); }
inline void Fill(Source& s, PipelineSchedule& v) {
  FillEnum(s, PipelineSchedule::kZbV, v);
}
inline void Fill(Source& s, PipelineTags& v) {
  FillEnum(s, PipelineTags::kPaired, v);
}
inline void Fill(Source& s, JobState& v) { FillEnum(s, JobState::kStopped, v); }
inline void Fill(Source& s, WorkerState& v) {
  FillEnum(s, WorkerState::kWaiting, v);
}
inline void Fill(Source& s, record::JobOutcome& v) {
  FillEnum(s, record::JobOutcome::kStopped, v);
}

inline void FillShape(Source& s, std::vector<int64_t>& v) {
  v.resize(s.Count());
  for (int64_t& size : v) size = static_cast<int64_t>(s.Number(1 << 19));
}
// A session's secret: at most 64 bytes.
inline void FillSecret(Source& s, std::string& v) {
  v = s.Text().substr(0, 64);
}
// A number or, one time in four, "none".
inline void FillIndex(Source& s, int& v) {
  Fill(s, v);
  if (v % 4 == 3) v = -1;
}

// 32 hexadecimal digits.
inline void FillHash(Source& s, std::string& v) {
  constexpr char kDigits[] = "0123456789abcdef";
  v.clear();
  while (v.size() < 32) v += kDigits[s.Number(15)];
}
inline void Fill(Source& s, absl::Status& v) {
  absl::StatusCode code;
  Fill(s, code);
  v = absl::Status(code, s.Text());
}
inline void Fill(Source& s, protocol::CheckpointSave::Stage& v) {
  FillEnum(s, protocol::CheckpointSave::Stage::kFailed, v);
}

// --- Lists and options ------------------------------------------------------
// The overloads for messages are found by argument-dependent lookup of Source.

template <typename T>
void Fill(Source& s, std::vector<T>& v);
template <typename T>
void Fill(Source& s, std::optional<T>& v);
template <typename K, typename V>
void Fill(Source& s, std::map<K, V>& v);
template <typename T>
void Fill(Source& s, SharedList<T>& v);

template <typename... Fields>
void All(Source& s, Fields&... fields) {
  (Fill(s, fields), ...);
}

// --- Messages and records ----------------------------------------------------

inline void Fill(Source& s, MeshAxis& v) {
  auto& [name, size] = v;
  All(s, name, size);
  size = std::max(size, 1);
}
inline void Fill(Source& s, Mesh& v) {
  auto& [axes] = v;
  All(s, axes);
}
inline void Fill(Source& s, Parameter& v) {
  auto& [name, shape, dtype, op, axes, replicated_over, stage] = v;
  FillShape(s, shape);
  All(s, name, dtype, op, axes, replicated_over);
  FillIndex(s, stage);
}
inline void Fill(Source& s, BucketPolicy& v) {
  auto& [first_bytes_max, bytes_max, rebuild, wire_dtype, error_feedback,
         windows] = v;
  All(s, first_bytes_max, bytes_max, rebuild, wire_dtype, error_feedback,
      windows);
}
inline void Fill(Source& s, ReproducibleSpec& v) {
  auto& [leaves] = v;
  All(s, leaves);
}
inline void Fill(Source& s, JobTimeouts& v) {
  auto& [join, lease, resume, progress, connect, link] = v;
  All(s, join, lease, resume, progress, connect, link);
}
inline void Fill(Source& s, JobLimits& v) {
  auto& [parameters_max, max_restarts, restart_window, spares] = v;
  All(s, parameters_max, max_restarts, restart_window, spares);
}
inline void Fill(Source& s, ElasticSpec& v) {
  auto& [axis, min_workers, wait] = v;
  All(s, axis, min_workers, wait);
}
inline void Fill(Source& s, TensorType& v) {
  auto& [dtype, shape] = v;
  FillShape(s, shape);
  All(s, dtype);
}
inline void Fill(Source& s, Activation& v) {
  auto& [parts] = v;
  All(s, parts);
}
inline void Fill(Source& s, PipelineSpec& v) {
  auto& [schedule, axis, micro_batches, virtual_stages, activations, tags,
         tag_base, shared] = v;
  All(s, schedule, axis, micro_batches, virtual_stages, activations, tags,
      tag_base, shared);
}
inline void Fill(Source& s, JobSpec& v) {
  auto& [name, mesh, workers, sync, transport, data_plane, buckets,
         reproducible, pipeline, elastic, timeouts, limits, on_stuck,
         on_unsubmitted, uneven, overlap, run_ahead, checked, seed] = v;
  All(s, name, mesh, workers, sync, transport, buckets, reproducible, pipeline,
      elastic, timeouts, limits, on_stuck, on_unsubmitted, uneven, overlap,
      checked, seed, data_plane, run_ahead);
}

inline void Fill(Source& s, protocol::Position& v) {
  auto& [step, phase] = v;
  All(s, step, phase);
}
inline void Fill(Source& s, protocol::ProcessInfo& v) {
  auto& [host, pid, boot_id, start_time] = v;
  All(s, host, pid, boot_id, start_time);
}
inline void Fill(Source& s, protocol::Member& v) {
  auto& [worker, generation, process, watch_address] = v;
  All(s, worker, generation, process, watch_address);
}
inline void Fill(Source& s, protocol::Cause& v) {
  auto& [kind, workers, message] = v;
  All(s, kind, workers, message);
}
inline void Fill(Source& s, protocol::DesiredCommands& v) {
  auto& [commands, reason, number, saves, growths] = v;
  All(s, commands, reason, number, saves, growths);
}
inline void Fill(Source& s, protocol::ResumeState& v) {
  auto& [epoch, revision, plan_digest, position, started, rank, members_digest,
         observed_order, wanted, ended, leaving, first_step, world] = v;
  All(s, epoch, revision, plan_digest, position, started, members_digest,
      observed_order, wanted, ended, leaving, first_step, world);
  FillIndex(s, rank);
}
inline void Fill(Source& s, protocol::Launch& v) {
  auto& [id, nodes, node_rank] = v;
  All(s, id, nodes, node_rank);
  nodes = std::max(nodes, 1);
}
inline void Fill(Source& s, protocol::HeldState& v) {
  auto& [epoch, steps] = v;
  All(s, epoch, steps);
}
inline void Fill(Source& s, protocol::Hello& v) {
  auto& [version, worker, generation, incarnation, spec, token, process, resume,
         secret, launch, held, watch_address] = v;
  version = protocol::kVersion;
  All(s, worker, generation, incarnation, spec, token, process, resume, launch,
      held, watch_address);
  FillSecret(s, secret);
}
inline void Fill(Source& s, TransportFacts& v) {
  auto& [place, in_one, across, in_mixed, decides] = v;
  All(s, place, in_one, across, in_mixed, decides);
}
inline void Fill(Source& s, protocol::AxisGroupDeclaration& v) {
  auto& [axes, index_groups] = v;
  All(s, axes, index_groups);
}
inline void Fill(Source& s, HaloDim& v) {
  auto& [dim, axis, low, high, edge, constant] = v;
  All(s, dim, axis, low, high, edge, constant);
}
inline void Fill(Source& s, HaloTensor& v) {
  auto& [dtype, shape, dims] = v;
  FillShape(s, shape);
  All(s, dtype, dims);
}
inline void Fill(Source& s, HaloSpec& v) {
  auto& [name, tensors] = v;
  All(s, name, tensors);
}
inline void Fill(Source& s, StateCut& v) {
  auto& [dim, axes] = v;
  All(s, dim, axes);
}
inline void Fill(Source& s, StateSlice& v) {
  auto& [offset, count] = v;
  All(s, offset, count);
}
inline void Fill(Source& s, StateSpec& v) {
  auto& [name, dtype, shape, cuts, slice, sliced_like] = v;
  FillShape(s, shape);
  All(s, name, dtype, cuts, slice, sliced_like);
  if (dtype == DType::kC128) dtype = DType::kC64;
}
inline void Fill(Source& s, protocol::RegisterChunk& v) {
  auto& [index, last, parameters, states, transport, groups, halos] = v;
  All(s, index, last, parameters, states, transport, groups, halos);
}
inline void Fill(Source& s, protocol::PlanAck& v) {
  auto& [revision, digest] = v;
  All(s, revision, digest);
}
inline void Fill(Source& s, protocol::GroupHandle& v) {
  auto& [communicator, handle] = v;
  All(s, communicator, handle);
}
inline void Fill(Source& s, protocol::PublishHandles& v) {
  auto& [handles] = v;
  All(s, handles);
}
inline void Fill(Source& s, protocol::GroupTransport& v) {
  auto& [communicator, transport] = v;
  All(s, communicator, transport);
}
inline void Fill(Source& s, protocol::Connected& v) {
  auto& [groups] = v;
  All(s, groups);
}
inline void Fill(Source& s, protocol::ParameterNames& v) {
  auto& [count, names] = v;
  All(s, count, names);
  count = static_cast<uint32_t>(names.size());  // none has no names
}
inline void Fill(Source& s, protocol::GroupProgress& v) {
  auto& [communicator, calls, completed, call] = v;
  All(s, communicator, calls, completed, call);
}
inline void Fill(Source& s, protocol::Progress& v) {
  auto& [position, submitted, missing, step_seconds, exposed_seconds, overlap,
         revision, paused, memory, unsubmitted_by_all, unsubmitted_here, task,
         awaits, withdrawn, groups] = v;
  All(s, position, submitted, missing, step_seconds, exposed_seconds, overlap,
      revision, paused, memory, unsubmitted_by_all, unsubmitted_here, task,
      awaits, withdrawn, groups);
}
inline void Fill(Source& s, protocol::ValueDigests& v) {
  auto& [parameters, digests] = v;
  All(s, parameters);
  digests.resize(parameters.size());
  for (uint64_t& digest : digests) Fill(s, digest);
}
inline void Fill(Source& s, CheckpointName& v) {
  auto& [step, epoch, attempt] = v;
  All(s, step, epoch, attempt);
}
inline void Fill(Source& s, protocol::CheckpointDirectory& v) {
  auto& [path, nonce, first_attempt, newest] = v;
  All(s, path, first_attempt, newest);
  FillHash(s, nonce);
}
inline void Fill(Source& s, protocol::CheckpointSave& v) {
  auto& [number, step, stage, bytes_done, bytes_total, part_hash, error,
         committed] = v;
  All(s, number, step, stage, bytes_done, bytes_total, error, committed);
  number = std::max<uint64_t>(number, 1);
  FillHash(s, part_hash);
}
inline void Fill(Source& s, protocol::CheckpointFault& v) {
  auto& [rank, error] = v;
  All(s, rank, error);
}
inline void Fill(Source& s, protocol::CheckpointReport& v) {
  auto& [directory, access, save, decided, faults, faults_more] = v;
  All(s, directory, access, save, decided, faults, faults_more);
}
inline void FillPartHashes(Source& s, std::vector<std::string>& v) {
  v.resize(s.Count());
  for (std::string& hash : v) FillHash(s, hash);
}
inline void Fill(Source& s, protocol::CheckpointPrepared& v) {
  auto& [number, part_hashes] = v;
  All(s, number);
  FillPartHashes(s, part_hashes);
}
inline void Fill(Source& s, protocol::CheckpointNews& v) {
  auto& [directory, opened, access_faults, access_faults_more, decided, faults,
         faults_more, prepared] = v;
  All(s, directory, opened, access_faults, access_faults_more, decided, faults,
      faults_more, prepared);
}
inline void Fill(Source& s, CheckpointView& v) {
  auto& [committed, committed_ago, saving, saving_step, bytes_done, bytes_total,
         saving_for, failure, failed_step, failed_ago] = v;
  All(s, committed, committed_ago, saving, saving_step, bytes_done, bytes_total,
      saving_for, failure, failed_step, failed_ago);
}
inline void Fill(Source& s, record::SavePrepared& v) {
  auto& [epoch, number, name, part_hashes] = v;
  All(s, epoch, number, name);
  FillPartHashes(s, part_hashes);
}
inline void Fill(Source& s, record::SaveCommitted& v) {
  auto& [epoch, number, name] = v;
  All(s, epoch, number, name);
}
// Ranks ascend.
inline void FillRanks(Source& s, std::vector<uint32_t>& ranks) {
  Fill(s, ranks);
  uint32_t next = 0;
  for (uint32_t& rank : ranks) rank = next += rank % 1000 + 1;
}
inline void Fill(Source& s, protocol::RecoveryDecision& v) {
  auto& [steps, verdict, holders] = v;
  All(s, steps, verdict);
  FillRanks(s, holders);
}
inline void Fill(Source& s, record::RecoveryDecided& v) {
  auto& [epoch, decision] = v;
  All(s, epoch, decision);
}
inline void Fill(Source& s, protocol::Warning& v) {
  auto& [text] = v;
  All(s, text);
}
inline void Fill(Source&, protocol::Heartbeat&) {}
inline void Fill(Source& s, protocol::Busy& v) {
  auto& [reason, max] = v;
  All(s, reason, max);
}
inline void Fill(Source& s, protocol::Evidence& v) {
  auto& [subject, generation, kind, detail, process] = v;
  All(s, subject, generation, kind, detail, process);
}
inline void Fill(Source& s, protocol::LocalFailure& v) {
  auto& [step, call, code, message] = v;
  All(s, step, call, code, message);
}
inline void Fill(Source& s, protocol::EpochReport& v) {
  auto& [position, verdict, holds_state, grows] = v;
  All(s, position, verdict, holds_state, grows);
}
inline void Fill(Source& s, protocol::Leave& v) {
  auto& [clean, steps, verdict, reason, command, returns] = v;
  All(s, clean, steps, verdict, reason, command, returns);
}
inline void Fill(Source& s, protocol::ReadyOrder& v) {
  auto& [revision, parameters] = v;
  All(s, revision, parameters);
}
inline void Fill(Source& s, protocol::Announce& v) {
  auto& [pass, parameters] = v;
  All(s, pass, parameters);
}
inline void Fill(Source& s, protocol::Submitted& v) {
  auto& [pass, parameters] = v;
  All(s, pass, parameters);
}
inline void Fill(Source& s, protocol::Decision& v) {
  auto& [pass, parameter, announcers] = v;
  All(s, pass, parameter, announcers);
}
inline void Fill(Source& s, protocol::Held& v) {
  auto& [first, decisions] = v;
  All(s, first, decisions);
}
inline void Fill(Source& s, protocol::PlanWanted& v) {
  auto& [digest] = v;
  All(s, digest);
}
inline void Fill(Source& s, protocol::PlanPart& v) {
  auto& [digest, total_bytes, offset, data] = v;
  All(s, digest, total_bytes, offset, data);
}
inline void Fill(Source&, protocol::RegistrationWanted&) {}
inline void Fill(Source& s, protocol::OrderWanted& v) {
  auto& [revision] = v;
  All(s, revision);
}
inline void Fill(Source& s, protocol::Decide& v) {
  auto& [first, decisions] = v;
  All(s, first, decisions);
}
inline void Fill(Source& s, protocol::Welcome& v) {
  auto& [generation, spec, resumed, secret] = v;
  All(s, generation, spec, resumed);
  FillSecret(s, secret);
}
inline void Fill(Source& s, protocol::Refused& v) {
  auto& [code, message] = v;
  All(s, code, message);
}
inline void Fill(Source& s, protocol::EpochFormed& v) {
  auto& [rank, members, first_step, holders, previous_world] = v;
  std::vector<protocol::Member> some;
  Fill(s, some);
  if (some.empty()) some.emplace_back();
  members = some;
  All(s, rank, first_step, previous_world);
  FillRanks(s, holders);
  rank = std::min(rank, static_cast<int>(members.size()) - 1);
}
inline void Fill(Source& s, protocol::PlanReady& v) {
  auto& [revision, digest] = v;
  All(s, revision, digest);
}
inline void Fill(Source& s, protocol::GroupHandles& v) {
  auto& [communicator, handles, first, more] = v;
  std::vector<std::string> some;
  All(s, communicator, some, first, more);
  handles = some;
}
inline void Fill(Source&, protocol::Start&) {}
inline void Fill(Source& s, protocol::EpochEnded& v) {
  auto& [cause, final] = v;
  All(s, cause, final);
}
inline void Fill(Source&, protocol::Left&) {}

inline void Fill(Source& s, record::JobCreated& v) {
  auto& [spec, token_hash] = v;
  All(s, spec, token_hash);
}
inline void Fill(Source& s, record::GenerationAssigned& v) {
  auto& [worker, generation, incarnation, secret_hash] = v;
  All(s, worker, generation, incarnation, secret_hash);
}
inline void Fill(Source& s, record::EpochBegan& v) {
  auto& [epoch, members, first_step, holders, holders_world] = v;
  All(s, epoch, members, first_step, holders_world);
  FillRanks(s, holders);
}
inline void Fill(Source& s, record::PlanImage& v) {
  auto& [bytes, sha256] = v;
  All(s, bytes, sha256);
}
inline void Fill(Source& s, record::PlanAdopted& v) {
  auto& [epoch, revision, digest, observed_order, image] = v;
  All(s, epoch, revision, digest, observed_order, image);
}
inline void Fill(Source& s, record::EpochFinished& v) {
  auto& [epoch, cause, steps, unfinished] = v;
  All(s, epoch, cause, steps, unfinished);
}
inline void Fill(Source& s, record::WorkerLeft& v) {
  auto& [epoch, worker, steps, verdict, command] = v;
  All(s, epoch, worker, steps, verdict, command);
}
inline void Fill(Source& s, record::CommandsWanted& v) {
  auto& [wanted] = v;
  All(s, wanted);
}
inline void Fill(Source& s, record::JobArchived& v) {
  auto& [as] = v;
  All(s, as);
}
inline void Fill(Source&, record::JobDeleted&) {}
inline void Fill(Source& s, record::AdoptedMember& v) {
  auto& [member, incarnation, secret_hash] = v;
  All(s, member, incarnation, secret_hash);
}
inline void Fill(Source& s, record::JobAdopted& v) {
  auto& [spec, token_hash, epoch, members, revision, digest, observed_order,
         wanted, first_step] = v;
  All(s, spec, token_hash, epoch, members, revision, digest, observed_order,
      wanted, first_step);
}
inline void Fill(Source& s, record::JobEnded& v) {
  auto& [outcome, cause] = v;
  All(s, outcome, cause);
}

inline void Fill(Source& s, plan::CommunicatorSpec& v) {
  auto& [name, ranks] = v;
  All(s, name, ranks);
}
inline void Fill(Source& s, plan::Slot& v) {
  auto& [parameter, offset, count] = v;
  All(s, parameter, offset, count);
}
inline void Fill(Source& s, plan::Bucket& v) {
  auto& [communicator, dtype, op, slots, flags_offset, total, wire,
         error_feedback, sharded, leaves, announced] = v;
  All(s, communicator, dtype, op, slots, flags_offset, total, wire,
      error_feedback, sharded, leaves, announced);
}
inline void Fill(Source& s, plan::TransferRef& v) {
  auto& [lane, index] = v;
  All(s, lane, index);
}
inline void FillDivisor(Source& s, int& v) {
  Fill(s, v);
  v = std::max(v, 1);
}
inline void Fill(Source& s, plan::LocalOp& v) {
  auto& [kind, from, to, offset, count, leaf, divisor] = v;
  FillIndex(s, leaf);
  FillDivisor(s, divisor);
  All(s, kind, from, to, offset, count);
}
inline void Fill(Source& s, plan::Transfer& v) {
  auto& [kind, communicator, dtype, shape, op, root, peer, tag, bucket, halo,
         group, after, after_task, buffer, divisor, before, then] = v;
  FillShape(s, shape);
  FillIndex(s, root);
  FillIndex(s, peer);
  FillIndex(s, bucket);
  FillIndex(s, halo);
  FillIndex(s, after_task);
  FillIndex(s, buffer);
  FillDivisor(s, divisor);
  All(s, kind, communicator, dtype, op, tag, group, after, before, then);
}
inline void Fill(Source& s, plan::Task& v) {
  auto& [work, stage, micro_batch, after] = v;
  All(s, work, stage, micro_batch, after);
}
inline void Fill(Source& s, plan::Lane& v) {
  auto& [kind, name, transfers] = v;
  All(s, kind, name, transfers);
}
inline void Fill(Source& s, plan::HaloExtent& v) {
  auto& [axis, bounds, low, high, edge, constant] = v;
  FillIndex(s, axis);
  All(s, bounds, low, high, edge, constant);
}
inline void Fill(Source& s, plan::HaloField& v) {
  auto& [dtype, dims] = v;
  All(s, dtype, dims);
}
inline void Fill(Source& s, plan::Halo& v) {
  auto& [name, mesh, ranks, communicator, fields] = v;
  FillIndex(s, communicator);
  All(s, name, mesh, ranks, fields);
}
inline void Fill(Source& s, plan::HaloSegment& v) {
  auto& [in, out, count, step] = v;
  FillIndex(s, step);
  All(s, in, out, count);
}
inline void Fill(Source& s, plan::HaloBox& v) {
  auto& [field, dims] = v;
  All(s, field, dims);
}
inline void Fill(Source& s, plan::HaloFill& v) {
  auto& [box, value] = v;
  All(s, box, value);
}
inline void Fill(Source& s, plan::HaloMessage& v) {
  auto& [peer, bytes, boxes] = v;
  All(s, peer, bytes, boxes);
}
inline void Fill(Source& s, plan::HaloRoutes& v) {
  auto& [halo, own, fills, sends, receives] = v;
  All(s, halo, own, fills, sends, receives);
}
inline void Fill(Source& s, plan::RankPlan& v) {
  auto& [lanes, launch_order, tasks, halos] = v;
  All(s, lanes, launch_order, tasks, halos);
}
inline void Fill(Source& s, plan::StateDim& v) {
  auto& [axes, bounds] = v;
  All(s, axes, bounds);
  // One bound stands for even blocks (proto/codec_state.h).
  if (bounds.size() == 1) bounds.push_back(bounds[0]);
}
inline void Fill(Source& s, plan::StateTensor& v) {
  auto& [name, dtype, dims, ranks, slices] = v;
  All(s, name, dtype, dims, ranks, slices);
  if (dtype == DType::kC128) dtype = DType::kC64;
  // No ranks stand for all.
  if (ranks.empty()) Fill(s, ranks.emplace_back());
}
inline void Fill(Source& s, plan::Plan& v) {
  auto& [revision, mesh, communicators, parameters, buckets, pipeline, halos,
         ranks, state] = v;
  All(s, revision, mesh, communicators, parameters, buckets, pipeline, halos,
      ranks, state);
}

inline void Fill(Source& s, WorkerView& v) {
  auto& [name, generation, state, rank, coordinates, process, position,
         step_seconds, exposed_seconds, overlap, silent_for, no_progress_for,
         busy, revision, paused, lag_seconds, memory] = v;
  FillIndex(s, rank);
  All(s, name, generation, state, coordinates, process, position, step_seconds,
      exposed_seconds, overlap, silent_for, no_progress_for, busy, revision,
      paused, lag_seconds, memory);
}
inline void Fill(Source& s, WaitView& v) {
  auto& [waiter, waited_for, why] = v;
  All(s, waiter, waited_for, why);
}
inline void Fill(Source& s, BucketView& v) {
  auto& [communicator, dtype, op, bytes, parameters] = v;
  All(s, communicator, dtype, op, bytes, parameters);
}
inline void Fill(Source& s, LagView& v) {
  auto& [worker, parameter, seconds] = v;
  All(s, worker, parameter, seconds);
}
inline void Fill(Source& s, StallView& v) {
  auto& [worker, text] = v;
  All(s, worker, text);
}
inline void Fill(Source& s, EventView& v) {
  auto& [ago, text] = v;
  All(s, ago, text);
}
inline void Fill(Source& s, JobView& v) {
  auto& [spec, name, state, epoch, revision, plan_digest, missing, workers,
         parameters, buckets, waits, stalls, lags, wanted, cause, events, step,
         warnings, checkpoint] = v;
  All(s, spec, name, state, epoch, revision, plan_digest, missing, workers,
      parameters, buckets, waits, stalls, lags, wanted, cause, events, step,
      warnings, checkpoint);
}
inline void Fill(Source& s, JobSummary& v) {
  auto& [name, state, epoch, ready, world_size, step] = v;
  All(s, name, state, epoch, ready, world_size, step);
}
inline void Fill(Source& s, LimitUse& v) {
  auto& [name, value, used, highest, refused] = v;
  All(s, name, value, used, highest, refused);
}

// --- Envelopes: fills the alternative that the body holds --------------------

template <typename... Ts>
void Fill(Source& s, std::variant<Ts...>& v) {
  std::visit([&](auto& body) { Fill(s, body); }, v);
}
inline void Fill(Source& s, protocol::ToCoordinator& v) {
  auto& [job, epoch, term, body] = v;
  All(s, job, epoch, term, body);
}
inline void Fill(Source& s, protocol::ToWorker& v) {
  auto& [job, epoch, term, body] = v;
  All(s, job, epoch, term, body);
}
inline void Fill(Source& s, record::NameHolder& v) {
  auto& [generation, incarnation, secret_hash] = v;
  All(s, generation, incarnation, secret_hash);
}
inline void Fill(Source& s, record::Departure& v) {
  auto& [steps, verdict, command] = v;
  All(s, steps, verdict, command);
}
inline void Fill(Source& s, record::DurableJob& v) {
  auto& [spec, token_hash, name_holders, epoch, epoch_lives, first_step, steps,
         members, members_digests, revision, plan_digest, plan_image,
         observed_order, holders, previous_world, left, recovery,
         checkpoint_prepared, checkpoint, wanted, cause, unfinished, ended,
         ended_by, archived_as, adopted, epoch_floor] = v;
  FillRanks(s, holders);
  All(s, spec, token_hash, name_holders, epoch, epoch_lives, first_step, steps,
      members, members_digests, revision, plan_digest, plan_image,
      observed_order, previous_world, left, recovery, checkpoint_prepared,
      checkpoint, wanted, cause, unfinished, ended, ended_by, archived_as,
      adopted, epoch_floor);
}
inline void Fill(Source& s, record::Record& v) {
  auto& [number, job, body] = v;
  All(s, number, job, body);
}

template <typename T>
void Fill(Source& s, std::vector<T>& v) {
  v.resize(s.Count());
  for (T& entry : v) Fill(s, entry);
}
template <typename T>
void Fill(Source& s, SharedList<T>& v) {
  std::vector<T> items;
  Fill(s, items);
  v = std::move(items);
}
template <typename K, typename V>
void Fill(Source& s, std::map<K, V>& v) {
  v.clear();
  for (int i = s.Count(); i > 0; --i) {
    K key;
    Fill(s, key);
    Fill(s, v[key]);
  }
}
template <typename T>
void Fill(Source& s, std::optional<T>& v) {
  v.reset();
  if (s.Bool()) Fill(s, v.emplace());
}

template <typename T>
T Filled(Source& source) {
  T value;
  source.Begin();
  Fill(source, value);
  return value;
}

// One value for each alternative of the body.
template <typename Envelope, size_t... I>
std::vector<Envelope> EachBody(std::index_sequence<I...>) {
  std::vector<Envelope> envelopes(sizeof...(I));
  (envelopes[I].body.template emplace<I>(), ...);
  return envelopes;
}
template <typename Envelope>
std::vector<Envelope> EachBody() {
  return EachBody<Envelope>(std::make_index_sequence<
                            std::variant_size_v<decltype(Envelope{}.body)>>());
}

}  // namespace lockstep::fill

#endif  // LOCKSTEP_TESTS_SUPPORT_FILL_H_
