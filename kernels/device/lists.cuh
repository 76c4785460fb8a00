// Lists in a kernel's parameters: which tensors a launch works on travels with
// the launch, so there is no table in the device's memory to make, to fill or
// to keep. A captured launch keeps its list.
//
//   host list  [s0 s1 ... s1500]
//   launches   [s0 ... s1023] [s1024 ... s1500]
//
// A short list has a kernel of its own, because a launch copies all of its
// parameters. For kernels/device/*.cu.

#ifndef LOCKSTEP_KERNELS_DEVICE_LISTS_CUH_
#define LOCKSTEP_KERNELS_DEVICE_LISTS_CUH_

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>

#include "kernels/device/launch.h"

namespace lockstep::kernels::device {

inline constexpr size_t kShortList = 8;
// Parameters may take 32,764 bytes.
inline constexpr size_t kLongList = 1024;

template <class T, size_t kCapacity>
struct List {
  static constexpr size_t kItemsMax = kCapacity;
  T items[kCapacity];
  unsigned size;
};

template <class T, size_t kCapacity>
List<T, kCapacity> ListOf(std::span<const T> items) {
  List<T, kCapacity> list;
  std::copy(items.begin(), items.end(), list.items);
  list.size = static_cast<unsigned>(items.size());
  return list;
}

template <class AnyList>
inline constexpr size_t kItemsMaxOf = std::remove_cvref_t<AnyList>::kItemsMax;

// Calls launch(list) for consecutive parts of `items`; the first error ends it.
template <class T, class Launch>
Launched ForLists(std::span<const T> items, Launch launch) {
  Launched launched = kLaunched;
  while (!items.empty() && launched == kLaunched) {
    const std::span<const T> part =
        items.first(std::min(items.size(), kLongList));
    launched = part.size() <= kShortList ? launch(ListOf<T, kShortList>(part))
                                         : launch(ListOf<T, kLongList>(part));
    items = items.subspan(part.size());
  }
  return launched;
}

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_LISTS_CUH_
