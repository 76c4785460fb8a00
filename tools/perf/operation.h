// One operation of lockstep-perf on one rank, at one size: its buffers, how it
// is called, and what must come out.
//
// The size is that of nccl-tests: of the whole buffer that is spread or
// gathered, rounded down to whole elements on each rank.
//
//   op               size is       busbw / algbw
//   all_reduce       in            2 (n-1)/n
//   all_gather       out           (n-1)/n
//   reduce_scatter   in            (n-1)/n
//   broadcast        the buffer    1
//   all_to_all       in            (n-1)/n
//   sendrecv         a message     1
//   barrier          0             0

#ifndef LOCKSTEP_TOOLS_PERF_OPERATION_H_
#define LOCKSTEP_TOOLS_PERF_OPERATION_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/communicator.h"
#include "lockstep/stream.h"
#include "tools/perf/memory.h"
#include "tools/perf/options.h"

namespace lockstep::perf {

const std::vector<std::string>& OperationNames();

// busbw / algbw.
double BusFactor(const std::string& op, int ranks);

// The smallest size in which there is something to move, and to be wrong.
size_t LeastBytes(const PerfOptions& options);

class PerfOperation {
 public:
  // `memory` must outlive it; null: the host's, private. ResourceExhausted if
  // there is no memory.
  static absl::StatusOr<std::unique_ptr<PerfOperation>> Create(
      const PerfOptions& options, size_t bytes, Communicator& comm,
      Memory* memory);
  virtual ~PerfOperation() = default;

  size_t count() const { return count_; }  // as given to the call
  size_t bytes() const { return bytes_; }  // of the size, rounded

  // Enqueues it once.
  virtual absl::Status Run(Stream& stream) = 0;

  // Writes the inputs of this rank, and what must not stay into the outputs.
  virtual void Fill() = 0;
  // Then brings them to where the operation works ...
  virtual absl::Status Give() = 0;
  // ... and, once a Run is over, what is there to where Wrong looks. All ranks
  // together: of a barrier, they tell each other when they came.
  virtual absl::Status Take(Stream& stream) = 0;
  // How many elements are wrong after one Run from what Fill wrote; of a
  // barrier, how many ranks had not come when this one left.
  virtual size_t Wrong() const = 0;

 protected:
  size_t count_ = 0;
  size_t bytes_ = 0;
};

}  // namespace lockstep::perf

#endif  // LOCKSTEP_TOOLS_PERF_OPERATION_H_
