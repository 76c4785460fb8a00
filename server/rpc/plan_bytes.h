// Serialised plans, shared by all workers that fetch them.
//
// Threads: all methods from any thread. The first caller serialises, the others
// wait for it.

#ifndef LOCKSTEP_SERVER_RPC_PLAN_BYTES_H_
#define LOCKSTEP_SERVER_RPC_PLAN_BYTES_H_

#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "plan/ir.h"

namespace lockstep::rpc {

class PlanBytes {
 public:
  // `plan` is immutable and has this digest. The bytes are cached while a
  // caller holds them; those of the last call stay cached until the next.
  std::shared_ptr<const std::string> Of(const std::string& digest,
                                        const plan::Plan& plan);

 private:
  Mutex mutex_;
  std::map<std::string, std::weak_ptr<const std::string>> known_
      ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const std::string> last_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_RPC_PLAN_BYTES_H_
