// The header that Gloo's tcp/pair.h and tcp/unbound_buffer.h include and that
// Debian's libgloo-dev (2022-05) does not package. Searched last, so that a
// real one takes precedence.
//
// Handles to a buffer that its user owns and Gloo's thread accesses: a
// shared_ptr that frees nothing, whose use count shows whether an access is in
// progress. The library was compiled with classes of this layout, and creates
// them; this code only reads them.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_GLOO_COMPAT_GLOO_COMMON_MEMORY_H_
#define LOCKSTEP_CLIENT_TRANSPORT_GLOO_COMPAT_GLOO_COMMON_MEMORY_H_

#include <memory>

namespace gloo {

// The owner's handle. Only the library constructs and destroys it: its
// destructor, which is not here, waits for accesses to end.
template <typename T>
class ShareableNonOwningPtr final {
 public:
  std::shared_ptr<T> ptr_;
};

// A handle that may be locked for an access.
template <typename T>
class WeakNonOwningPtr final {
 public:
  WeakNonOwningPtr() = default;
  explicit WeakNonOwningPtr(const ShareableNonOwningPtr<T>& own)
      : ptr_(own.ptr_) {}

  // Whether this was ever a handle to an object, destroyed or not.
  explicit operator bool() const noexcept {
    const std::weak_ptr<T> nothing;
    return ptr_.owner_before(nothing) || nothing.owner_before(ptr_);
  }

  std::weak_ptr<T> ptr_;
};

// An access: the object's destructor waits for it. False if the object is gone.
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
