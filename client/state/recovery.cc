#include "client/state/recovery.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text/rank_list.h"
#include "client/checkpoint/content_hash.h"
#include "client/checkpoint/safetensors.h"
#include "client/state/missing_memory.h"

namespace lockstep::state {
namespace {

using plan::RecoveryChunk;

constexpr size_t kWindowChunksMax = 1024;
constexpr size_t kWrongNamedMax = 16;

// A chunk on its way: who sends it, and who sends its hash.
struct ChunkTransfer {
  RecoveryChunk chunk;
  size_t index = 0;  // in the plan
  int witness = 0;
  // The hash of the witness, to be sent or received, and the received bytes'.
  uint64_t expected = 0;
  uint64_t found = 0;
};

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
        stream_(stream),
        options_(options) {}

  absl::Status Run() {
    absl::Status status = Agree();
    if (!status.ok()) return status;
    std::vector<ChunkTransfer> pass;
    for (const size_t index : InTurns()) pass.push_back(TransferOf(index, 0));
    for (size_t attempt = 1; !pass.empty(); ++attempt) {
      status = Send(&pass);
      if (!status.ok()) {
        // What is enqueued still refers to `pass`.
        stream_.Synchronize().IgnoreError();
        return status;
      }
      auto wrong = FindWrong(pass);
      if (!wrong.ok()) return wrong.status();
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
  using Window = absl::Span<ChunkTransfer>;

  const std::vector<int>& HoldersOf(const RecoveryChunk& chunk) const {
    return plan_.holders[static_cast<size_t>(chunk.holders_of)];
  }
  const plan::StateTensor& TensorOf(const RecoveryChunk& chunk) const {
    return tensors_[static_cast<size_t>(chunk.tensor)];
  }
  char* At(const RecoveryChunk& chunk) const {
    return static_cast<char*>(memory_[static_cast<size_t>(chunk.tensor)]) +
           chunk.offset * static_cast<int64_t>(SizeOf(TensorOf(chunk).dtype));
  }
  size_t BytesOf(const RecoveryChunk& chunk) const {
    return static_cast<size_t>(chunk.count) * SizeOf(TensorOf(chunk).dtype);
  }
  uint64_t HashOf(const RecoveryChunk& chunk) const {
    return checkpoint::HashBlock({At(chunk), BytesOf(chunk)});
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

  // The number of the first tensor of which this rank lacks memory; 0: none.
  uint64_t Missing() const {
    for (const RecoveryChunk& chunk : plan_.chunks) {
      const std::vector<int>& holders = HoldersOf(chunk);
      const bool takes_part =
          chunk.to == comm_.rank() ||
          std::binary_search(holders.begin(), holders.end(), comm_.rank());
      const auto t = static_cast<size_t>(chunk.tensor);
      if (!takes_part || (t < memory_.size() && memory_[t] != nullptr)) {
        continue;
      }
      return MissingMemory(t, comm_.rank());
    }
    return 0;
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
    uint64_t words[3] = {digest, ~digest, Missing()};
    absl::Status status =
        comm_.AllReduce(words, words, 3, DType::kU64, ReduceOp::kMax, stream_);
    status.Update(stream_.Synchronize());
    status.Update(comm_.status());
    if (!status.ok()) return status;
    if (words[0] != ~words[1]) {
      return absl::InvalidArgumentError(
          "the ranks recover state with different newcomers, or other plans");
    }
    return MissingMemoryError(words[2], tensors_);
  }

  // The transfers of a window, from `begin` on. All ranks divide alike.
  size_t EndOfWindow(const std::vector<ChunkTransfer>& pass,
                     size_t begin) const {
    std::map<int, int64_t> bytes;  // by newcomer
    size_t end = begin;
    while (end < pass.size() && end - begin < kWindowChunksMax) {
      int64_t& of = bytes[pass[end].chunk.to];
      if (of > 0 && of >= options_.window_bytes) break;
      of += static_cast<int64_t>(BytesOf(pass[end].chunk));
      ++end;
    }
    return end;
  }

  // Transfers all and computes the hashes. Two windows are in progress at most.
  absl::Status Send(std::vector<ChunkTransfer>* pass) {
    Window before;
    Event arrived;  // the window before
    for (size_t begin = 0;;) {
      const size_t end = EndOfWindow(*pass, begin);
      const Window window(pass->data() + begin, end - begin);
      absl::Status status = Enqueue(before, window);
      if (!status.ok()) return status;
      Event next = stream_.Record();
      for (ChunkTransfer& transfer : window) {
        if (transfer.witness != comm_.rank()) continue;
        transfer.expected = HashOf(transfer.chunk);
      }
      status = arrived.Wait();
      if (status.ok()) status = comm_.status();
      if (!status.ok()) return status;
      for (ChunkTransfer& transfer : before) {
        if (transfer.chunk.to != comm_.rank()) continue;
        transfer.found = HashOf(transfer.chunk);
      }
      if (window.empty()) break;
      arrived = std::move(next);
      before = window;
      begin = end;
    }
    absl::Status ran = stream_.Synchronize();
    return ran.ok() ? comm_.status() : ran;
  }

  // The hashes of the window before, and the bytes of this one.
  absl::Status Enqueue(Window before, Window window) {
    const int own = comm_.rank();
    const auto is_idle = [own](const ChunkTransfer& transfer) {
      return transfer.chunk.to != own && transfer.chunk.from != own &&
             transfer.witness != own;
    };
    if (std::all_of(before.begin(), before.end(), is_idle) &&
        std::all_of(window.begin(), window.end(), is_idle)) {
      return absl::OkStatus();
    }
    return comm_.Group([&]() -> absl::Status {
      for (ChunkTransfer& transfer : before) {
        absl::Status status = Exchange(&transfer.expected, sizeof(uint64_t),
                                       transfer.witness, transfer.chunk.to);
        if (!status.ok()) return status;
      }
      for (ChunkTransfer& transfer : window) {
        absl::Status status =
            Exchange(At(transfer.chunk), BytesOf(transfer.chunk),
                     transfer.chunk.from, transfer.chunk.to);
        if (!status.ok()) return status;
      }
      return absl::OkStatus();
    });
  }

  absl::Status Exchange(void* data, size_t bytes, int from, int to) {
    if (comm_.rank() == from) {
      return comm_.Send(data, bytes, DType::kU8, to, stream_);
    }
    if (comm_.rank() == to) {
      return comm_.Recv(data, bytes, DType::kU8, from, stream_);
    }
    return absl::OkStatus();
  }

  // The numbers of the chunks whose hashes differ on any rank.
  absl::StatusOr<std::vector<size_t>> FindWrong(
      const std::vector<ChunkTransfer>& pass) {
    std::vector<uint8_t> is_wrong(pass.size());
    for (size_t i = 0; i < pass.size(); ++i) {
      is_wrong[i] =
          pass[i].chunk.to == comm_.rank() && pass[i].found != pass[i].expected;
    }
    absl::Status status =
        comm_.AllReduce(is_wrong.data(), is_wrong.data(), is_wrong.size(),
                        DType::kU8, ReduceOp::kMax, stream_);
    if (status.ok()) status = stream_.Synchronize();
    if (status.ok()) status = comm_.status();
    if (!status.ok()) return status;
    std::vector<size_t> wrong;
    for (size_t i = 0; i < pass.size(); ++i) {
      if (is_wrong[i] != 0) wrong.push_back(pass[i].index);
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
  Stream& stream_;
  const RecoveryOptions options_;
};

}  // namespace

absl::Status Recover(const std::vector<plan::StateTensor>& tensors,
                     const plan::RecoveryPlan& plan,
                     absl::Span<void* const> memory, Communicator& comm,
                     Stream& stream, const RecoveryOptions& options) {
  return RecoveryRun(tensors, plan, memory, comm, stream, options).Run();
}

}  // namespace lockstep::state
