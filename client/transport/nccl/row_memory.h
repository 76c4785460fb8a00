// Device memory in which a communicator's operations gather rows before they
// reduce them by min or max.
//
//   memory.Begin(captured);          an operation, or several of one group
//   void* rows = memory.Take(bytes); for each call; null: none is left
//   memory.End()
//
// Operations run one after the other, so each takes the same memory as the one
// before. It is allocated at the beginning; only several calls of one group
// that need more together allocate more, and keep it, or, if they are captured,
// give it to their graph.
//
// Threads: one at a time.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_ROW_MEMORY_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_ROW_MEMORY_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "client/transport/nccl/cuda_api.h"

namespace lockstep::transport::nccl {

class RowMemory {
 public:
  RowMemory(CudaApi* cuda, size_t bytes) : cuda_(*cuda), bytes_(bytes) {}
  RowMemory(const RowMemory&) = delete;
  RowMemory& operator=(const RowMemory&) = delete;

  // The stream of the operations, on which memory is allocated and freed.
  absl::Status Allocate(CudaStreamHandle stream);
  // Before the stream is destroyed.
  void Free();

  // What one operation can take at once.
  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

  void Begin(bool captured);
  void* Take(size_t bytes);
  absl::Status End();

 private:
  void* TakeMore(size_t bytes);

  CudaApi& cuda_;
  const size_t bytes_;
  CudaStreamHandle stream_ = nullptr;
  std::byte* data_ = nullptr;
  struct Block {
    void* memory;
    size_t bytes;
  };
  std::vector<Block> more_;

  // State of the operation that is being enqueued.
  bool captured_ = false;
  size_t taken_ = 0;               // of data_
  size_t blocks_taken_ = 0;        // of more_
  std::vector<void*> graphs_own_;  // freed inside the graph
};

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_ROW_MEMORY_H_
