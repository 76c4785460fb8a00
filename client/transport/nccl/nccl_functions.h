// The types of NCCL's functions, one for each method of the table (nccl_api.h):
// nccl_library.cc finds them in the library, and cuda_runtime.cc compares them
// with nccl.h.
//
// An enum is passed as an int, an id by value, as in C.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_NCCL_FUNCTIONS_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_NCCL_FUNCTIONS_H_

#include <cstddef>

#include "client/transport/nccl/nccl_api.h"

namespace lockstep::transport::nccl {

struct NcclFunctions {
  int (*GetVersion)(int*);
  const char* (*GetErrorString)(int);
  const char* (*GetLastError)(NcclComm);
  int (*GetUniqueId)(NcclUniqueId*);
  int (*CommInitRankConfig)(NcclComm*, int, NcclUniqueId, int, NcclConfig*);
  int (*CommGetAsyncError)(NcclComm, NcclResult*);
  int (*CommFinalize)(NcclComm);
  int (*CommDestroy)(NcclComm);
  int (*CommAbort)(NcclComm);
  int (*GroupStart)();
  int (*GroupEnd)();
  int (*AllReduce)(const void*, void*, size_t, int, int, NcclComm,
                   CudaStreamHandle);
  int (*ReduceScatter)(const void*, void*, size_t, int, int, NcclComm,
                       CudaStreamHandle);
  int (*AllGather)(const void*, void*, size_t, int, NcclComm, CudaStreamHandle);
  int (*Broadcast)(const void*, void*, size_t, int, int, NcclComm,
                   CudaStreamHandle);
  int (*Send)(const void*, size_t, int, int, NcclComm, CudaStreamHandle);
  int (*Recv)(void*, size_t, int, int, NcclComm, CudaStreamHandle);
  // Null in releases that lack them.
  int (*MemAlloc)(void**, size_t);
  int (*MemFree)(void*);
  int (*CommRegister)(NcclComm, void*, size_t, void**);
  int (*CommDeregister)(NcclComm, void*);
  int (*CommWindowRegister)(NcclComm, void*, size_t, NcclWindow*, int);
  int (*CommWindowDeregister)(NcclComm, NcclWindow);
};

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_NCCL_FUNCTIONS_H_
