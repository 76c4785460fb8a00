#include "kernels/copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/copy.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Explicit vectors: the compiler would turn a plain loop over bytes into a call
// of memcpy again. `store`(vector, to) stores them.
template <class Store>
HWY_INLINE void CopyBy(Store store, uint8_t* dst, const uint8_t* src,
                       size_t bytes) {
  const hn::ScalableTag<uint8_t> tag;
  const size_t width = hn::Lanes(tag);
  size_t i = 0;
  for (; i + 4 * width <= bytes; i += 4 * width) {
    const auto a = hn::LoadU(tag, src + i);
    const auto b = hn::LoadU(tag, src + i + width);
    const auto c = hn::LoadU(tag, src + i + 2 * width);
    const auto d = hn::LoadU(tag, src + i + 3 * width);
    store(a, dst + i);
    store(b, dst + i + width);
    store(c, dst + i + 2 * width);
    store(d, dst + i + 3 * width);
  }
  if (i < bytes) std::memcpy(dst + i, src + i, bytes - i);
}

void CopyVectors(uint8_t* dst, const uint8_t* src, size_t bytes) {
  const hn::ScalableTag<uint8_t> tag;
  CopyBy([tag](auto v, uint8_t* to) { hn::StoreU(v, tag, to); }, dst, src,
         bytes);
}

// Non-temporal stores of whole cache lines do not read the destination.
void CopyVectorsPast(uint8_t* dst, const uint8_t* src, size_t bytes) {
  const hn::ScalableTag<uint8_t> tag;
  const size_t to_line =
      std::min<size_t>(-reinterpret_cast<uintptr_t>(dst) % 64, bytes);
  if (to_line > 0) std::memcpy(dst, src, to_line);
  CopyBy([tag](auto v, uint8_t* to) { hn::Stream(v, tag, to); }, dst + to_line,
         src + to_line, bytes - to_line);
  hwy::FlushStream();
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {

// The C library copies this much and more by one instruction (copy.h).
constexpr size_t kInstructionBytes = 8 << 10;
constexpr uintptr_t kPageBytes = 4096;
constexpr uintptr_t kLittle = 1024;

// Whether the destination lies a little behind the source, modulo the page.
static bool IsLittleBehind(const void* dst, const void* src) {
  const uintptr_t behind =
      reinterpret_cast<uintptr_t>(dst) - reinterpret_cast<uintptr_t>(src);
  return behind % kPageBytes - 1 < kLittle;
}

HWY_EXPORT(CopyVectors);
HWY_EXPORT(CopyVectorsPast);

void Copy(void* dst, const void* src, size_t bytes) {
  if (bytes >= kInstructionBytes && !IsLittleBehind(dst, src)) {
    std::memcpy(dst, src, bytes);
    return;
  }
  HWY_DYNAMIC_DISPATCH(CopyVectors)
  (static_cast<uint8_t*>(dst), static_cast<const uint8_t*>(src), bytes);
}

void CopyPastCaches(void* dst, const void* src, size_t bytes) {
  HWY_DYNAMIC_DISPATCH(CopyVectorsPast)
  (static_cast<uint8_t*>(dst), static_cast<const uint8_t*>(src), bytes);
}

}  // namespace lockstep::kernels
#endif  // HWY_ONCE
