// What every Lockstep RPC handler needs.

#ifndef LOCKSTEP_SERVER_RPC_SERVICE_CONTEXT_H_
#define LOCKSTEP_SERVER_RPC_SERVICE_CONTEXT_H_

#include "protocol/ids.h"
#include "server/rpc/open_calls.h"
#include "server/rpc/token_gate.h"
#include "server/runtime/coordinator_loop.h"

namespace lockstep::rpc {

// Shared by reference with the services; outlives the server.
struct ServiceContext {
  runtime::CoordinatorLoop* loop;
  OpenCalls* calls;
  TokenGate gate;
  LeaderTerm term;
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_RPC_SERVICE_CONTEXT_H_
