// The functions of NCCL that the adapter uses, as a table.
//
// The declarations are our own: NCCL is loaded at run time, and the adapter
// compiles and is tested without it. cuda_runtime.cc compares them with nccl.h
// where that exists.
//
// Threads: any, one call of a communicator at a time (CommState::NcclCall),
//          beside which CommAbort and CommGetAsyncError may be called.
// Errors:  NCCL's numbers; Check (gpu_status.h) converts them to a Status.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_NCCL_API_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_NCCL_API_H_

#include <climits>
#include <cstddef>

#include "client/transport/nccl/cuda_api.h"

struct ncclComm;

namespace lockstep::transport::nccl {

using NcclComm = ncclComm*;

enum class NcclResult : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

enum class NcclDType : int {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
};

enum class NcclOp : int { kSum = 0, kProd = 1, kMax = 2, kMin = 3 };

struct NcclUniqueId {
  char bytes[128];
};

// ncclConfig_t as of 2.18. Later releases accept it: they use `size` and
// `version` and set defaults for newer fields.
struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21800;
  int blocking = INT_MIN;  // INT_MIN: NCCL decides
  int cga_cluster_size = INT_MIN;
  int min_ctas = INT_MIN;
  int max_ctas = INT_MIN;
  const char* net_name = nullptr;
  int split_share = INT_MIN;
};

struct NcclWindowOpaque;
using NcclWindow = NcclWindowOpaque*;
inline constexpr int kNcclWindowSymmetric = 1;

// Functions that a release, or a table, may lack.
enum class NcclPart {
  kMemory,        // MemAlloc, MemFree
  kRegistration,  // CommRegister, CommDeregister: 2.19
  kWindows,       // CommWindowRegister, CommWindowDeregister: 2.27
  kSymmetryTold,  // a null window unless it would be symmetric: 2.29
};

class NcclApi {
 public:
  virtual ~NcclApi() = default;

  virtual NcclResult GetVersion(int* version) = 0;  // 2.28.9 is 22809
  virtual const char* GetErrorString(NcclResult result) = 0;
  virtual const char* GetLastError(NcclComm comm) = 0;

  virtual NcclResult GetUniqueId(NcclUniqueId* id) = 0;
  virtual NcclResult CommInitRankConfig(NcclComm* comm, int size,
                                        const NcclUniqueId& id, int rank,
                                        NcclConfig* config) = 0;
  virtual NcclResult CommGetAsyncError(NcclComm comm, NcclResult* error) = 0;
  virtual NcclResult CommFinalize(NcclComm comm) = 0;
  virtual NcclResult CommDestroy(NcclComm comm) = 0;
  virtual NcclResult CommAbort(NcclComm comm) = 0;

  // --- Registered memory; only if Has returns true for the part ---
  virtual bool Has(NcclPart) const { return false; }
  // Rounds up to megabytes; slow. From any thread, on its current device.
  virtual NcclResult MemAlloc(void**, size_t) { return kLacks; }
  virtual NcclResult MemFree(void*) { return kLacks; }
  // Success with a null handle if registration is switched off.
  virtual NcclResult CommRegister(NcclComm, void*, size_t, void**) {
    return kLacks;
  }
  virtual NcclResult CommDeregister(NcclComm, void*) { return kLacks; }
  // All ranks call it together, with the same number of bytes. Success with a
  // null handle if no window is possible; before 2.29 a window may be only a
  // local registration.
  virtual NcclResult CommWindowRegister(NcclComm, void*, size_t, NcclWindow*,
                                        int) {
    return kLacks;
  }
  virtual NcclResult CommWindowDeregister(NcclComm, NcclWindow) {
    return kLacks;
  }

  virtual NcclResult GroupStart() = 0;
  virtual NcclResult GroupEnd() = 0;

  virtual NcclResult AllReduce(const void* in, void* out, size_t count,
                               NcclDType dtype, NcclOp op, NcclComm comm,
                               CudaStreamHandle stream) = 0;
  virtual NcclResult ReduceScatter(const void* in, void* out, size_t count,
                                   NcclDType dtype, NcclOp op, NcclComm comm,
                                   CudaStreamHandle stream) = 0;
  virtual NcclResult AllGather(const void* in, void* out, size_t count,
                               NcclDType dtype, NcclComm comm,
                               CudaStreamHandle stream) = 0;
  virtual NcclResult Broadcast(const void* in, void* out, size_t count,
                               NcclDType dtype, int root, NcclComm comm,
                               CudaStreamHandle stream) = 0;
  virtual NcclResult Send(const void* buffer, size_t count, NcclDType dtype,
                          int peer, NcclComm comm, CudaStreamHandle stream) = 0;
  virtual NcclResult Recv(void* buffer, size_t count, NcclDType dtype, int peer,
                          NcclComm comm, CudaStreamHandle stream) = 0;

 private:
  static constexpr NcclResult kLacks = NcclResult::kInvalidUsage;
};

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_NCCL_API_H_
