// What the adapter uses of the CUDA runtime, as a table of functions.
//
// The declarations are our own, so that the adapter compiles and is tested
// where there is no CUDA; cuda_runtime.cc checks them against
// cuda_runtime_api.h and is compiled only where that exists. Each method is the
// runtime's function of the same name, for the device of the table, which must
// be the calling thread's: calls are made inside a DeviceScope
// (device_scope.h), but for those that say that they need none.
//
// Threads: any, as CUDA's.
// Errors:  CUDA's numbers; Check (gpu_status.h) makes them a Status. CUDA also
//          keeps the last error of each thread. Ours are returned, so whoever
//          gets an error takes it from there with GetLastError (Check does):
//          the caller's own code would find it, and take it for its own. After
//          a success the last error is not touched: it is the caller's.

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
  kIllegalAddress = 700,  // as others, it stays: all later calls return it
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureUnjoined = 904,
  kCaptureIsolation = 905,
  kCapturedEvent = 907,
};

inline constexpr unsigned kCudaStreamNonBlocking = 1;
inline constexpr unsigned kCudaEventDisableTiming = 2;

// What a thread has as its own, of which CUDA keeps one for each: the current
// device, as the driver's context (null: none yet), and how it stands to
// captures of others.
struct CudaThread {
  void* context = nullptr;
  int capture_mode = 0;
};

class CudaApi {
 public:
  virtual ~CudaApi() = default;

  // --- The calling thread (device_scope.h); no scope is needed ---
  // Makes the device its current one, and captures of others no concern of
  // its: cudaStreamCaptureModeRelaxed. An error changes nothing.
  virtual CudaResult EnterThread(CudaThread* before) = 0;
  virtual void LeaveThread(const CudaThread& before) = 0;
  // Which device is its current one.
  virtual CudaResult GetDevice(int* device) = 0;
  virtual CudaResult GetLastError() = 0;

  // --- What is there; no scope is needed ---
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

  // --- Memory; slow, and waits for the device: at Join ---
  virtual CudaResult Malloc(void** memory, size_t bytes) = 0;
  virtual CudaResult Free(void* memory) = 0;
  // Of the host, pinned: the device reads and writes it at the same address.
  virtual CudaResult HostAlloc(void** memory, size_t bytes) = 0;
  virtual CudaResult FreeHost(void* memory) = 0;

  // --- Memory, in the order of a stream ---
  virtual CudaResult MallocAsync(void** memory, size_t bytes,
                                 CudaStreamHandle stream) = 0;
  virtual CudaResult FreeAsync(void* memory, CudaStreamHandle stream) = 0;
  // Host memory must be HostAlloc's, or the call may wait for the stream.
  virtual CudaResult MemcpyAsync(void* to, const void* from, size_t bytes,
                                 CudaStreamHandle stream) = 0;
  virtual CudaResult MemsetAsync(void* memory, int byte, size_t bytes,
                                 CudaStreamHandle stream) = 0;

  // --- Graphs ---
  // The mode is thread-local: other threads may do what they like meanwhile,
  // and EndCapture must come from this one.
  virtual CudaResult StreamBeginCapture(CudaStreamHandle stream) = 0;
  virtual CudaResult StreamEndCapture(CudaStreamHandle stream,
                                      CudaGraphHandle* graph) = 0;
  // Which capture what is enqueued on `stream` now becomes part of; 0: none.
  virtual CudaResult StreamGetCaptureInfo(CudaStreamHandle stream,
                                          CudaCaptureId* id) = 0;
  virtual CudaResult GraphInstantiate(CudaGraphExecHandle* exec,
                                      CudaGraphHandle graph) = 0;
  virtual CudaResult GraphLaunch(CudaGraphExecHandle exec,
                                 CudaStreamHandle stream) = 0;
  // A launch that runs goes on.
  virtual CudaResult GraphExecDestroy(CudaGraphExecHandle exec) = 0;
  virtual CudaResult GraphDestroy(CudaGraphHandle graph) = 0;

  // --- Ranges that profilers show (NVTX, where it was found) ---
  virtual void RangePush(const char* name) = 0;
  virtual void RangePop() = 0;
};

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_API_H_
