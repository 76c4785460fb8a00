// The functions of the CUDA runtime that the adapter uses, as a table.
//
// The declarations are our own, so that the adapter compiles and is tested
// without CUDA. cuda_runtime.cc checks them against cuda_runtime_api.h and is
// compiled only where that exists. Each method is the runtime's function of the
// same name, for the table's device, which must be the calling thread's current
// device: calls are made inside a DeviceScope (device_scope.h), unless stated
// otherwise.
//
// Threads: any, as CUDA's.
// Errors:  CUDA's numbers; Check (gpu_status.h) converts them to a Status. CUDA
//          also keeps the last error of each thread. Our errors are returned,
//          so the receiver of an error clears it with GetLastError (Check does
//          so): the caller's code would take it for its own. After a success
//          the last error is not changed: it is the caller's.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_API_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_API_H_

#include <cstddef>

struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphExec_st;

namespace lockstep::transport::nccl {

using CudaStreamHandle = CUstream_st*;
using CudaEventHandle = CUevent_st*;
using CudaGraphHandle = CUgraph_st*;
using CudaGraphExecHandle = CUgraphExec_st*;
using CudaCaptureId = unsigned long long;

enum class CudaResult : int {
  kSuccess = 0,
  kMemoryAllocation = 2,
  kInsufficientDriver = 35,
  kNoDevice = 100,
  kNotReady = 600,
  kIllegalAddress = 700,  // sticky, as others: all later calls return it
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureUnjoined = 904,
  kCaptureIsolation = 905,
  kCapturedEvent = 907,
};

inline constexpr unsigned kCudaStreamNonBlocking = 1;
inline constexpr unsigned kCudaEventDisableTiming = 2;

// Per-thread state of CUDA: the current device, as the driver's context (null:
// none yet), and the thread's stream capture mode.
struct CudaThread {
  void* context = nullptr;
  int capture_mode = 0;
};

class CudaApi {
 public:
  virtual ~CudaApi() = default;

  // --- The calling thread (device_scope.h); no scope is needed ---
  // Makes the device current, and sets cudaStreamCaptureModeRelaxed, so that
  // captures of other threads are not affected. An error changes nothing.
  virtual CudaResult EnterThread(CudaThread* before) = 0;
  virtual void LeaveThread(const CudaThread& before) = 0;
  // The calling thread's current device.
  virtual CudaResult GetDevice(int* device) = 0;
  virtual CudaResult GetLastError() = 0;

  // --- Versions and devices; no scope is needed ---
  virtual CudaResult DriverGetVersion(int* version) = 0;  // 0: no driver
  virtual CudaResult RuntimeGetVersion(int* version) = 0;
  virtual CudaResult GetDeviceCount(int* count) = 0;
  virtual const char* GetErrorString(CudaResult result) = 0;

  // --- Streams ---
  virtual CudaResult DeviceGetStreamPriorityRange(int* least,
                                                  int* greatest) = 0;
  virtual CudaResult StreamCreateWithPriority(CudaStreamHandle* stream,
                                              unsigned flags, int priority) = 0;
  virtual CudaResult StreamDestroy(CudaStreamHandle stream) = 0;
  virtual CudaResult StreamSynchronize(CudaStreamHandle stream) = 0;
  virtual CudaResult StreamGetDevice(CudaStreamHandle stream, int* device) = 0;
  virtual CudaResult StreamWaitEvent(CudaStreamHandle stream,
                                     CudaEventHandle event) = 0;
  virtual CudaResult LaunchHostFunc(CudaStreamHandle stream, void (*run)(void*),
                                    void* argument) = 0;

  // --- Events ---
  virtual CudaResult EventCreateWithFlags(CudaEventHandle* event,
                                          unsigned flags) = 0;
  virtual CudaResult EventRecord(CudaEventHandle event,
                                 CudaStreamHandle stream) = 0;
  virtual CudaResult EventQuery(CudaEventHandle event) = 0;
  // No scope is needed.
  virtual CudaResult EventDestroy(CudaEventHandle event) = 0;

  // --- Memory; slow, and waits for the device: use at Join ---
  virtual CudaResult Malloc(void** memory, size_t bytes) = 0;
  virtual CudaResult Free(void* memory) = 0;
  // Pinned host memory; the device accesses it at the same address.
  virtual CudaResult HostAlloc(void** memory, size_t bytes) = 0;
  virtual CudaResult FreeHost(void* memory) = 0;

  // --- Stream-ordered memory ---
  virtual CudaResult MallocAsync(void** memory, size_t bytes,
                                 CudaStreamHandle stream) = 0;
  virtual CudaResult FreeAsync(void* memory, CudaStreamHandle stream) = 0;
  // Host memory must be HostAlloc's, or the call may wait for the stream.
  virtual CudaResult MemcpyAsync(void* to, const void* from, size_t bytes,
                                 CudaStreamHandle stream) = 0;
  virtual CudaResult MemsetAsync(void* memory, int byte, size_t bytes,
                                 CudaStreamHandle stream) = 0;

  // --- Graphs ---
  // The capture mode is thread-local: other threads are not restricted, and
  // EndCapture must be called by this one.
  virtual CudaResult StreamBeginCapture(CudaStreamHandle stream) = 0;
  virtual CudaResult StreamEndCapture(CudaStreamHandle stream,
                                      CudaGraphHandle* graph) = 0;
  // The capture that work enqueued on `stream` now becomes part of; 0: none.
  virtual CudaResult StreamGetCaptureInfo(CudaStreamHandle stream,
                                          CudaCaptureId* id) = 0;
  // Calls `released` once: when the graph of the capture that `stream` is part
  // of and all that was instantiated from it are destroyed, or if the call
  // fails. On any thread: it must be short, and call nothing of CUDA.
  virtual CudaResult CaptureOnRelease(CudaStreamHandle stream,
                                      void (*released)(void*),
                                      void* argument) = 0;
  virtual CudaResult GraphInstantiate(CudaGraphExecHandle* exec,
                                      CudaGraphHandle graph) = 0;
  virtual CudaResult GraphLaunch(CudaGraphExecHandle exec,
                                 CudaStreamHandle stream) = 0;
  // A running launch continues.
  virtual CudaResult GraphExecDestroy(CudaGraphExecHandle exec) = 0;
  virtual CudaResult GraphDestroy(CudaGraphHandle graph) = 0;

  // --- Profiler ranges (NVTX, if it was found) ---
  virtual void RangePush(const char* name) = 0;
  virtual void RangePop() = 0;
};

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_API_H_
