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

absl::Status Finished(Communicator& comm, Stream& stream) {
  absl::Status ran = stream.Synchronize();
  return ran.ok() ? comm.status() : ran;
}

}  // namespace

ReplicaCheck::ReplicaCheck(const std::vector<plan::StateTensor>& tensors,
                           const Mesh& mesh, std::vector<const void*> memory)
    : tensors_(tensors),
      ranks_(static_cast<int>(mesh.WorldSize())),
      memory_(std::move(memory)) {
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

uint64_t ReplicaCheck::HashOf(const Replicated& replicated) const {
  const auto t = static_cast<size_t>(replicated.tensor);
  const auto element = static_cast<int64_t>(SizeOf(tensors_[t].dtype));
  return checkpoint::HashBlock(
      {static_cast<const char*>(memory_[t]) + replicated.offset * element,
       static_cast<size_t>(replicated.count * element)});
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
  // Then the memory that a rank lacks.
  const size_t count = replicated_.size();
  std::vector<uint64_t> own(count), extremes(2 * count + 1);
  uint64_t& missing = extremes.back();
  for (size_t i = 0; i < count; ++i) {
    if (!IsHeld(replicated_[i], comm.rank())) continue;
    if (!HasMemory(replicated_[i])) {
      const auto tensor = static_cast<size_t>(replicated_[i].tensor);
      missing = std::max(missing, MissingMemory(tensor, comm.rank()));
      continue;
    }
    own[i] = HashOf(replicated_[i]);
    extremes[i] = own[i];
    extremes[count + i] = ~own[i];
  }
  absl::Status status =
      comm.AllReduce(extremes.data(), extremes.data(), extremes.size(),
                     DType::kU64, ReduceOp::kMax, stream);
  if (status.ok()) status = Finished(comm, stream);
  if (status.ok()) status = MissingMemoryError(missing, tensors_);
  if (!status.ok()) return status;
  std::vector<size_t> different;
  for (size_t i = 0; i < count; ++i) {
    if (extremes[i] == ~extremes[count + i]) continue;
    if (different.size() < kReplicaFaultsMax) {
      different.push_back(i);
    } else {
      ++report.faults_more;
    }
  }
  if (different.empty()) return report;
  std::vector<uint64_t> mine, all(different.size() * comm.size());
  for (const size_t i : different) mine.push_back(own[i]);
  status =
      comm.AllGather(mine.data(), all.data(), mine.size(), DType::kU64, stream);
  if (status.ok()) status = Finished(comm, stream);
  if (!status.ok()) return status;
  std::vector<uint64_t> hash_by_rank(static_cast<size_t>(comm.size()));
  for (size_t d = 0; d < different.size(); ++d) {
    for (size_t rank = 0; rank < hash_by_rank.size(); ++rank) {
      hash_by_rank[rank] = all[rank * different.size() + d];
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
