// A digits device on a fake GPU: kernels run in stream order, when the fake
// schedules them, on memory that the host cannot access.

#ifndef LOCKSTEP_TESTS_EXAMPLES_DIGITS_FAKE_DEVICE_H_
#define LOCKSTEP_TESTS_EXAMPLES_DIGITS_FAKE_DEVICE_H_

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "client/transport/nccl/cuda_stream.h"
#include "examples/digits/device/device.h"
#include "lockstep/session.h"
#include "tests/support/fake_gpu.h"

namespace lockstep::digits {

class FakeDevice final : public Device {
 public:
  // The arguments must outlive it. `tables` are the rank's. The launch that
  // counts `launches_left` down to 0 fails; null: none does.
  FakeDevice(fake::FakeGpus* gpus, const transport::nccl::Tables& tables,
             Session* session, std::atomic<int>* launches_left = nullptr)
      : gpus_(*gpus),
        session_(*session),
        launches_left_(launches_left),
        stream_(*transport::nccl::CudaStream::Create(tables.cuda.get())) {}

  Stream& stream() override { return *stream_; }

  absl::StatusOr<ArenaBuffer> Allocate(size_t bytes) override {
    return session_.Allocate(bytes);
  }

  absl::Status Launch(const Body<double>& body, int64_t n) override {
    return LaunchAny(body, n);
  }
  absl::Status Launch(const Body<float>& body, int64_t n) override {
    return LaunchAny(body, n);
  }

  absl::Status Upload(const void* from, void* to, size_t bytes) override {
    const auto* data = static_cast<const std::byte*>(from);
    std::vector<std::byte> copy(data, data + bytes);
    return Enqueue([copy = std::move(copy), to = gpus_.Reach(to)] {
      std::memcpy(to, copy.data(), copy.size());
    });
  }

  absl::Status Download(const void* from, void* to, size_t bytes) override {
    absl::Status done = Enqueue([from = gpus_.Reach(from), to, bytes] {
      std::memcpy(to, from, bytes);
    });
    return done.ok() ? stream_->Synchronize() : done;
  }

 private:
  absl::Status Enqueue(std::function<void()> kernel) {
    gpus_.LaunchKernel(stream_->handle(), std::move(kernel));
    return absl::OkStatus();
  }

  template <typename T>
  absl::Status LaunchAny(const Body<T>& body, int64_t n) {
    if (launches_left_ != nullptr && *launches_left_ > 0 &&
        --*launches_left_ == 0) {
      return absl::ResourceExhaustedError("no memory for a launch");
    }
    return std::visit(
        [this, n](const auto& of) {
          return Enqueue([reached = Reached(of), n] {
            for (int64_t i = 0; i < n; ++i) reached(i);
          });
        },
        body);
  }

  // Translates every device address among a kernel's arguments into the host
  // address of its bytes, as an MMU would.
  template <typename B>
  B Reached(const B& body) const {
    static_assert(std::is_trivially_copyable_v<B> &&
                  alignof(B) == alignof(void*));
    // Padding after an odd number of ints must not look like an address.
    B defined = body;
#if __has_builtin(__builtin_clear_padding)
    __builtin_clear_padding(&defined);
#endif
    void* words[sizeof(B) / sizeof(void*)];
    std::memcpy(words, &defined, sizeof(B));
    for (void*& word : words) word = gpus_.Reach(word);
    B reached = body;
    std::memcpy(&reached, words, sizeof(B));
    return reached;
  }

  fake::FakeGpus& gpus_;
  Session& session_;
  std::atomic<int>* const launches_left_;
  const std::unique_ptr<transport::nccl::CudaStream> stream_;
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_TESTS_EXAMPLES_DIGITS_FAKE_DEVICE_H_
