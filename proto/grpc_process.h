// gRPC, from its first use to the end of the process.
//
// The library stops when the last of its objects is destroyed, and its
// destructor then waits for gRPC's threads: up to 10 s for one that polls an
// idle connection. Daemon, workers and tools therefore start it once and leave
// its end to the process.

#ifndef LOCKSTEP_PROTO_GRPC_PROCESS_H_
#define LOCKSTEP_PROTO_GRPC_PROCESS_H_

#include <grpc/grpc.h>

namespace lockstep::proto {

// gRPC ends the process if it finds no descriptor for its loop and its first
// connection: to be asked for (base/open_files.h) before it is started.
inline constexpr int kFilesOfGrpc = 8;

// Before the first server or channel is made. Any thread, any number of times.
inline void StartGrpc() {
  static const bool started = (grpc_init(), true);
  (void)started;
}

}  // namespace lockstep::proto

#endif  // LOCKSTEP_PROTO_GRPC_PROCESS_H_
