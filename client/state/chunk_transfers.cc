#include "client/state/chunk_transfers.h"

#include <algorithm>
#include <map>

#include "client/checkpoint/content_hash.h"
#include "lockstep/arena.h"

namespace lockstep::state {
namespace {

constexpr size_t kWindowChunksMax = 1024;

// Where the window ends that begins at `begin`.
size_t EndOfWindow(const ChunkContext& context,
                   const std::vector<ChunkTransfer>& pass, size_t begin) {
  std::map<int, size_t> bytes;  // by rank
  size_t end = begin;
  while (end < pass.size() && end - begin < kWindowChunksMax) {
    const ChunkTransfer& transfer = pass[end];
    const size_t more = context.SlotBytesOf(transfer.chunk);
    bytes[transfer.chunk.from] += more;
    bytes[transfer.chunk.to] += more;
    if (transfer.witness != transfer.chunk.from) {
      bytes[transfer.witness] += more;
    }
    const bool fits =
        std::all_of(bytes.begin(), bytes.end(), [&](const auto& of_rank) {
          return of_rank.second <= context.window_bytes;
        });
    if (!fits && end > begin) break;
    ++end;
  }
  return end;
}

}  // namespace

size_t ChunkContext::BytesOf(const plan::RecoveryChunk& chunk) const {
  return static_cast<size_t>(chunk.count) *
         SizeOf(tensors[static_cast<size_t>(chunk.tensor)].dtype);
}

char* ChunkContext::At(const plan::RecoveryChunk& chunk) const {
  const auto tensor = static_cast<size_t>(chunk.tensor);
  return static_cast<char*>(memory[tensor]) +
         static_cast<size_t>(chunk.offset) * SizeOf(tensors[tensor].dtype);
}

uint64_t ChunkContext::HashOf(const plan::RecoveryChunk& chunk) const {
  return checkpoint::HashBlock({At(chunk), BytesOf(chunk)});
}

size_t ChunkContext::SlotBytesOf(const plan::RecoveryChunk& chunk) const {
  return (BytesOf(chunk) + Arena::kAlignment - 1) / Arena::kAlignment *
         Arena::kAlignment;
}

absl::Status ChunkContext::Exchange(void* data, size_t bytes, int from,
                                    int to) const {
  if (comm.rank() == from) {
    return comm.Send(data, bytes, DType::kU8, to, stream);
  }
  if (comm.rank() == to) {
    return comm.Recv(data, bytes, DType::kU8, from, stream);
  }
  return absl::OkStatus();
}

std::vector<ChunkWindow> WindowsOf(const ChunkContext& context,
                                   std::vector<ChunkTransfer>* pass) {
  std::vector<ChunkWindow> windows;
  const int own = context.comm.rank();
  for (size_t begin = 0; begin < pass->size();) {
    const size_t end = EndOfWindow(context, *pass, begin);
    const ChunkWindow window(pass->data() + begin, end - begin);
    begin = end;
    if (std::any_of(window.begin(), window.end(),
                    [own](const auto& one) { return one.Involves(own); })) {
      windows.push_back(window);
    }
  }
  return windows;
}

size_t SlotBytes(const ChunkContext& context,
                 const std::vector<plan::RecoveryChunk>& chunks) {
  size_t total = 0, largest = 0;
  for (const plan::RecoveryChunk& chunk : chunks) {
    total += context.SlotBytesOf(chunk);
    largest = std::max(largest, context.SlotBytesOf(chunk));
  }
  return std::min(total, std::max(largest, context.window_bytes));
}

}  // namespace lockstep::state
