// Negotiated mode: the engine's part in beginning a pass and in executing the
// coordinator's decisions.

#include <utility>

#include "client/gradient/engine.h"

namespace lockstep::gradient {

using protocol::Phase;

absl::Status Engine::BeginPass(const std::vector<int>& parameters) {
  if (absl::Status over = ended(); !over.ok()) return over;
  if (!negotiates()) {
    return absl::FailedPreconditionError(
        "BeginPass in a job whose spec does not say sync: negotiated");
  }
  {
    MutexLock lock(&mutex_);
    if (steps_.count() > 0) return NotWaitedFor();
    absl::Status begun =
        parameters.empty() ? absl::OkStatus() : supply_.CheckSubmit();
    if (begun.ok()) begun = tracker_.BeginPass(parameters);
    if (!begun.ok()) return begun;
  }
  if (absl::Status forgot = ForgetUnannounced(parameters); !forgot.ok()) {
    Fail(-1, forgot);
    return forgot;
  }
  pass_lane_->Begin(parameters);
  agreement_.Enter(Phase::kCompute);
  protocol::Announce announce{.pass = agreement_.steps()};
  for (const int parameter : parameters) {
    announce.parameters.push_back(facts_[parameter].plan_index);
  }
  options_.announce(std::move(announce));
  return absl::OkStatus();
}

absl::Status Engine::BeginPassIfNone() {
  if (!negotiates()) return absl::OkStatus();
  {
    MutexLock lock(&mutex_);
    if (steps_.count() > 0) return NotWaitedFor();
    if (tracker_.has_begun()) return absl::OkStatus();
  }
  return BeginPass({});
}

// Clears flags and gradients of the last pass. No reduction of this pass is
// launched before this rank has announced, so nothing reads them.
absl::Status Engine::ForgetUnannounced(const std::vector<int>& announced) {
  BucketStore& store = versions_->current().store();
  std::vector<bool> is_announced(facts_.size());
  for (const int parameter : announced) is_announced[parameter] = true;
  for (size_t p = 0; p < facts_.size(); ++p) {
    if (!is_announced[p]) store.SetFlag(static_cast<int>(p), false);
  }
  std::vector<int> forgotten;
  for (const int before : announced_) {
    if (!is_announced[before]) forgotten.push_back(before);
  }
  announced_ = announced;
  return forgotten.empty() ? absl::OkStatus() : ZeroNow(forgotten);
}

// Runs on the comm queue, after earlier reductions, so that a failed launch
// does not run its failure handling on the caller's thread.
void Engine::Decide(std::vector<protocol::Decision> decisions) {
  executor_.Run(
      [this, decisions = std::move(decisions)](KernelQueue& kernel_queue) {
        if (!kernel_queue.status().ok()) return Fail(-1, kernel_queue.status());
        for (const protocol::Decision& decision : decisions) {
          pass_lane_->Decide(decision);
        }
      });
}

void Engine::LaunchDecided(int parameter, const BucketStore::Share& share) {
  Layout& layout = versions_->current();
  layout.store().SetShare(layout.store().PlaceOf(parameter).bucket, share);
  absl::Status ready = executor_.MarkReady(layout.TransferOf(parameter));
  if (!ready.ok()) Fail(-1, ready);
}

void Engine::CloseDecided(std::vector<int> untouched) {
  Layout& layout = versions_->current();
  if (!untouched.empty()) {
    executor_.Run([this, &layout, parameters = std::move(untouched)](
                      KernelQueue& kernel_queue) {
      for (const int p : parameters) layout.store().Zero(kernel_queue, p);
      if (!kernel_queue.status().ok()) Fail(-1, kernel_queue.status());
    });
  }
  absl::Status ready = executor_.MarkReady(layout.verdict());
  if (!ready.ok()) Fail(-1, ready);
}

}  // namespace lockstep::gradient
