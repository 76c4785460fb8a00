// One operation of lockstep-perf on one rank, at one size: its buffers, its
// call and its expected result.
//
// Sizes follow nccl-tests: the size of the whole buffer that is scattered or
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
//   axis.NAME        see axis_operation.h
//   halo, halo.adjoint  see halo_operation.h

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

// The smallest size with at least one element to send and check.
size_t LeastBytes(const PerfOptions& options);

class PerfOperation {
 public:
  // `memory` must outlive the operation; null: private host memory.
  // ResourceExhausted if the memory cannot be allocated.
  static absl::StatusOr<std::unique_ptr<PerfOperation>> Create(
      const PerfOptions& options, size_t bytes, Communicator& comm,
      Memory* memory);
  virtual ~PerfOperation() = default;

  size_t count() const { return count_; }  // as passed to the call
  size_t bytes() const { return bytes_; }  // the size, rounded

  // Enqueues the operation once.
  virtual absl::Status Run(Stream& stream) = 0;

  // Writes this rank's inputs, and values into the outputs that must change.
  virtual void Fill() = 0;
  // Copies the host's buffers to the operation's memory.
  virtual absl::Status Give() = 0;
  // After a Run, copies the results to the host, where Wrong checks them.
  // Collective: the ranks of a barrier exchange their arrival times.
  virtual absl::Status Take(Stream& stream) = 0;
  // The number of wrong elements after Fill and one Run. For a barrier: the
  // number of ranks that had not arrived when this one left.
  virtual size_t Wrong() const = 0;

 protected:
  size_t count_ = 0;
  size_t bytes_ = 0;
};

}  // namespace lockstep::perf

#endif  // LOCKSTEP_TOOLS_PERF_OPERATION_H_
