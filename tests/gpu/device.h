// The GPU of this machine, for tests: whether it has one, and device memory.

#ifndef LOCKSTEP_TESTS_GPU_DEVICE_H_
#define LOCKSTEP_TESTS_GPU_DEVICE_H_

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep::gpu {

// Empty if kernels can run here; otherwise the reason: no driver, an old
// driver, or no device.
std::string WhyNoGpu();

// Exits the process with the error if `error` (a cudaError_t) is one.
void Require(int error, const char* what);

// Waits for all work on the device.
void Synchronize();

// Device memory.
class Memory {
 public:
  explicit Memory(size_t bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* data() const { return data_; }
  void Write(const void* from, size_t bytes);
  void Read(void* to, size_t bytes) const;

 private:
  std::byte* data_ = nullptr;
};

// A vector's elements on the device, after `skipped` unused elements.
template <class T>
class Row {
 public:
  explicit Row(const std::vector<T>& values, size_t skipped = 0)
      : skipped_(skipped),
        size_(values.size()),
        memory_((skipped + values.size() + 1) * sizeof(T)) {
    std::vector<T> all(skipped);
    all.insert(all.end(), values.begin(), values.end());
    memory_.Write(all.data(), all.size() * sizeof(T));
  }
  T* data() const { return reinterpret_cast<T*>(memory_.data()) + skipped_; }
  std::vector<T> Values() const {
    std::vector<T> all(skipped_ + size_);
    memory_.Read(all.data(), all.size() * sizeof(T));
    return {all.begin() + static_cast<ptrdiff_t>(skipped_), all.end()};
  }

 private:
  const size_t skipped_;
  const size_t size_;
  Memory memory_;
};

}  // namespace lockstep::gpu

#endif  // LOCKSTEP_TESTS_GPU_DEVICE_H_
