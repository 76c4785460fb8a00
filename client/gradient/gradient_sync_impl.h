// The implementation of GradientSync.

#ifndef LOCKSTEP_CLIENT_GRADIENT_GRADIENT_SYNC_IMPL_H_
#define LOCKSTEP_CLIENT_GRADIENT_GRADIENT_SYNC_IMPL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/gradient/bucket_rebuilder.h"
#include "client/gradient/engine.h"
#include "client/session/session_impl.h"
#include "lockstep/gradient_sync.h"

namespace lockstep {

// Connects a session, which talks to the coordinator, to an engine, which does
// not.
class GradientSync::Impl {
 public:
  explicit Impl(Session& session) : session_(session.impl()) {}

  ~Impl() {
    if (engine_ == nullptr) return;
    // The position stays valid once this object is gone. A rank that has failed
    // reports the failure instead.
    const bool healthy = engine_->healthy();
    engine_->Rest();
    // It may be taking memory, which waits for the device: for steps that the
    // call above has ended.
    rebuilder_.reset();
    protocol::Progress last = engine_->progress();
    last.withdrawn = healthy;
    session_.SetLastProgress(std::move(last));
    session_.RemoveStepOwner();
    session_.SetDecisionSink({});
    session_.SetViewListener(nullptr);
    session_.RemoveWatch(watch_);
    if (drainer_.joinable()) drainer_.join();
  }

  absl::StatusOr<ParameterId> Register(const ParameterOptions& options);
  absl::Status Seal();
  absl::Status ScaleLossOnDevice(const LossScaler::Options& options);
  absl::Status RegisterState(int parameter, const ParameterState& state);
  absl::Status SetSliceMemory(int parameter, const std::string& suffix,
                              void* data);

  // Returns the error of a wrong call unchanged. After a failed transfer,
  // returns its cause, which the coordinator sends within moments.
  absl::Status Explained(const char* call, const absl::Status& error) {
    if (error.ok() || engine_->healthy()) return error;
    return session_.Explain(call, error);
  }

  // The program has ended a step: the one behind it begins with the state as it
  // is now, if the launch commits.
  void KeepStepScoped(uint64_t launch) {
    session_.state().KeepStepScoped(session_.first_step() + launch + 1);
  }

  absl::Status BeginReplays() {
    absl::Status may = session_.state().ForbidStepScoped();
    return may.ok() ? engine_->BeginReplays() : may;
  }

  // FailedPrecondition before Seal.
  absl::Status CheckSealed() const {
    if (engine_ != nullptr) return absl::OkStatus();
    return absl::FailedPreconditionError("Seal was not called, or has failed");
  }

  // Before Seal there is no engine: the value is kept for it.
  void SetMicroBatchWeight(double weight) {
    weight_ = weight;
    if (sealed()) engine_->SetMicroBatchWeight(weight);
  }
  Overlap overlap() const {
    return sealed() ? engine_->overlap() : session_.spec().overlap;
  }
  void OnMoved(std::function<void()> handler) {
    if (!sealed()) {
      on_moved_ = std::move(handler);
      return;
    }
    engine_->OnMoved(std::move(handler));
    if (rebuilder_ != nullptr) rebuilder_->Look();
  }

  // Call CheckSealed first.
  gradient::Engine& engine() const { return *engine_; }
  bool sealed() const { return engine_ != nullptr; }
  // Digests the parameter's values; ReportValueDigests sends all digests.
  absl::Status CompareValue(int parameter, const void* value, size_t bytes);
  void CompareBeforeGather();
  void CompareGathered(int parameter);
  void ReportValueDigests();
  const std::vector<std::string>& names() const { return names_; }

 private:
  // The ids of a parameter's state.
  struct RegisteredParameter {
    StateId value;
    std::map<std::string, StateId> slices;  // by suffix
  };

  absl::Status CheckRegistered(int parameter) const;
  absl::Status SetValueMemory();
  absl::Status MakeEngine(PlanInEffect plan);
  gradient::EngineOptions OptionsFor(PlanInEffect plan);
  absl::StatusOr<std::unique_ptr<transport::BufferRegistration>> RegisterBuffer(
      Communicator& communicator, const ArenaBuffer& buffer);
  // Whether only the slice that this rank updates is set (not zero).
  bool HasItsSliceAlone(int parameter);
  void OnFailure(int communicator, const absl::Status& error);
  void OnEpochEnded(const absl::Status& cause);
  // The session learns where this rank ended, or leaves.
  void ReportPosition();

  Session::Impl& session_;
  std::vector<Parameter> parameters_;
  std::vector<std::string> names_;
  std::vector<int> uses_;
  std::map<std::string, int> index_;
  std::map<int, RegisteredParameter> states_;  // by parameter
  std::vector<std::vector<int>> groups_;  // by communicator: its world ranks
  std::function<void()> on_moved_;
  double weight_ = 1;  // of micro-batches
  std::optional<gradient::DeviceLossScale> loss_scale_;
  std::map<uint32_t, uint64_t> digests_;  // of values, by index in the plan
  bool value_digests_are_reported_ = false;
  bool has_gathered_ = false;
  std::unique_ptr<gradient::Engine> engine_;
  std::unique_ptr<gradient::BucketRebuilder> rebuilder_;
  uint64_t watch_ = 0;
  std::thread drainer_;  // started once the epoch has ended
};

}  // namespace lockstep

#endif  // LOCKSTEP_CLIENT_GRADIENT_GRADIENT_SYNC_IMPL_H_
