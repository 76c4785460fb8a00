// Starts gRPC for the lifetime of the process.
//
// gRPC stops when its last object is destroyed, and its destructor then waits
// for gRPC's threads: up to 10 s for a thread that polls an idle connection. So
// daemon, workers and tools start it once and never stop it.

#ifndef LOCKSTEP_PROTO_GRPC_PROCESS_H_
#define LOCKSTEP_PROTO_GRPC_PROCESS_H_

#include <grpc/grpc.h>

namespace lockstep::proto {

// gRPC aborts the process if there are no descriptors for its loop and its
// first connection: check (base/open_files.h) before starting it.
inline constexpr int kFilesOfGrpc = 8;

// Call before creating the first server or channel. Any thread, any number of
// times.
inline void StartGrpc() {
  static const bool started = (grpc_init(), true);
  (void)started;
}

}  // namespace lockstep::proto

#endif  // LOCKSTEP_PROTO_GRPC_PROCESS_H_
