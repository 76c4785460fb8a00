// What a member calls, as text, so that members can compare it before they
// begin: "all_gather over data axis 1 tiled of f32[2,3]".

#ifndef LOCKSTEP_CLIENT_COLLECTIVES_SIGNATURE_H_
#define LOCKSTEP_CLIENT_COLLECTIVES_SIGNATURE_H_

#include <cstddef>
#include <string>

#include "absl/types/span.h"
#include "lockstep/axis_collective.h"

namespace lockstep::collectives {

// Everything of the call that must be equal on all members.
std::string SignatureText(const AxisCollective& op,
                          absl::Span<const TensorType> inputs);

// A signature of fixed size. Longer texts are cut and end with a hash of the
// whole text.
inline constexpr size_t kSignatureBytes = 256;
void WriteSignature(const std::string& text, std::byte* to);

// `all`: the signatures of the members, whose ranks are `ranks`. Empty if they
// are equal; else who calls what: "ranks 0, 2: psum over data of f32[2]; rank
// 1: psum over data of f32[3]".
std::string SignatureFault(const std::byte* all, absl::Span<const int> ranks);

// The message of that error.
std::string DifferentCalls(const std::string& fault);

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_CLIENT_COLLECTIVES_SIGNATURE_H_
