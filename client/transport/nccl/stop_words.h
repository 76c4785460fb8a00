// The stop words of a device (device_context.h): set before a communicator is
// aborted.
//
// Threads: any.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_STOP_WORDS_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_STOP_WORDS_H_

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "client/transport/device_context.h"

namespace lockstep::transport::nccl {

// In pinned memory, which the device reads over its bus.
class PinnedStopWord final : public DeviceContext::StopWord {
 public:
  // `memory`: at least four bytes.
  explicit PinnedStopWord(std::shared_ptr<void> memory)
      : memory_(std::move(memory)) {
    word().store(0, std::memory_order_release);
  }

  const volatile uint32_t* address() const override {
    return static_cast<const volatile uint32_t*>(memory_.get());
  }
  void Set() override { word().store(1, std::memory_order_seq_cst); }
  bool is_set() const override {
    return word().load(std::memory_order_acquire) != 0;
  }

 private:
  std::atomic_ref<uint32_t> word() const {
    return std::atomic_ref<uint32_t>(*static_cast<uint32_t*>(memory_.get()));
  }

  const std::shared_ptr<void> memory_;
};

class StopWords {
 public:
  void Add(std::weak_ptr<DeviceContext::StopWord> word) {
    MutexLock lock(&mutex_);
    std::erase_if(words_, [](const auto& one) { return one.expired(); });
    words_.push_back(std::move(word));
  }

  void SetAll() {
    MutexLock lock(&mutex_);
    for (const auto& one : words_) {
      if (const auto word = one.lock()) word->Set();
    }
  }

 private:
  Mutex mutex_;
  std::vector<std::weak_ptr<DeviceContext::StopWord>> words_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_STOP_WORDS_H_
