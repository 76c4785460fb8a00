// Registers a network's gradients in a job, binds them to their views in the
// buckets, and binds them again whenever the buckets move.
//
// `Net` has parameters(), pointers to objects with name(), shape() and
// BindGradient(T*); it must outlive this object.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_BOUND_GRADIENTS_H_
#define LOCKSTEP_EXAMPLES_DIGITS_BOUND_GRADIENTS_H_

#include <functional>
#include <map>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/gradient_sync.h"
#include "lockstep/session.h"

namespace lockstep::digits {

template <typename T>
constexpr DType kDType = sizeof(T) == 8 ? DType::kF64 : DType::kF32;

template <typename T, typename Net>
class BoundGradients {
 public:
  using Parameter = std::remove_pointer_t<typename std::decay_t<
      decltype(std::declval<Net&>().parameters())>::value_type>;

  // Blocks until every rank of the job has called it. `registered` is called
  // for each parameter, in order, before the sync is sealed.
  using Registered =
      std::function<absl::Status(GradientSync&, ParameterId, Parameter&)>;
  static absl::StatusOr<BoundGradients> Bind(
      Net& network, Session& session, const Registered& registered = {}) {
    absl::StatusOr<std::unique_ptr<GradientSync>> sync =
        GradientSync::Create(session);
    if (!sync.ok()) return sync.status();
    BoundGradients bound;
    bound.sync_ = *std::move(sync);
    for (Parameter* parameter : network.parameters()) {
      // The loss is already the mean over the global batch: gradients are
      // summed.
      absl::StatusOr<ParameterId> id =
          bound.sync_->Register({.name = parameter->name(),
                                 .shape = parameter->shape(),
                                 .dtype = kDType<T>,
                                 .op = ReduceOp::kSum});
      if (!id.ok()) return id.status();
      bound.ids_[parameter] = *id;
      if (!registered) continue;
      absl::Status noted = registered(*bound.sync_, *id, *parameter);
      if (!noted.ok()) return noted;
    }
    if (absl::Status sealed = bound.sync_->Seal(); !sealed.ok()) return sealed;
    bound.sync_->OnMoved([sync = bound.sync_.get(), ids = bound.ids_] {
      BindViews(*sync, ids).IgnoreError();  // there are views between steps
    });
    if (absl::Status has = bound.BindViews(); !has.ok()) return has;
    return bound;
  }

  // Binds the gradients to the views of the step that begins. Needed in each
  // step of a job with run_ahead.
  absl::Status BindViews() { return BindViews(*sync_, ids_); }

  // For jobs whose ranks update slices: binds the values to the library's
  // memory, and this process updates its slice of each, until Settle.
  void BindValues() {
    for (const auto& [parameter, id] : ids_) {
      const ParameterSlice slice = *sync_->Slice(id);
      parameter->BindValue(sync_->template Value<T>(id)->data(),
                           {.offset = slice.offset, .count = slice.count});
    }
  }
  absl::Status Await(Parameter& parameter) {
    return sync_->AwaitParameter(ids_.at(&parameter));
  }
  // Copies the parameters of all ranks after the last step to the network's
  // memory.
  absl::Status Settle() {
    absl::Status settled = sync_->GatherParameters();
    for (const auto& [parameter, id] : ids_) {
      if (settled.ok()) settled = sync_->AwaitParameter(id);
      if (settled.ok()) parameter->UnbindValue();
    }
    return settled;
  }

  // Announces all parameters, since this network's graph never changes.
  absl::Status BeginPass() {
    std::vector<ParameterId> all;
    for (const auto& [parameter, id] : ids_) all.push_back(id);
    return sync_->BeginPass(all);
  }
  absl::Status Submit(Parameter& parameter) {
    return sync_->Submit(ids_.at(&parameter));
  }
  absl::Status Submit(Parameter& parameter, Stream& stream) {
    return sync_->Submit(ids_.at(&parameter), stream);
  }
  GradientSync& sync() { return *sync_; }

 private:
  using Ids = std::map<Parameter*, ParameterId>;

  static absl::Status BindViews(GradientSync& sync, const Ids& ids) {
    for (const auto& [parameter, id] : ids) {
      const auto view = sync.template Gradient<T>(id);
      if (!view.ok()) return view.status();
      parameter->BindGradient(view->data());
    }
    return absl::OkStatus();
  }

  std::unique_ptr<GradientSync> sync_;
  Ids ids_;
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_BOUND_GRADIENTS_H_
