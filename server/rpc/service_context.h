// What every Lockstep RPC handler needs.

#ifndef LOCKSTEP_SERVER_RPC_SERVICE_CONTEXT_H_
#define LOCKSTEP_SERVER_RPC_SERVICE_CONTEXT_H_

#include <string>

#include "protocol/ids.h"
#include "server/rpc/limits.h"
#include "server/rpc/live_tokens.h"
#include "server/rpc/open_calls.h"
#include "server/runtime/coordinator_loop.h"

namespace lockstep::rpc {

// Shared by reference with the services; outlives the server.
struct ServiceContext {
  runtime::CoordinatorLoop* loop;
  OpenCalls* calls;
  const LiveTokens* tokens;
  RpcLimits* limits;
  LeaderTerm term;
  std::string version;  // of the daemon
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_RPC_SERVICE_CONTEXT_H_
