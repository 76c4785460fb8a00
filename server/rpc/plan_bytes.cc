#include "server/rpc/plan_bytes.h"

#include <memory>
#include <string>

#include "proto/plan_chunks.h"

namespace lockstep::rpc {

std::shared_ptr<const std::string> PlanBytes::Of(const std::string& digest,
                                                 const plan::Plan& plan) {
  MutexLock lock(&mutex_);
  last_ = known_[digest].lock();
  if (last_ == nullptr) {
    last_ = std::make_shared<const std::string>(proto::PlanBytes(plan));
    known_[digest] = last_;
  }
  std::erase_if(known_,
                [](const auto& entry) { return entry.second.expired(); });
  return last_;
}

}  // namespace lockstep::rpc
