// State as a worker registers it (Session::RegisterState): its checks, before
// ranks are compared, and its text.

#ifndef LOCKSTEP_PROTOCOL_STATE_H_
#define LOCKSTEP_PROTOCOL_STATE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/mesh.h"
#include "lockstep/state_spec.h"

namespace lockstep {

// Bounds of what one rank registers, so that it fits in messages, and sums of
// sizes in 64 bits.
inline constexpr size_t kStatesMax = size_t{1} << 17;
inline constexpr size_t kStateNameBytesMax = 512;
inline constexpr int64_t kStateBytesMax = int64_t{1} << 40;  // a block

// Whether checkpoints can have the dtype: all but c128, for which safetensors
// has no name.
bool IsStateDType(DType dtype);

// InvalidArgument for a name that is empty, too long or not printable, or that
// safetensors reserves.
absl::Status CheckStateName(const std::string& name);

// The same state with dimensions counted from 0 and cuts in their order,
// without those over no axis. InvalidArgument names the state, the dimension
// and the value: whatever one rank can check.
absl::StatusOr<StateSpec> Normalized(const StateSpec& spec, const Mesh& mesh);

// The text of a normalized state: "f32[*,16], dim 0 over data model, sliced
// like w". Blocks of cut dimensions have any size (*): states of ranks whose
// texts are equal differ in these sizes, and in `slice`, only.
std::string Describe(const StateSpec& spec);

// "no elements", "elements 4-7".
std::string Describe(const StateSlice& slice);

}  // namespace lockstep

#endif  // LOCKSTEP_PROTOCOL_STATE_H_
