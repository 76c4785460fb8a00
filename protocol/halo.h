// A halo exchange as a worker declares it (Session::Halo): its checks, before
// ranks are compared, and its text.

#ifndef LOCKSTEP_PROTOCOL_HALO_H_
#define LOCKSTEP_PROTOCOL_HALO_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/halo_spec.h"
#include "lockstep/mesh.h"

namespace lockstep {

// Bounds of what one rank declares, so that it fits in a message, and sums of
// sizes in 64 bits.
inline constexpr size_t kHalosMax = 1024;
inline constexpr size_t kHaloTensorsMax = 64;          // of an exchange
inline constexpr size_t kHaloTensorsOfRankMax = 2048;  // of all its exchanges
inline constexpr size_t kHaloNameBytesMax = 256;
inline constexpr int64_t kHaloBytesMax = int64_t{1} << 40;  // a padded block

// The same exchange with dimensions counted from 0 and in ascending order,
// those that are neither cut nor padded left out, and constants of other edges
// than kConstant 0. InvalidArgument names the exchange, the tensor, the
// dimension and the value: whatever one rank can check.
absl::StatusOr<HaloSpec> Normalized(const HaloSpec& spec, const Mesh& mesh);

// Whether a cell of the dtype can be the constant: finite numbers that its
// largest is not below, and for the dtypes of integers whole ones, for bool 0
// and 1.
bool IsHaloConstant(DType dtype, double constant);

// The text of a normalized tensor: "f32[*,16]: dim 0 over lat, low 1, high 2,
// periodic". Blocks of cut dimensions have any size (*): tensors of ranks whose
// texts are equal differ in these sizes only.
std::string Describe(const HaloTensor& tensor);

}  // namespace lockstep

#endif  // LOCKSTEP_PROTOCOL_HALO_H_
