// The header that Gloo's tcp/pair.h and tcp/unbound_buffer.h include and that
// Debian's libgloo-dev (2022-05) does not package. Searched last, so that a
// real one wins.
//
// Handles on a buffer that its user owns and Gloo's thread visits: a shared_ptr
// that frees nothing, whose use count says whether somebody visits. The library
// was compiled with classes of this layout, and makes them; we look through
// them.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_GLOO_COMPAT_GLOO_COMMON_MEMORY_H_
#define LOCKSTEP_CLIENT_TRANSPORT_GLOO_COMPAT_GLOO_COMMON_MEMORY_H_

#include <memory>

namespace gloo {

// The buffer's own. Constructed and destroyed by the library alone: its
// destructor, which is not here, waits until nobody visits.
template <typename T>
class ShareableNonOwningPtr final {
 public:
  std::shared_ptr<T> ptr_;
};

// Somebody may visit.
template <typename T>
class WeakNonOwningPtr final {
 public:
  WeakNonOwningPtr() = default;
  explicit WeakNonOwningPtr(const ShareableNonOwningPtr<T>& own)
      : ptr_(own.ptr_) {}

  // Whether this was ever a handle on anything, gone or not.
  explicit operator bool() const noexcept {
    const std::weak_ptr<T> nothing;
    return ptr_.owner_before(nothing) || nothing.owner_before(ptr_);
  }

  std::weak_ptr<T> ptr_;
};

// Somebody visits: the object's destructor waits. False if it is gone.
template <typename T>
class NonOwningPtr final {
 public:
  NonOwningPtr() = default;
  explicit NonOwningPtr(const WeakNonOwningPtr<T>& weak)
      : ptr_(weak.ptr_.lock()) {}
  explicit operator bool() const noexcept { return ptr_ != nullptr; }

 private:
  std::shared_ptr<T> ptr_;
};

}  // namespace gloo

#endif  // LOCKSTEP_CLIENT_TRANSPORT_GLOO_COMPAT_GLOO_COMMON_MEMORY_H_
