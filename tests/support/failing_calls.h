// Calls of a device that fail although the device goes on, as without memory.

#ifndef LOCKSTEP_TESTS_SUPPORT_FAILING_CALLS_H_
#define LOCKSTEP_TESTS_SUPPORT_FAILING_CALLS_H_

#include <atomic>
#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/transport/nccl/comm_state.h"
#include "tests/support/forwarding_tables.h"

namespace lockstep::fake {

// Threads: any.
class FailingCalls {
 public:
  enum class Call { kNone, kRecord, kPack };

  void Decorate(transport::nccl::Tables* tables);

  // The next such call finds that its capture is invalid.
  void FailNext(Call call) { next_ = call; }
  // The `calls`-th call that enqueues something finds no memory; 0: none does.
  // `captured`: of those on a stream that is captured.
  void FailAt(int calls, bool captured) {
    captured_ = captured;
    was_wait_ = false;
    has_failed_ = false;
    left_ = calls;
  }
  // A call that fails returns once the device has done what its stream had
  // before.
  void FailLate() { late_ = true; }
  // All later calls fail, too, until End.
  void FailLastingly() { lastingly_ = true; }
  bool has_failed() const { return has_failed_; }
  // Returns whether that call came.
  bool End() {
    left_ = 0;
    return has_failed_;
  }
  // Whether it was to make a stream wait.
  bool was_wait() const { return was_wait_; }

 private:
  using Result = transport::nccl::CudaResult;
  using StreamHandle = transport::nccl::CudaStreamHandle;
  class Cuda;
  class Kernels;

  Result Refusal(StreamHandle stream, Call call = Call::kNone) {
    if (call != Call::kNone) {
      Call expected = call;
      if (next_.compare_exchange_strong(expected, Call::kNone)) {
        return Result::kCaptureInvalidated;
      }
    }
    if (captured_ && !IsCaptured(stream)) return Result::kSuccess;
    for (int left = left_; left > 0;) {
      const int next = lastingly_ && left == 1 ? 1 : left - 1;
      if (!left_.compare_exchange_weak(left, next)) continue;
      if (left > 1) return Result::kSuccess;
      has_failed_ = true;
      if (late_ && !IsCaptured(stream)) AwaitDevice(stream);
      return Result::kMemoryAllocation;
    }
    return Result::kSuccess;
  }

  void AwaitDevice(StreamHandle stream) {
    transport::nccl::CudaEventHandle done = nullptr;
    cuda_->EventCreateWithFlags(&done, 0);
    cuda_->EventRecord(done, stream);
    while (cuda_->EventQuery(done) == Result::kNotReady) {
      absl::SleepFor(absl::Microseconds(100));
    }
    cuda_->EventDestroy(done);
    absl::SleepFor(absl::Milliseconds(5));  // other streams wait for this one
  }

  bool IsCaptured(StreamHandle stream) const {
    transport::nccl::CudaCaptureId id = 0;
    return cuda_->StreamGetCaptureInfo(stream, &id) == Result::kSuccess &&
           id != 0;
  }

  std::shared_ptr<transport::nccl::CudaApi> cuda_;
  std::atomic<Call> next_{Call::kNone};
  std::atomic<bool> captured_{false};
  std::atomic<bool> late_{false};
  std::atomic<bool> lastingly_{false};
  std::atomic<bool> has_failed_{false};
  std::atomic<bool> was_wait_{false};
  std::atomic<int> left_{0};
};

class FailingCalls::Cuda final : public ForwardingCuda {
 public:
  Cuda(std::shared_ptr<CudaApi> inner, FailingCalls* calls)
      : ForwardingCuda(std::move(inner)), calls_(*calls) {}

  Result EventRecord(EventHandle event, StreamHandle stream) override {
    const Result refusal = calls_.Refusal(stream, Call::kRecord);
    if (refusal != Result::kSuccess) return refusal;
    return ForwardingCuda::EventRecord(event, stream);
  }
  Result StreamWaitEvent(StreamHandle stream, EventHandle event) override {
    const Result refusal = calls_.Refusal(stream);
    if (refusal != Result::kSuccess) calls_.was_wait_ = true;
    if (refusal != Result::kSuccess) return refusal;
    return ForwardingCuda::StreamWaitEvent(stream, event);
  }
  Result CaptureOnRelease(StreamHandle stream, void (*released)(void*),
                          void* argument) override {
    const Result refusal = calls_.Refusal(stream);
    if (refusal != Result::kSuccess) {
      released(argument);  // as the call does when it fails
      return refusal;
    }
    return ForwardingCuda::CaptureOnRelease(stream, released, argument);
  }
  Result GraphLaunch(GraphExecHandle exec, StreamHandle stream) override {
    const Result refusal = calls_.Refusal(stream);
    if (refusal != Result::kSuccess) return refusal;
    return ForwardingCuda::GraphLaunch(exec, stream);
  }
  Result MemcpyAsync(void* to, const void* from, size_t bytes,
                     StreamHandle stream) override {
    const Result refusal = calls_.Refusal(stream);
    if (refusal != Result::kSuccess) return refusal;
    return ForwardingCuda::MemcpyAsync(to, from, bytes, stream);
  }
  Result MemsetAsync(void* memory, int byte, size_t bytes,
                     StreamHandle stream) override {
    const Result refusal = calls_.Refusal(stream);
    if (refusal != Result::kSuccess) return refusal;
    return ForwardingCuda::MemsetAsync(memory, byte, bytes, stream);
  }

 private:
  FailingCalls& calls_;
};

class FailingCalls::Kernels final : public ForwardingKernels {
 public:
  Kernels(std::shared_ptr<KernelApi> inner, FailingCalls* calls)
      : ForwardingKernels(std::move(inner)), calls_(*calls) {}

  Result Pack(Slots slots, DType dtype, void* bucket,
              StreamHandle stream) override {
    const Result refusal = calls_.Refusal(stream, Call::kPack);
    if (refusal != Result::kSuccess) return refusal;
    return ForwardingKernels::Pack(slots, dtype, bucket, stream);
  }
  Result WriteFlags(std::span<const uint8_t> on, DType dtype, void* flags,
                    StreamHandle stream) override {
    const Result refusal = calls_.Refusal(stream);
    if (refusal != Result::kSuccess) return refusal;
    return ForwardingKernels::WriteFlags(on, dtype, flags, stream);
  }
  Result AddFiniteCheck(const void* data, DType dtype, Ranges ranges,
                        double inverse_scale, void* scratch,
                        kernels::FiniteCheck* total,
                        StreamHandle stream) override {
    const Result refusal = calls_.Refusal(stream);
    if (refusal != Result::kSuccess) return refusal;
    return ForwardingKernels::AddFiniteCheck(data, dtype, ranges, inverse_scale,
                                             scratch, total, stream);
  }
  Result BeginReplay(const kernels::GateContext& context,
                     StreamHandle stream) override {
    const Result refusal = calls_.Refusal(stream);
    if (refusal != Result::kSuccess) return refusal;
    return ForwardingKernels::BeginReplay(context, stream);
  }
  Result WriteStepRecord(const kernels::GateContext& context,
                         kernels::FiniteCheck* norm,
                         kernels::StepRecord* record,
                         StreamHandle stream) override {
    const Result refusal = calls_.Refusal(stream);
    if (refusal != Result::kSuccess) return refusal;
    return ForwardingKernels::WriteStepRecord(context, norm, record, stream);
  }
  Result GateStep(const kernels::GateContext& context,
                  const kernels::StepRecord* own,
                  const kernels::StepRecord* records, VerdictScalars* scalars,
                  StreamHandle stream) override {
    const Result refusal = calls_.Refusal(stream);
    if (refusal != Result::kSuccess) return refusal;
    return ForwardingKernels::GateStep(context, own, records, scalars, stream);
  }

 private:
  FailingCalls& calls_;
};

inline void FailingCalls::Decorate(transport::nccl::Tables* tables) {
  cuda_ = tables->cuda;
  tables->cuda = std::make_shared<Cuda>(tables->cuda, this);
  tables->kernels = std::make_shared<Kernels>(tables->kernels, this);
}

}  // namespace lockstep::fake

#endif  // LOCKSTEP_TESTS_SUPPORT_FAILING_CALLS_H_
