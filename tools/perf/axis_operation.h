// Collectives over named axes in lockstep-perf: "axis.psum", "axis.all_gather",
// ... The ranks are the members of one axis; tensors are contiguous, so each
// compares with the communicator's call.
//
//   op                                        size is   busbw / algbw
//   psum pmean pprod pmax pmin reduce         in        2 (n-1)/n
//   pargmax pargmin                           in        2 (n-1)/n
//   pbroadcast ppermute pshuffle              in        1
//   all_gather all_gather_invariant gather    out       (n-1)/n
//   pgather                                   out       (n-1)/n
//   psum_scatter scatter all_to_all pswapaxes in        (n-1)/n
//   ragged_all_to_all                         in        (n-1)/n
//   pvary own_slice axis_index axis_size      in        0

#ifndef LOCKSTEP_TOOLS_PERF_AXIS_OPERATION_H_
#define LOCKSTEP_TOOLS_PERF_AXIS_OPERATION_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/communicator.h"
#include "tools/perf/memory.h"
#include "tools/perf/operation.h"
#include "tools/perf/options.h"

namespace lockstep::perf {

const std::vector<std::string>& AxisOperationNames();
bool IsAxisOperation(const std::string& op);
double AxisBusFactor(const std::string& op, int ranks);

// Errors: as PerfOperation::Create; InvalidArgument for a dtype that the
// operation does not take.
absl::StatusOr<std::unique_ptr<PerfOperation>> MakeAxisOperation(
    const PerfOptions& options, size_t bytes, Communicator& comm,
    Memory* memory);

}  // namespace lockstep::perf

#endif  // LOCKSTEP_TOOLS_PERF_AXIS_OPERATION_H_
