// The flags of lockstepd that set its limits (docs/security.md, Limits).

#ifndef LOCKSTEP_SERVER_LIMIT_FLAGS_H_
#define LOCKSTEP_SERVER_LIMIT_FLAGS_H_

#include <cstdint>

#include "base/command_line.h"
#include "server/core/limits.h"
#include "server/rpc/limits.h"
#include "server/runtime/hello_waits.h"

namespace lockstep {

// Initialised with the defaults.
class LimitFlags {
 public:
  // The object must outlive the parsing of the command line.
  void AddTo(const CommandLine& line);

  core::LimitValues core() const;
  runtime::HelloLimits hello() const;
  rpc::RpcLimitValues rpc() const;

 private:
  core::LimitValues core_;
  runtime::HelloLimits hello_;
  rpc::RpcLimitValues rpc_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_SERVER_LIMIT_FLAGS_H_
