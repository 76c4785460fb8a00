// A group of ranks in which a worker runs collectives over named axes, as it
// declares it (Session::Group). All members must declare it.

#ifndef LOCKSTEP_PROTOCOL_AXIS_GROUP_H_
#define LOCKSTEP_PROTOCOL_AXIS_GROUP_H_

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep::protocol {

// Bounds of what one rank declares, so that it fits in a message.
inline constexpr size_t kAxisGroupsMax = 256;
inline constexpr size_t kGroupIndicesMax = 65'536;  // of all its groups

struct AxisGroupDeclaration {
  // The ranks that differ only in these mesh axes, row-major in this order.
  std::vector<std::string> axes;
  // Indices of these ranks, divided into groups. Empty: one group.
  std::vector<std::vector<int>> index_groups;
  auto operator<=>(const AxisGroupDeclaration&) const = default;
};

// "data+model", "data[0,2|1,3]", "no axes". Of many index groups the first, and
// a digest: different declarations have different texts.
std::string Describe(const AxisGroupDeclaration& group);

}  // namespace lockstep::protocol

#endif  // LOCKSTEP_PROTOCOL_AXIS_GROUP_H_
