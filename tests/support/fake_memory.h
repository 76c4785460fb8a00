// Memory of devices that are none: at an address where the host cannot read or
// write it.
//
//   what Malloc gives   [ no access      ]  a host that looks there crashes
//   what kernels see    [ the same bytes ]  at another address: Reach
//
// So code that takes device memory for its own is found at once, and so is one
// that uses it after it was freed. Fresh memory is full of 0xff.
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
  // False if there is no such memory.
  bool Free(void* memory);

  // Where the host finds what lies at a device's address; any other address is
  // itself (memory of the host, which devices here reach too).
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
