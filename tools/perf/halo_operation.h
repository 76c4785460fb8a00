// Halo exchanges in lockstep-perf: "halo" exchanges the halos of one field, and
// "halo.adjoint" adds their gradients, both in place.
//
//   lockstep-perf halo --ranks 4 --shape 1024x1024 --width 2 --cut 2x2
//
// The size is the bytes that rank 0 receives; busbw = algbw.

#ifndef LOCKSTEP_TOOLS_PERF_HALO_OPERATION_H_
#define LOCKSTEP_TOOLS_PERF_HALO_OPERATION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/communicator.h"
#include "tools/perf/memory.h"
#include "tools/perf/operation.h"
#include "tools/perf/options.h"

namespace lockstep::perf {

bool IsHaloOperation(const std::string& op);

// "1024x1024". nullopt: not 1 to 8 numbers of at least `least`.
std::optional<std::vector<int64_t>> ParseExtents(const std::string& text,
                                                 int64_t least = 1);

// The cells of each side of a block, by dimension. Empty: options.width is
// neither one number nor one for each dimension.
std::vector<int64_t> WidthsOf(const PerfOptions& options);

// The number of blocks in each dimension: options.cut, or as equal as possible,
// more of them in the first dimensions. Empty: the ranks cannot be divided so.
std::vector<int64_t> BlocksOf(const PerfOptions& options);

// Errors: as PerfOperation::Create; InvalidArgument for fields that cannot be
// cut or padded so.
absl::StatusOr<std::unique_ptr<PerfOperation>> MakeHaloOperation(
    const PerfOptions& options, Communicator& comm, Memory* memory);

}  // namespace lockstep::perf

#endif  // LOCKSTEP_TOOLS_PERF_HALO_OPERATION_H_
