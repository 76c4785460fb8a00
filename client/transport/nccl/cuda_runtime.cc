// The linked runtime, and checks of our declarations of it and of NCCL.

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>
#include <nvtx3/nvToolsExt.h>

#include <cstddef>
#include <mutex>
#include <optional>
#include <type_traits>

#include "client/transport/nccl/event_pool.h"
#include "client/transport/nccl/gpu.h"
#include "client/transport/nccl/nccl_functions.h"

namespace lockstep::transport::nccl {
namespace {

// --- Checks against cuda_runtime_api.h ---

static_assert(std::is_same_v<CudaStreamHandle, cudaStream_t>);
static_assert(std::is_same_v<CudaEventHandle, cudaEvent_t>);
static_assert(std::is_same_v<CudaGraphHandle, cudaGraph_t>);
static_assert(std::is_same_v<CudaGraphExecHandle, cudaGraphExec_t>);
static_assert(static_cast<int>(CudaResult::kSuccess) == cudaSuccess);
static_assert(static_cast<int>(CudaResult::kMemoryAllocation) ==
              cudaErrorMemoryAllocation);
static_assert(static_cast<int>(CudaResult::kInsufficientDriver) ==
              cudaErrorInsufficientDriver);
static_assert(static_cast<int>(CudaResult::kNoDevice) == cudaErrorNoDevice);
static_assert(static_cast<int>(CudaResult::kNotReady) == cudaErrorNotReady);
static_assert(static_cast<int>(CudaResult::kIllegalAddress) ==
              cudaErrorIllegalAddress);
static_assert(static_cast<int>(CudaResult::kCaptureUnsupported) ==
              cudaErrorStreamCaptureUnsupported);
static_assert(static_cast<int>(CudaResult::kCaptureInvalidated) ==
              cudaErrorStreamCaptureInvalidated);
static_assert(static_cast<int>(CudaResult::kCaptureUnjoined) ==
              cudaErrorStreamCaptureUnjoined);
static_assert(static_cast<int>(CudaResult::kCaptureIsolation) ==
              cudaErrorStreamCaptureIsolation);
static_assert(static_cast<int>(CudaResult::kCapturedEvent) ==
              cudaErrorCapturedEvent);
static_assert(kCudaStreamNonBlocking == cudaStreamNonBlocking);
static_assert(kCudaEventDisableTiming == cudaEventDisableTiming);

// --- Checks against nccl.h ---

static_assert(std::is_same_v<NcclComm, ncclComm_t>);
static_assert(sizeof(NcclUniqueId) == sizeof(ncclUniqueId));
static_assert(static_cast<int>(NcclResult::kUnhandledCudaError) ==
              ncclUnhandledCudaError);
static_assert(static_cast<int>(NcclResult::kSystemError) == ncclSystemError);
static_assert(static_cast<int>(NcclResult::kInternalError) ==
              ncclInternalError);
static_assert(static_cast<int>(NcclResult::kInvalidArgument) ==
              ncclInvalidArgument);
static_assert(static_cast<int>(NcclResult::kInvalidUsage) == ncclInvalidUsage);
static_assert(static_cast<int>(NcclResult::kRemoteError) == ncclRemoteError);
static_assert(static_cast<int>(NcclResult::kInProgress) == ncclInProgress);
static_assert(sizeof(NcclResult) == sizeof(ncclResult_t));

static_assert(static_cast<int>(NcclDType::kInt8) == ncclInt8);
static_assert(static_cast<int>(NcclDType::kUint8) == ncclUint8);
static_assert(static_cast<int>(NcclDType::kInt32) == ncclInt32);
static_assert(static_cast<int>(NcclDType::kUint32) == ncclUint32);
static_assert(static_cast<int>(NcclDType::kInt64) == ncclInt64);
static_assert(static_cast<int>(NcclDType::kUint64) == ncclUint64);
static_assert(static_cast<int>(NcclDType::kFloat16) == ncclFloat16);
static_assert(static_cast<int>(NcclDType::kFloat32) == ncclFloat32);
static_assert(static_cast<int>(NcclDType::kFloat64) == ncclFloat64);
static_assert(static_cast<int>(NcclDType::kBfloat16) == ncclBfloat16);
static_assert(static_cast<int>(NcclOp::kSum) == ncclSum);
static_assert(static_cast<int>(NcclOp::kProd) == ncclProd);
static_assert(static_cast<int>(NcclOp::kMax) == ncclMax);
static_assert(static_cast<int>(NcclOp::kMin) == ncclMin);

// NcclConfig is a prefix of ncclConfig_t.
static_assert(sizeof(NcclConfig) <= sizeof(ncclConfig_t));
static_assert(offsetof(NcclConfig, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(NcclConfig, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(NcclConfig, blocking) ==
              offsetof(ncclConfig_t, blocking));
static_assert(offsetof(NcclConfig, cga_cluster_size) ==
              offsetof(ncclConfig_t, cgaClusterSize));
static_assert(offsetof(NcclConfig, min_ctas) ==
              offsetof(ncclConfig_t, minCTAs));
static_assert(offsetof(NcclConfig, max_ctas) ==
              offsetof(ncclConfig_t, maxCTAs));
static_assert(offsetof(NcclConfig, net_name) ==
              offsetof(ncclConfig_t, netName));
static_assert(offsetof(NcclConfig, split_share) ==
              offsetof(ncclConfig_t, splitShare));
static_assert(NCCL_CONFIG_UNDEF_INT == INT_MIN);

// Whether C passes arguments of both types the same way: pointers; integers and
// enums of one size; structs of one size.
template <typename Ours, typename Theirs>
constexpr bool PassedAlike() {
  constexpr auto kIsNumber = [](auto type) {
    using T = typename decltype(type)::type;
    return std::is_integral_v<T> || std::is_enum_v<T>;
  };
  return sizeof(Ours) == sizeof(Theirs) &&
         std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
         std::is_class_v<Ours> == std::is_class_v<Theirs> &&
         kIsNumber(std::type_identity<Ours>()) ==
             kIsNumber(std::type_identity<Theirs>());
}

template <typename R, typename... A, typename S, typename... B>
constexpr bool CalledAlike(R (*)(A...), S (*)(B...)) {
  if constexpr (sizeof...(A) == sizeof...(B)) {
    return PassedAlike<R, S>() && (PassedAlike<A, B>() && ...);
  } else {
    return false;
  }
}

constexpr NcclFunctions kOurs{};
static_assert(CalledAlike(kOurs.GetVersion, ncclGetVersion));
static_assert(CalledAlike(kOurs.GetErrorString, ncclGetErrorString));
static_assert(CalledAlike(kOurs.GetLastError, ncclGetLastError));
static_assert(CalledAlike(kOurs.GetUniqueId, ncclGetUniqueId));
static_assert(CalledAlike(kOurs.CommInitRankConfig, ncclCommInitRankConfig));
static_assert(CalledAlike(kOurs.CommGetAsyncError, ncclCommGetAsyncError));
static_assert(CalledAlike(kOurs.CommFinalize, ncclCommFinalize));
static_assert(CalledAlike(kOurs.CommDestroy, ncclCommDestroy));
static_assert(CalledAlike(kOurs.CommAbort, ncclCommAbort));
static_assert(CalledAlike(kOurs.GroupStart, ncclGroupStart));
static_assert(CalledAlike(kOurs.GroupEnd, ncclGroupEnd));
static_assert(CalledAlike(kOurs.AllReduce, ncclAllReduce));
static_assert(CalledAlike(kOurs.ReduceScatter, ncclReduceScatter));
static_assert(CalledAlike(kOurs.AllGather, ncclAllGather));
static_assert(CalledAlike(kOurs.Broadcast, ncclBroadcast));
static_assert(CalledAlike(kOurs.Send, ncclSend));
static_assert(CalledAlike(kOurs.Recv, ncclRecv));
#if NCCL_VERSION_CODE >= 21900
static_assert(CalledAlike(kOurs.MemAlloc, ncclMemAlloc));
static_assert(CalledAlike(kOurs.MemFree, ncclMemFree));
static_assert(CalledAlike(kOurs.CommRegister, ncclCommRegister));
static_assert(CalledAlike(kOurs.CommDeregister, ncclCommDeregister));
#endif
#if NCCL_VERSION_CODE >= 22700
static_assert(sizeof(NcclWindow) == sizeof(ncclWindow_t));
static_assert(kNcclWindowSymmetric == NCCL_WIN_COLL_SYMMETRIC);
static_assert(CalledAlike(kOurs.CommWindowRegister, ncclCommWindowRegister));
static_assert(CalledAlike(kOurs.CommWindowDeregister,
                          ncclCommWindowDeregister));
#endif

CudaResult Result(cudaError_t result) {
  return static_cast<CudaResult>(result);
}

CudaResult Result(CUresult result) { return static_cast<CudaResult>(result); }
// The driver's error codes equal the runtime's where both have one.
static_assert(static_cast<int>(CUDA_ERROR_OUT_OF_MEMORY) ==
              cudaErrorMemoryAllocation);
static_assert(static_cast<int>(CUDA_ERROR_INVALID_DEVICE) ==
              cudaErrorInvalidDevice);
static_assert(static_cast<int>(CUDA_ERROR_ILLEGAL_ADDRESS) ==
              cudaErrorIllegalAddress);

// Driver calls that the runtime lacks: reading a thread's current context, and
// restoring none. cudaSetDevice creates a context on the device that it
// restores, even if the thread has never used that device: half a gigabyte of
// device 0 for each process of the host.
class Driver {
 public:
  // Makes the primary context of `device`, which the runtime uses, current.
  CudaResult Enter(int device, CUcontext* before) {
    if (CudaResult made = Make(device); made != CudaResult::kSuccess) {
      return made;
    }
    const CUresult asked = get_current_(before);
    if (asked != CUDA_SUCCESS || *before == primary_) return Result(asked);
    return Result(set_current_(primary_));
  }
  void Leave(CUcontext before) {
    if (before != primary_) set_current_(before);
  }
  bool has_context() const { return primary_ != nullptr; }
  // Must be called between Enter and Leave.
  CudaResult DeviceOf(CUstream stream, int* device) {
    CUcontext context = nullptr;
    CUresult asked = stream_context_(stream, &context);
    if (asked != CUDA_SUCCESS) return Result(asked);
    asked = set_current_(context);
    if (asked == CUDA_SUCCESS) asked = current_device_(device);
    set_current_(primary_);
    return Result(asked);
  }

 private:
  // Runs once, on the first Enter. The context is kept until the process ends:
  // destroying it while the runtime shuts down is not safe.
  CudaResult Make(int device) {
    std::call_once(once_, [&] { made_ = Load(device); });
    return made_;
  }
  CudaResult Load(int number) {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr || !Find(library, "cuInit", &init_) ||
        !Find(library, "cuDeviceGet", &device_) ||
        !Find(library, "cuDevicePrimaryCtxRetain", &retain_) ||
        !Find(library, "cuCtxGetCurrent", &get_current_) ||
        !Find(library, "cuCtxSetCurrent", &set_current_) ||
        !Find(library, "cuCtxGetDevice", &current_device_) ||
        !Find(library, "cuStreamGetCtx", &stream_context_)) {
      return CudaResult::kInsufficientDriver;
    }
    CUdevice device = 0;
    CUresult made = init_(0);
    if (made == CUDA_SUCCESS) made = device_(&device, number);
    if (made == CUDA_SUCCESS) made = retain_(&primary_, device);
    return Result(made);
  }

  template <typename F>
  static bool Find(void* library, const char* name, F* function) {
    *function = reinterpret_cast<F>(dlsym(library, name));
    return *function != nullptr;
  }

  std::once_flag once_;
  CudaResult made_ = CudaResult::kSuccess;
  CUcontext primary_ = nullptr;
  CUresult (*init_)(unsigned) = nullptr;
  CUresult (*device_)(CUdevice*, int) = nullptr;
  CUresult (*retain_)(CUcontext*, CUdevice) = nullptr;
  CUresult (*get_current_)(CUcontext*) = nullptr;
  CUresult (*set_current_)(CUcontext) = nullptr;
  CUresult (*current_device_)(CUdevice*) = nullptr;
  CUresult (*stream_context_)(CUstream, CUcontext*) = nullptr;
};
static_assert(std::is_same_v<decltype(&cuInit), CUresult (*)(unsigned)>);
static_assert(
    std::is_same_v<decltype(&cuDeviceGet), CUresult (*)(CUdevice*, int)>);
static_assert(std::is_same_v<decltype(&cuDevicePrimaryCtxRetain),
                             CUresult (*)(CUcontext*, CUdevice)>);
static_assert(
    std::is_same_v<decltype(&cuCtxGetCurrent), CUresult (*)(CUcontext*)>);
static_assert(
    std::is_same_v<decltype(&cuCtxSetCurrent), CUresult (*)(CUcontext)>);
static_assert(
    std::is_same_v<decltype(&cuCtxGetDevice), CUresult (*)(CUdevice*)>);
static_assert(std::is_same_v<decltype(&cuStreamGetCtx),
                             CUresult (*)(CUstream, CUcontext*)>);

class LinkedCuda final : public CudaApi {
 public:
  explicit LinkedCuda(int device) : device_(device) {
    events_.emplace(EventPool::Source{
        [this](CudaEventHandle* event) {
          return Make(event, kCudaEventDisableTiming);
        },
        [](CudaEventHandle event) { return Result(cudaEventDestroy(event)); }});
  }
  ~LinkedCuda() override {
    // Without a context there are no events, and none must be created.
    CudaThread before;
    if (!driver_.has_context()) return;
    const bool entered = EnterThread(&before) == CudaResult::kSuccess;
    events_.reset();
    if (entered) LeaveThread(before);
  }

  CudaResult EnterThread(CudaThread* before) override {
    CUcontext context = nullptr;
    const CudaResult entered = driver_.Enter(device_, &context);
    if (entered != CudaResult::kSuccess) return entered;
    before->context = context;
    auto mode = cudaStreamCaptureModeRelaxed;
    const CudaResult relaxed =
        Result(cudaThreadExchangeStreamCaptureMode(&mode));
    if (relaxed != CudaResult::kSuccess) driver_.Leave(context);
    before->capture_mode = mode;
    return relaxed;
  }
  void LeaveThread(const CudaThread& before) override {
    auto mode = static_cast<cudaStreamCaptureMode>(before.capture_mode);
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    driver_.Leave(static_cast<CUcontext>(before.context));
  }
  CudaResult GetDevice(int* device) override {
    return Result(cudaGetDevice(device));
  }
  CudaResult GetLastError() override { return Result(cudaGetLastError()); }

  CudaResult DriverGetVersion(int* version) override {
    return Result(cudaDriverGetVersion(version));
  }
  CudaResult RuntimeGetVersion(int* version) override {
    return Result(cudaRuntimeGetVersion(version));
  }
  CudaResult GetDeviceCount(int* count) override {
    return Result(cudaGetDeviceCount(count));
  }
  const char* GetErrorString(CudaResult result) override {
    return cudaGetErrorString(static_cast<cudaError_t>(result));
  }

  CudaResult DeviceGetStreamPriorityRange(int* least, int* greatest) override {
    return Result(cudaDeviceGetStreamPriorityRange(least, greatest));
  }
  CudaResult StreamCreateWithPriority(CudaStreamHandle* stream, unsigned flags,
                                      int priority) override {
    return Result(cudaStreamCreateWithPriority(stream, flags, priority));
  }
  CudaResult StreamDestroy(CudaStreamHandle stream) override {
    return Result(cudaStreamDestroy(stream));
  }
  CudaResult StreamSynchronize(CudaStreamHandle stream) override {
    return Result(cudaStreamSynchronize(stream));
  }
  CudaResult StreamGetDevice(CudaStreamHandle stream, int* device) override {
    return driver_.DeviceOf(stream, device);
  }
  CudaResult StreamWaitEvent(CudaStreamHandle stream,
                             CudaEventHandle event) override {
    return Result(cudaStreamWaitEvent(stream, event, 0));
  }
  CudaResult LaunchHostFunc(CudaStreamHandle stream, void (*run)(void*),
                            void* argument) override {
    return Result(cudaLaunchHostFunc(stream, run, argument));
  }

  CudaResult EventCreateWithFlags(CudaEventHandle* event,
                                  unsigned flags) override {
    return flags == kCudaEventDisableTiming ? events_->Take(event)
                                            : Make(event, flags);
  }
  CudaResult EventRecord(CudaEventHandle event,
                         CudaStreamHandle stream) override {
    return Result(cudaEventRecord(event, stream));
  }
  CudaResult EventQuery(CudaEventHandle event) override {
    return Result(cudaEventQuery(event));
  }
  CudaResult EventDestroy(CudaEventHandle event) override {
    events_->GiveBack(event);
    return CudaResult::kSuccess;
  }

  CudaResult Malloc(void** memory, size_t bytes) override {
    return Result(cudaMalloc(memory, bytes));
  }
  CudaResult Free(void* memory) override { return Result(cudaFree(memory)); }
  CudaResult HostAlloc(void** memory, size_t bytes) override {
    return Result(cudaHostAlloc(memory, bytes,
                                cudaHostAllocPortable | cudaHostAllocMapped));
  }
  CudaResult FreeHost(void* memory) override {
    return Result(cudaFreeHost(memory));
  }

  CudaResult MallocAsync(void** memory, size_t bytes,
                         CudaStreamHandle stream) override {
    return Result(cudaMallocAsync(memory, bytes, stream));
  }
  CudaResult FreeAsync(void* memory, CudaStreamHandle stream) override {
    return Result(cudaFreeAsync(memory, stream));
  }
  CudaResult MemcpyAsync(void* to, const void* from, size_t bytes,
                         CudaStreamHandle stream) override {
    return Result(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
  }
  CudaResult MemsetAsync(void* memory, int byte, size_t bytes,
                         CudaStreamHandle stream) override {
    return Result(cudaMemsetAsync(memory, byte, bytes, stream));
  }

  CudaResult StreamBeginCapture(CudaStreamHandle stream) override {
    return Result(
        cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  }
  CudaResult StreamEndCapture(CudaStreamHandle stream,
                              CudaGraphHandle* graph) override {
    return Result(cudaStreamEndCapture(stream, graph));
  }
  CudaResult StreamGetCaptureInfo(CudaStreamHandle stream,
                                  CudaCaptureId* id) override {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    const cudaError_t asked = cudaStreamGetCaptureInfo(stream, &status, id);
    if (status != cudaStreamCaptureStatusActive) *id = 0;
    const bool invalid = status == cudaStreamCaptureStatusInvalidated;
    return Result(asked == cudaSuccess && invalid
                      ? cudaErrorStreamCaptureInvalidated
                      : asked);
  }
  CudaResult CaptureOnRelease(CudaStreamHandle stream, void (*released)(void*),
                              void* argument) override {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaGraph_t graph = nullptr;
#if CUDART_VERSION >= 13000
    cudaError_t done =
        cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph);
#else
    cudaError_t done =
        cudaStreamGetCaptureInfo_v2(stream, &status, nullptr, &graph);
#endif
    if (done == cudaSuccess && graph == nullptr) {
      done = cudaErrorStreamCaptureInvalidated;
    }
    cudaUserObject_t object = nullptr;
    if (done == cudaSuccess) {
      done = cudaUserObjectCreate(&object, argument, released, 1,
                                  cudaUserObjectNoDestructorSync);
    }
    if (done != cudaSuccess) {
      released(argument);
      return Result(done);
    }
    done = cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove);
    // The reference that was not moved; it calls `released`.
    if (done != cudaSuccess) (void)cudaUserObjectRelease(object, 1);
    return Result(done);
  }
  CudaResult GraphInstantiate(CudaGraphExecHandle* exec,
                              CudaGraphHandle graph) override {
    return Result(cudaGraphInstantiate(exec, graph, 0));
  }
  CudaResult GraphLaunch(CudaGraphExecHandle exec,
                         CudaStreamHandle stream) override {
    return Result(cudaGraphLaunch(exec, stream));
  }
  CudaResult GraphExecDestroy(CudaGraphExecHandle exec) override {
    return Result(cudaGraphExecDestroy(exec));
  }
  CudaResult GraphDestroy(CudaGraphHandle graph) override {
    return Result(cudaGraphDestroy(graph));
  }

  void RangePush(const char* name) override { nvtxRangePushA(name); }
  void RangePop() override { nvtxRangePop(); }

 private:
  CudaResult Make(CudaEventHandle* event, unsigned flags) {
    return Result(cudaEventCreateWithFlags(event, flags));
  }

  const int device_;
  Driver driver_;
  std::optional<EventPool> events_;  // without timing, as the adapter uses
};

}  // namespace

absl::StatusOr<std::shared_ptr<CudaApi>> LoadCuda(int device) {
  return std::make_shared<LinkedCuda>(device);
}

}  // namespace lockstep::transport::nccl
