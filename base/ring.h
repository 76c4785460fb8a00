// A FIFO queue that keeps its memory: once it has reached its maximum length,
// it does not allocate. std::deque allocates and frees a block every few
// elements.
//
// T: default constructible, movable. Threads: not thread-safe.

#ifndef LOCKSTEP_BASE_RING_H_
#define LOCKSTEP_BASE_RING_H_

#include <cstddef>
#include <utility>
#include <vector>

namespace lockstep {

template <typename T>
class Ring {
 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }

  void push_back(T value) {
    if (size_ == slots_.size()) Grow();
    slots_[(first_ + size_) % slots_.size()] = std::move(value);
    ++size_;
  }

  // Removes and returns the oldest element, which must exist; its slot becomes
  // empty.
  T pop_front() {
    T value = std::exchange(slots_[first_], T());
    first_ = (first_ + 1) % slots_.size();
    --size_;
    return value;
  }

 private:
  void Grow() {
    std::vector<T> larger(slots_.empty() ? 16 : 2 * slots_.size());
    for (size_t i = 0; i < size_; ++i) {
      larger[i] = std::move(slots_[(first_ + i) % slots_.size()]);
    }
    slots_ = std::move(larger);
    first_ = 0;
  }

  std::vector<T> slots_;
  size_t first_ = 0;
  size_t size_ = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_RING_H_
