// Lists in kernel parameters: the tensors of a launch are passed with the
// launch, so no table in device memory is allocated, filled or kept. A captured
// launch keeps its list.
//
//   host list  [s0 s1 ... s1500]
//   launches   [s0 ... s1023] [s1024 ... s1500]
//
// Short lists have a separate kernel, because a launch copies all of its
// parameters. Internal to kernels/device/*.cu.

#ifndef LOCKSTEP_KERNELS_DEVICE_LISTS_CUH_
#define LOCKSTEP_KERNELS_DEVICE_LISTS_CUH_

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>

#include "kernels/device/launch.h"

namespace lockstep::kernels::device {

inline constexpr size_t kShortList = 8;
// Kernel parameters are limited to 32,764 bytes.
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

// Calls launch(list) for consecutive parts of `items`; stops at the first
// error.
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
