// Interfaces that do nothing: the cost of an operation over them is the cost of
// this library.

#ifndef LOCKSTEP_BENCH_IDLE_TABLES_H_
#define LOCKSTEP_BENCH_IDLE_TABLES_H_

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>

#include "tests/support/fake_gpu.h"
#include "tests/support/forwarding_tables.h"

namespace lockstep::bench {

// Streams and events that are always done. The rest is the fake's.
class IdleCuda final : public fake::ForwardingCuda {
 public:
  using ForwardingCuda::ForwardingCuda;
  Result EnterThread(transport::nccl::CudaThread*) override {
    return Result::kSuccess;
  }
  void LeaveThread(const transport::nccl::CudaThread&) override {}
  Result StreamWaitEvent(StreamHandle, EventHandle) override {
    return Result::kSuccess;
  }
  Result EventCreateWithFlags(EventHandle* event, unsigned) override {
    *event = reinterpret_cast<EventHandle>(++events_);
    return Result::kSuccess;
  }
  Result EventRecord(EventHandle, StreamHandle) override {
    return Result::kSuccess;
  }
  Result EventQuery(EventHandle) override { return Result::kSuccess; }
  Result EventDestroy(EventHandle) override { return Result::kSuccess; }
  Result StreamGetCaptureInfo(StreamHandle, CaptureId* id) override {
    *id = 0;
    return Result::kSuccess;
  }

 private:
  std::atomic<uintptr_t> events_{0};
};

// Calls that complete immediately; connecting is the fake's.
class IdleNccl final : public fake::ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  Result GroupStart() override {
    return connected_ ? Result::kSuccess : inner_->GroupStart();
  }
  Result GroupEnd() override {
    return std::exchange(connected_, true) ? Result::kSuccess
                                           : inner_->GroupEnd();
  }
  Result AllReduce(const void*, void*, size_t, DType, Op, Comm,
                   StreamHandle) override {
    return Result::kSuccess;
  }
  Result CommGetAsyncError(Comm, Result* error) override {
    *error = Result::kSuccess;
    return Result::kSuccess;
  }
  Result CommAbort(Comm) override { return Result::kSuccess; }
  Result CommFinalize(Comm) override { return Result::kSuccess; }
  Result CommDestroy(Comm) override { return Result::kSuccess; }

 private:
  bool connected_ = false;
};

inline transport::nccl::Tables IdleTables(fake::FakeGpus* gpus) {
  const transport::nccl::Tables tables = gpus->TablesOf(0);
  return {std::make_shared<IdleNccl>(tables.nccl),
          std::make_shared<IdleCuda>(tables.cuda), tables.kernels};
}

}  // namespace lockstep::bench

#endif  // LOCKSTEP_BENCH_IDLE_TABLES_H_
