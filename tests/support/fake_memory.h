// Memory of fake devices, at addresses that the host cannot access.
//
//   address from Malloc  [ no access      ]  a host access crashes
//   address from Reach   [ the same bytes ]  kernels use this one
//
// So host code that accesses device memory, and any use after a free, is found
// at once. Fresh memory is full of 0xff.
//
// Threads: not thread-safe.

#ifndef LOCKSTEP_TESTS_SUPPORT_FAKE_MEMORY_H_
#define LOCKSTEP_TESTS_SUPPORT_FAKE_MEMORY_H_

#include <cstddef>
#include <map>

namespace lockstep::fake {

class DeviceMemory {
 public:
  DeviceMemory() = default;
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void* Allocate(size_t bytes);
  // Returns false if there is no such memory.
  bool Free(void* memory);

  // Translates a device address into one that the host can access, and returns
  // any other address unchanged (host memory, which fake devices access too).
  template <typename T>
  T* Reach(T* address) const {
    return static_cast<T*>(const_cast<void*>(Find(address)));
  }

 private:
  struct Block {
    size_t bytes;
    std::byte* reached;
  };
  const void* Find(const void* address) const;

  std::map<const std::byte*, Block> blocks_;
};

}  // namespace lockstep::fake

#endif  // LOCKSTEP_TESTS_SUPPORT_FAKE_MEMORY_H_
