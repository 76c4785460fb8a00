#include "client/state/recovery.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text/rank_list.h"
#include "client/checkpoint/content_hash.h"
#include "client/checkpoint/safetensors.h"
#include "client/state/chunk_transfers.h"
#include "client/state/copy_faults.h"
#include "client/state/missing_memory.h"
#include "client/state/word_collectives.h"

namespace lockstep::state {
namespace {

using plan::RecoveryChunk;

constexpr size_t kWrongNamedMax = 16;

size_t WindowBytes(const RecoveryOptions& options) {
  if (options.window_bytes > 0) {
    return static_cast<size_t>(options.window_bytes);
  }
  return size_t{options.wire.device == nullptr ? 1u : 4u} << 20;
}

class RecoveryRun {
 public:
  RecoveryRun(const std::vector<plan::StateTensor>& tensors,
              const plan::RecoveryPlan& plan, absl::Span<void* const> memory,
              Communicator& comm, Stream& stream,
              const RecoveryOptions& options)
      : tensors_(tensors),
        plan_(plan),
        memory_(memory),
        comm_(comm),
        wire_(options.wire),
        faults_(tensors, comm.rank()),
        words_(wire_, comm, stream),
        context_{.tensors = tensors,
                 .memory = memory,
                 .wire = wire_,
                 .comm = comm,
                 .stream = stream,
                 .faults = faults_,
                 .window_bytes = WindowBytes(options)},
        transfers_(wire_.device == nullptr ? MakeHostTransfers(context_)
                                           : MakeDeviceTransfers(context_)) {}

  absl::Status Run() {
    Reserve();
    absl::Status status = Agree();
    if (!status.ok()) return faults_.Or(status);
    std::vector<ChunkTransfer> pass;
    for (const size_t index : InTurns()) pass.push_back(TransferOf(index, 0));
    for (size_t attempt = 1; !pass.empty(); ++attempt) {
      status = transfers_->Run(&pass);
      if (!status.ok()) return faults_.Or(status);
      auto wrong = FindWrong(pass);
      if (!wrong.ok()) return faults_.Or(wrong.status());
      status = CheckMoreHolders(*wrong, attempt);
      if (!status.ok()) return status;
      pass.clear();
      for (const size_t index : *wrong) {
        pass.push_back(TransferOf(index, attempt));
      }
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<int>& HoldersOf(const RecoveryChunk& chunk) const {
    return plan_.holders[static_cast<size_t>(chunk.holders_of)];
  }
  const plan::StateTensor& TensorOf(const RecoveryChunk& chunk) const {
    return tensors_[static_cast<size_t>(chunk.tensor)];
  }
  // The first chunk of each newcomer, the second of each, ...: so all of them
  // receive at a time.
  std::vector<size_t> InTurns() const {
    std::map<int, size_t> counts;  // by newcomer
    std::vector<std::pair<size_t, size_t>> turns;
    for (size_t i = 0; i < plan_.chunks.size(); ++i) {
      turns.emplace_back(counts[plan_.chunks[i].to]++, i);
    }
    std::sort(turns.begin(), turns.end());
    std::vector<size_t> order;
    for (const auto& [turn, index] : turns) order.push_back(index);
    return order;
  }

  // Attempt 0 has the plan's sender, each later one the next holder.
  ChunkTransfer TransferOf(size_t index, size_t attempt) const {
    ChunkTransfer transfer{.chunk = plan_.chunks[index], .index = index};
    const std::vector<int>& holders = HoldersOf(transfer.chunk);
    const auto first = static_cast<size_t>(
        std::find(holders.begin(), holders.end(), transfer.chunk.from) -
        holders.begin());
    transfer.chunk.from = holders[(first + attempt) % holders.size()];
    transfer.witness = holders[(first + attempt + 1) % holders.size()];
    return transfer;
  }

  bool Holds(const RecoveryChunk& chunk) const {
    const std::vector<int>& holders = HoldersOf(chunk);
    return std::binary_search(holders.begin(), holders.end(), comm_.rank());
  }

  // The number of the first tensor of which this rank lacks memory; 0: none.
  uint64_t Missing() const {
    for (const RecoveryChunk& chunk : plan_.chunks) {
      const auto t = static_cast<size_t>(chunk.tensor);
      const bool takes_part = chunk.to == comm_.rank() || Holds(chunk);
      if (!takes_part || (t < memory_.size() && memory_[t] != nullptr)) {
        continue;
      }
      return TensorOfRank(t, comm_.rank());
    }
    return 0;
  }

  // Notes the error as one of the first tensor that this rank has a part in.
  void Reserve() {
    const auto holds = [this](const RecoveryChunk& chunk) {
      return Holds(chunk);
    };
    const auto first = std::find_if(
        plan_.chunks.begin(), plan_.chunks.end(), [&](const auto& chunk) {
          return chunk.to == comm_.rank() || holds(chunk);
        });
    if (first == plan_.chunks.end()) return;
    const bool sends =
        std::any_of(plan_.chunks.begin(), plan_.chunks.end(), holds);
    faults_.Note(static_cast<size_t>(first->tensor),
                 transfers_->Reserve(plan_.chunks, sends));
  }

  uint64_t PlanDigest() const {
    std::vector<int64_t> fields;
    for (const RecoveryChunk& chunk : plan_.chunks) {
      fields.insert(fields.end(), {chunk.tensor, chunk.offset, chunk.count,
                                   chunk.from, chunk.to, chunk.holders_of});
    }
    for (const std::vector<int>& holders : plan_.holders) {
      fields.insert(fields.end(), holders.begin(), holders.end());
      fields.push_back(-1);
    }
    return checkpoint::HashBlock({reinterpret_cast<const char*>(fields.data()),
                                  fields.size() * sizeof(int64_t)});
  }

  // All ranks have the same plan, and the memory for it. The same on all ranks.
  absl::Status Agree() {
    const uint64_t digest = PlanDigest();
    // The largest digest, and the complement of the smallest.
    uint64_t words[] = {digest, ~digest, Missing(), faults_.number()};
    absl::Status status = words_.AllReduceMax(absl::MakeSpan(words));
    if (!status.ok()) return status;
    if (words[0] != ~words[1]) {
      return absl::InvalidArgumentError(
          "the ranks recover state with different newcomers, or other plans");
    }
    status = MissingMemoryError(words[2], tensors_);
    return status.ok() ? faults_.Error(words[3]) : status;
  }

  // The numbers of the chunks whose hashes differ on any rank. An error, the
  // same on all ranks, if a copy failed on any.
  absl::StatusOr<std::vector<size_t>> FindWrong(
      const std::vector<ChunkTransfer>& pass) {
    std::vector<uint64_t> words;
    for (const ChunkTransfer& transfer : pass) {
      words.push_back(transfer.chunk.to == comm_.rank() &&
                      transfer.found != transfer.expected);
    }
    words.push_back(faults_.number());
    absl::Status status = words_.AllReduceMax(absl::MakeSpan(words));
    if (status.ok()) status = faults_.Error(words.back());
    if (!status.ok()) return status;
    std::vector<size_t> wrong;
    for (size_t i = 0; i < pass.size(); ++i) {
      if (words[i] != 0) wrong.push_back(pass[i].index);
    }
    return wrong;
  }

  // DataLoss if a chunk was sent by each of its holders.
  absl::Status CheckMoreHolders(const std::vector<size_t>& wrong,
                                size_t attempts) const {
    std::vector<std::string> lost;
    for (const size_t index : wrong) {
      const RecoveryChunk& chunk = plan_.chunks[index];
      if (attempts < HoldersOf(chunk).size()) continue;
      lost.push_back(absl::StrCat(
          checkpoint::TensorText(TensorOf(chunk).name), " (elements ",
          chunk.offset, " to ", chunk.offset + chunk.count, ") for rank ",
          chunk.to, " from ", RankList(HoldersOf(chunk))));
    }
    if (lost.empty()) return absl::OkStatus();
    const size_t count = lost.size();
    if (count > kWrongNamedMax) {
      lost.resize(kWrongNamedMax);
      lost.push_back(absl::StrCat(count - kWrongNamedMax, " more"));
    }
    return absl::DataLossError(
        absl::StrCat("the state cannot be recovered, hashes differ: ",
                     absl::StrJoin(lost, "; ")));
  }

  const std::vector<plan::StateTensor>& tensors_;
  const plan::RecoveryPlan& plan_;
  const absl::Span<void* const> memory_;
  Communicator& comm_;
  const WireMemory wire_;
  CopyFaults faults_;
  WordCollectives words_;
  const ChunkContext context_;
  const std::unique_ptr<ChunkTransfers> transfers_;
};

}  // namespace

absl::Status Recover(const std::vector<plan::StateTensor>& tensors,
                     const plan::RecoveryPlan& plan,
                     absl::Span<void* const> memory, Communicator& comm,
                     Stream& stream, const RecoveryOptions& options) {
  return RecoveryRun(tensors, plan, memory, comm, stream, options).Run();
}

}  // namespace lockstep::state
