// Tables that forward every call, for tests that replace a few of them.

#ifndef LOCKSTEP_TESTS_SUPPORT_FORWARDING_TABLES_H_
#define LOCKSTEP_TESTS_SUPPORT_FORWARDING_TABLES_H_

#include <memory>
#include <utility>

#include "client/transport/nccl/cuda_api.h"
#include "client/transport/nccl/kernel_api.h"
#include "client/transport/nccl/nccl_api.h"

namespace lockstep::fake {

class ForwardingCuda : public transport::nccl::CudaApi {
 public:
  using Result = transport::nccl::CudaResult;
  using StreamHandle = transport::nccl::CudaStreamHandle;
  using EventHandle = transport::nccl::CudaEventHandle;
  using GraphHandle = transport::nccl::CudaGraphHandle;
  using GraphExecHandle = transport::nccl::CudaGraphExecHandle;
  using CaptureId = transport::nccl::CudaCaptureId;

  explicit ForwardingCuda(std::shared_ptr<CudaApi> inner)
      : inner_(std::move(inner)) {}

  Result EnterThread(transport::nccl::CudaThread* before) override {
    return inner_->EnterThread(before);
  }
  void LeaveThread(const transport::nccl::CudaThread& before) override {
    inner_->LeaveThread(before);
  }
  Result GetDevice(int* device) override { return inner_->GetDevice(device); }
  Result GetLastError() override { return inner_->GetLastError(); }
  Result DriverGetVersion(int* v) override {
    return inner_->DriverGetVersion(v);
  }
  Result RuntimeGetVersion(int* v) override {
    return inner_->RuntimeGetVersion(v);
  }
  Result GetDeviceCount(int* count) override {
    return inner_->GetDeviceCount(count);
  }
  const char* GetErrorString(Result result) override {
    return inner_->GetErrorString(result);
  }
  Result DeviceGetStreamPriorityRange(int* least, int* greatest) override {
    return inner_->DeviceGetStreamPriorityRange(least, greatest);
  }
  Result StreamCreateWithPriority(StreamHandle* stream, unsigned flags,
                                  int priority) override {
    return inner_->StreamCreateWithPriority(stream, flags, priority);
  }
  Result StreamDestroy(StreamHandle stream) override {
    return inner_->StreamDestroy(stream);
  }
  Result StreamSynchronize(StreamHandle stream) override {
    return inner_->StreamSynchronize(stream);
  }
  Result StreamGetDevice(StreamHandle stream, int* device) override {
    return inner_->StreamGetDevice(stream, device);
  }
  Result StreamWaitEvent(StreamHandle stream, EventHandle event) override {
    return inner_->StreamWaitEvent(stream, event);
  }
  Result LaunchHostFunc(StreamHandle stream, void (*run)(void*),
                        void* argument) override {
    return inner_->LaunchHostFunc(stream, run, argument);
  }
  Result EventCreateWithFlags(EventHandle* event, unsigned flags) override {
    return inner_->EventCreateWithFlags(event, flags);
  }
  Result EventRecord(EventHandle event, StreamHandle stream) override {
    return inner_->EventRecord(event, stream);
  }
  Result EventQuery(EventHandle event) override {
    return inner_->EventQuery(event);
  }
  Result EventDestroy(EventHandle event) override {
    return inner_->EventDestroy(event);
  }
  Result Malloc(void** memory, size_t bytes) override {
    return inner_->Malloc(memory, bytes);
  }
  Result Free(void* memory) override { return inner_->Free(memory); }
  Result HostAlloc(void** memory, size_t bytes) override {
    return inner_->HostAlloc(memory, bytes);
  }
  Result FreeHost(void* memory) override { return inner_->FreeHost(memory); }
  Result MallocAsync(void** memory, size_t bytes,
                     StreamHandle stream) override {
    return inner_->MallocAsync(memory, bytes, stream);
  }
  Result FreeAsync(void* memory, StreamHandle stream) override {
    return inner_->FreeAsync(memory, stream);
  }
  Result MemcpyAsync(void* to, const void* from, size_t bytes,
                     StreamHandle stream) override {
    return inner_->MemcpyAsync(to, from, bytes, stream);
  }
  Result MemsetAsync(void* memory, int byte, size_t bytes,
                     StreamHandle stream) override {
    return inner_->MemsetAsync(memory, byte, bytes, stream);
  }
  Result StreamBeginCapture(StreamHandle stream) override {
    return inner_->StreamBeginCapture(stream);
  }
  Result StreamEndCapture(StreamHandle stream, GraphHandle* graph) override {
    return inner_->StreamEndCapture(stream, graph);
  }
  Result CaptureOnRelease(StreamHandle stream, void (*released)(void*),
                          void* argument) override {
    return inner_->CaptureOnRelease(stream, released, argument);
  }
  Result StreamGetCaptureInfo(StreamHandle stream, CaptureId* id) override {
    return inner_->StreamGetCaptureInfo(stream, id);
  }
  Result GraphInstantiate(GraphExecHandle* exec, GraphHandle graph) override {
    return inner_->GraphInstantiate(exec, graph);
  }
  Result GraphLaunch(GraphExecHandle exec, StreamHandle stream) override {
    return inner_->GraphLaunch(exec, stream);
  }
  Result GraphExecDestroy(GraphExecHandle exec) override {
    return inner_->GraphExecDestroy(exec);
  }
  Result GraphDestroy(GraphHandle graph) override {
    return inner_->GraphDestroy(graph);
  }
  void RangePush(const char* name) override { inner_->RangePush(name); }
  void RangePop() override { inner_->RangePop(); }

 protected:
  const std::shared_ptr<CudaApi> inner_;
};

class ForwardingKernels : public transport::nccl::KernelApi {
 public:
  using Result = transport::nccl::CudaResult;
  using StreamHandle = transport::nccl::CudaStreamHandle;

  explicit ForwardingKernels(std::shared_ptr<KernelApi> inner)
      : inner_(std::move(inner)) {}

  Result Pack(Slots slots, DType dtype, void* bucket,
              StreamHandle stream) override {
    return inner_->Pack(slots, dtype, bucket, stream);
  }
  Result PackScaled(Slots slots, DType dtype, double weight, void* bucket,
                    StreamHandle stream) override {
    return inner_->PackScaled(slots, dtype, weight, bucket, stream);
  }
  Result PackAdded(Slots slots, DType dtype, double weight, void* bucket,
                   StreamHandle stream) override {
    return inner_->PackAdded(slots, dtype, weight, bucket, stream);
  }
  Result Unpack(const void* bucket, Slots slots, DType dtype,
                StreamHandle stream) override {
    return inner_->Unpack(bucket, slots, dtype, stream);
  }
  Result UnpackScaled(const void* bucket, Slots slots, DType dtype,
                      double factor, StreamHandle stream) override {
    return inner_->UnpackScaled(bucket, slots, dtype, factor, stream);
  }
  Result ScaleSlots(void* bucket, Slots slots, DType dtype, double factor,
                    StreamHandle stream) override {
    return inner_->ScaleSlots(bucket, slots, dtype, factor, stream);
  }
  Result ZeroSlots(void* bucket, Slots slots, DType dtype,
                   StreamHandle stream) override {
    return inner_->ZeroSlots(bucket, slots, dtype, stream);
  }
  Result WriteFlags(std::span<const uint8_t> on, DType dtype, void* flags,
                    StreamHandle stream) override {
    return inner_->WriteFlags(on, dtype, flags, stream);
  }
  Result CastScale(const void* src, DType src_dtype, double factor, void* dst,
                   DType dst_dtype, size_t count,
                   StreamHandle stream) override {
    return inner_->CastScale(src, src_dtype, factor, dst, dst_dtype, count,
                             stream);
  }
  Result CastFeedback(const void* src, const void* residual, DType src_dtype,
                      void* dst, DType dst_dtype, void* next, size_t count,
                      StreamHandle stream) override {
    return inner_->CastFeedback(src, residual, src_dtype, dst, dst_dtype, next,
                                count, stream);
  }
  Result ReduceRows(const void* inputs, int rows, void* out, size_t count,
                    DType dtype, ReduceOp op, StreamHandle stream) override {
    return inner_->ReduceRows(inputs, rows, out, count, dtype, op, stream);
  }
  Result AddLeaf(std::span<const void* const> left, const void* leaf,
                 DType dtype, double weight, void* out, DType out_dtype,
                 size_t count, StreamHandle stream) override {
    return inner_->AddLeaf(left, leaf, dtype, weight, out, out_dtype, count,
                           stream);
  }
  Result ReducePairs(const void* inputs, int rows, DType dtype, double factor,
                     void* out, DType out_dtype, size_t count,
                     StreamHandle stream) override {
    return inner_->ReducePairs(inputs, rows, dtype, factor, out, out_dtype,
                               count, stream);
  }
  Result AddFiniteCheck(const void* data, DType dtype, Ranges ranges,
                        double inverse_scale, void* scratch,
                        kernels::FiniteCheck* total,
                        StreamHandle stream) override {
    return inner_->AddFiniteCheck(data, dtype, ranges, inverse_scale, scratch,
                                  total, stream);
  }
  Result ScaleAndCheck(void* data, DType dtype, double factor,
                       const kernels::ElementRange& scaled, Ranges checked,
                       void* scratch, kernels::FiniteCheck* total,
                       StreamHandle stream) override {
    return inner_->ScaleAndCheck(data, dtype, factor, scaled, checked, scratch,
                                 total, stream);
  }
  Result RunLocalStep(const kernels::LocalStep& step,
                      StreamHandle stream) override {
    return inner_->RunLocalStep(step, stream);
  }
  Result CopyBoxes(Boxes boxes, Inputs in, Outputs out,
                   StreamHandle stream) override {
    return inner_->CopyBoxes(boxes, in, out, stream);
  }
  Result FillBoxes(BoxFills fills, Outputs out, StreamHandle stream) override {
    return inner_->FillBoxes(fills, out, stream);
  }
  Result SumBoxes(Boxes boxes, Inputs in, Outputs out, bool add,
                  StreamHandle stream) override {
    return inner_->SumBoxes(boxes, in, out, add, stream);
  }
  Result BeginReplay(const kernels::GateContext& context,
                     StreamHandle stream) override {
    return inner_->BeginReplay(context, stream);
  }
  Result WriteStepRecord(const kernels::GateContext& context,
                         kernels::FiniteCheck* norm,
                         kernels::StepRecord* record,
                         StreamHandle stream) override {
    return inner_->WriteStepRecord(context, norm, record, stream);
  }
  Result VerifyTiles(const kernels::GateContext& context,
                     const kernels::StepRecord* records,
                     StreamHandle stream) override {
    return inner_->VerifyTiles(context, records, stream);
  }
  Result GateStep(const kernels::GateContext& context,
                  const kernels::StepRecord* own,
                  const kernels::StepRecord* records, VerdictScalars* scalars,
                  StreamHandle stream) override {
    return inner_->GateStep(context, own, records, scalars, stream);
  }
  Result CommitCopy(const VerdictScalars* verdict, const void* from, void* to,
                    size_t bytes, StreamHandle stream) override {
    return inner_->CommitCopy(verdict, from, to, bytes, stream);
  }
  Result CommitUnpack(const VerdictScalars* verdict, const void* bucket,
                      Slots slots, DType dtype, StreamHandle stream) override {
    return inner_->CommitUnpack(verdict, bucket, slots, dtype, stream);
  }

 protected:
  const std::shared_ptr<KernelApi> inner_;
};

class ForwardingNccl : public transport::nccl::NcclApi {
 public:
  using Result = transport::nccl::NcclResult;
  using DType = transport::nccl::NcclDType;
  using Op = transport::nccl::NcclOp;
  using Comm = transport::nccl::NcclComm;
  using Id = transport::nccl::NcclUniqueId;
  using Config = transport::nccl::NcclConfig;
  using StreamHandle = transport::nccl::CudaStreamHandle;

  explicit ForwardingNccl(std::shared_ptr<NcclApi> inner)
      : inner_(std::move(inner)) {}

  Result GetVersion(int* version) override {
    return inner_->GetVersion(version);
  }
  const char* GetErrorString(Result result) override {
    return inner_->GetErrorString(result);
  }
  const char* GetLastError(Comm comm) override {
    return inner_->GetLastError(comm);
  }
  Result GetUniqueId(Id* id) override { return inner_->GetUniqueId(id); }
  Result CommInitRankConfig(Comm* comm, int size, const Id& id, int rank,
                            Config* config) override {
    return inner_->CommInitRankConfig(comm, size, id, rank, config);
  }
  Result CommGetAsyncError(Comm comm, Result* error) override {
    return inner_->CommGetAsyncError(comm, error);
  }
  Result CommFinalize(Comm comm) override { return inner_->CommFinalize(comm); }
  Result CommDestroy(Comm comm) override { return inner_->CommDestroy(comm); }
  Result CommAbort(Comm comm) override { return inner_->CommAbort(comm); }
  bool Has(transport::nccl::NcclPart part) const override {
    return inner_->Has(part);
  }
  Result MemAlloc(void** memory, size_t bytes) override {
    return inner_->MemAlloc(memory, bytes);
  }
  Result MemFree(void* memory) override { return inner_->MemFree(memory); }
  Result CommRegister(Comm comm, void* memory, size_t bytes,
                      void** handle) override {
    return inner_->CommRegister(comm, memory, bytes, handle);
  }
  Result CommDeregister(Comm comm, void* handle) override {
    return inner_->CommDeregister(comm, handle);
  }
  Result CommWindowRegister(Comm comm, void* memory, size_t bytes,
                            transport::nccl::NcclWindow* window,
                            int flags) override {
    return inner_->CommWindowRegister(comm, memory, bytes, window, flags);
  }
  Result CommWindowDeregister(Comm comm,
                              transport::nccl::NcclWindow window) override {
    return inner_->CommWindowDeregister(comm, window);
  }
  Result GroupStart() override { return inner_->GroupStart(); }
  Result GroupEnd() override { return inner_->GroupEnd(); }
  Result AllReduce(const void* in, void* out, size_t count, DType dtype, Op op,
                   Comm comm, StreamHandle stream) override {
    return inner_->AllReduce(in, out, count, dtype, op, comm, stream);
  }
  Result ReduceScatter(const void* in, void* out, size_t count, DType dtype,
                       Op op, Comm comm, StreamHandle stream) override {
    return inner_->ReduceScatter(in, out, count, dtype, op, comm, stream);
  }
  Result AllGather(const void* in, void* out, size_t count, DType dtype,
                   Comm comm, StreamHandle stream) override {
    return inner_->AllGather(in, out, count, dtype, comm, stream);
  }
  Result Broadcast(const void* in, void* out, size_t count, DType dtype,
                   int root, Comm comm, StreamHandle stream) override {
    return inner_->Broadcast(in, out, count, dtype, root, comm, stream);
  }
  Result Send(const void* buffer, size_t count, DType dtype, int peer,
              Comm comm, StreamHandle stream) override {
    return inner_->Send(buffer, count, dtype, peer, comm, stream);
  }
  Result Recv(void* buffer, size_t count, DType dtype, int peer, Comm comm,
              StreamHandle stream) override {
    return inner_->Recv(buffer, count, dtype, peer, comm, stream);
  }

 protected:
  const std::shared_ptr<NcclApi> inner_;
};

}  // namespace lockstep::fake

#endif  // LOCKSTEP_TESTS_SUPPORT_FORWARDING_TABLES_H_
