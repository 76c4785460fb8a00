#include "client/state/replica_check.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text/rank_list.h"
#include "client/checkpoint/content_hash.h"
#include "client/checkpoint/safetensors.h"
#include "client/state/missing_memory.h"
#include "client/state/word_collectives.h"
#include "plan/state/ranges.h"

namespace lockstep::state {
namespace {

std::string FaultText(const ReplicaFault& fault) {
  const bool has_majority = fault.suspects != fault.holders;
  return absl::StrCat(
      checkpoint::TensorText(fault.tensor), " of ", RankList(fault.suspects),
      " (elements ", fault.offset, " to ", fault.offset + fault.count,
      has_majority ? absl::StrCat(" differ from those of most holders, ",
                                  RankList(fault.holders))
                   : " differ; no majority has equal ones",
      ")");
}

}  // namespace

ReplicaCheck::ReplicaCheck(const std::vector<plan::StateTensor>& tensors,
                           const Mesh& mesh, std::vector<const void*> memory,
                           WireMemory wire)
    : tensors_(tensors),
      ranks_(static_cast<int>(mesh.WorldSize())),
      memory_(std::move(memory)),
      wire_(std::move(wire)) {
  for (size_t t = 0; t < tensors_.size(); ++t) {
    for (plan::HeldRange& range : plan::RangesOf(tensors_[t], mesh)) {
      if (range.ranks.size() < 2) continue;
      replicated_.push_back({static_cast<int>(t), range.offset, range.count,
                             std::move(range.ranks)});
    }
  }
}

bool ReplicaCheck::IsHeld(const Replicated& replicated, int rank) const {
  return std::binary_search(replicated.ranks.begin(), replicated.ranks.end(),
                            rank);
}

bool ReplicaCheck::HasMemory(const Replicated& replicated) const {
  const auto t = static_cast<size_t>(replicated.tensor);
  return t < memory_.size() && memory_[t] != nullptr;
}

MemoryExtent ReplicaCheck::ExtentOf(const Replicated& replicated) const {
  const auto t = static_cast<size_t>(replicated.tensor);
  const auto element = static_cast<int64_t>(SizeOf(tensors_[t].dtype));
  return {static_cast<const char*>(memory_[t]) + replicated.offset * element,
          static_cast<size_t>(replicated.count * element)};
}

std::vector<uint64_t> ReplicaCheck::OwnHashes(int rank,
                                              CopyFaults* faults) const {
  std::vector<uint64_t> own(replicated_.size());
  std::vector<size_t> held;
  std::vector<MemoryExtent> extents;
  for (size_t i = 0; i < replicated_.size(); ++i) {
    if (!IsHeld(replicated_[i], rank) || !HasMemory(replicated_[i])) continue;
    held.push_back(i);
    extents.push_back(ExtentOf(replicated_[i]));
  }
  if (wire_.device == nullptr) {
    for (size_t h = 0; h < held.size(); ++h) {
      own[held[h]] = checkpoint::HashBlock(
          {static_cast<const char*>(extents[h].data), extents[h].bytes});
    }
    return own;
  }
  const DeviceHashes hashed = HashThroughStaging(*wire_.device, extents);
  if (!hashed.status.ok()) {
    faults->Note(static_cast<size_t>(replicated_[held[hashed.failed]].tensor),
                 hashed.status);
    return own;
  }
  for (size_t h = 0; h < held.size(); ++h) own[held[h]] = hashed.hashes[h];
  return own;
}

ReplicaFault ReplicaCheck::FaultOf(const Replicated& replicated,
                                   const uint64_t* hash_by_rank) const {
  std::map<uint64_t, size_t> votes;
  for (const int rank : replicated.ranks) ++votes[hash_by_rank[rank]];
  const auto most =
      std::max_element(votes.begin(), votes.end(),
                       [](auto& a, auto& b) { return a.second < b.second; });
  ReplicaFault fault{
      .tensor = tensors_[static_cast<size_t>(replicated.tensor)].name,
      .offset = replicated.offset,
      .count = replicated.count,
      .holders = replicated.ranks};
  const bool has_majority = 2 * most->second > replicated.ranks.size();
  for (const int rank : replicated.ranks) {
    if (has_majority && hash_by_rank[rank] == most->first) continue;
    fault.suspects.push_back(rank);
  }
  return fault;
}

absl::StatusOr<ReplicaReport> ReplicaCheck::Compare(Communicator& comm,
                                                    Stream& stream) {
  if (comm.size() != ranks_) {
    return absl::InvalidArgumentError(
        absl::StrCat("replicas of ", ranks_,
                     " ranks cannot be compared by a group of ", comm.size()));
  }
  ReplicaReport report;
  if (replicated_.empty()) return report;
  // The largest hash, and the complement of the smallest. 0 changes neither.
  // Then the memory that a rank lacks, and the copy that failed on one.
  const size_t count = replicated_.size();
  CopyFaults faults(tensors_, comm.rank());
  const std::vector<uint64_t> own = OwnHashes(comm.rank(), &faults);
  std::vector<uint64_t> words(2 * count + 2);
  uint64_t& missing = words[2 * count];
  uint64_t& failed = words[2 * count + 1];
  failed = faults.number();
  for (size_t i = 0; i < count; ++i) {
    if (!IsHeld(replicated_[i], comm.rank())) continue;
    words[i] = own[i];
    words[count + i] = ~own[i];
    if (HasMemory(replicated_[i])) continue;
    const auto tensor = static_cast<size_t>(replicated_[i].tensor);
    missing = std::max(missing, TensorOfRank(tensor, comm.rank()));
  }
  WordCollectives collectives(wire_, comm, stream);
  absl::Status status = collectives.AllReduceMax(absl::MakeSpan(words));
  if (!status.ok()) return faults.Or(status);
  status = MissingMemoryError(missing, tensors_);
  status.Update(faults.Error(failed));
  if (!status.ok()) return status;
  std::vector<size_t> different;
  for (size_t i = 0; i < count; ++i) {
    if (words[i] == ~words[count + i]) continue;
    if (different.size() < kReplicaFaultsMax) {
      different.push_back(i);
    } else {
      ++report.faults_more;
    }
  }
  if (different.empty()) return report;
  std::vector<uint64_t> mine;
  for (const size_t i : different) mine.push_back(own[i]);
  const auto all = collectives.AllGather(mine);
  if (!all.ok()) return all.status();
  std::vector<uint64_t> hash_by_rank(static_cast<size_t>(comm.size()));
  for (size_t d = 0; d < different.size(); ++d) {
    for (size_t rank = 0; rank < hash_by_rank.size(); ++rank) {
      hash_by_rank[rank] = (*all)[rank * different.size() + d];
    }
    report.faults.push_back(
        FaultOf(replicated_[different[d]], hash_by_rank.data()));
  }
  return report;
}

absl::Status ReplicaCheck::Check(Communicator& comm, Stream& stream) {
  const absl::StatusOr<ReplicaReport> report = Compare(comm, stream);
  if (!report.ok()) return report.status();
  if (report->faults.empty()) return absl::OkStatus();
  std::vector<std::string> texts;
  for (const ReplicaFault& fault : report->faults) {
    texts.push_back(FaultText(fault));
  }
  if (report->faults_more > 0) {
    texts.push_back(absl::StrCat(report->faults_more, " more"));
  }
  return absl::DataLossError(absl::StrCat("replicas of the state differ: ",
                                          absl::StrJoin(texts, "; ")));
}

}  // namespace lockstep::state
