// GradientSync calls that register the state of parameters.

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/gradient/gradient_sync_impl.h"
#include "protocol/parameter.h"

namespace lockstep {
namespace {

absl::Status CheckValue(const Parameter& parameter, SyncMode sync,
                        const void* value) {
  if (sync == SyncMode::kReduceScatter && value != nullptr) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "the state of %s has a value; with sync: reduce_scatter the library "
        "has the values",
        parameter.name));
  }
  if (sync != SyncMode::kReduceScatter && value == nullptr &&
      ElementsOf(parameter) > 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("the state of %s has no value", parameter.name));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status GradientSync::Impl::CheckRegistered(int parameter) const {
  if (parameter >= 0 && parameter < static_cast<int>(parameters_.size())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("parameter %d is not registered: there are %d", parameter,
                      parameters_.size()));
}

absl::Status GradientSync::Impl::RegisterState(int parameter,
                                               const ParameterState& state) {
  if (absl::Status known = CheckRegistered(parameter); !known.ok()) {
    return known;
  }
  const Parameter& of = parameters_[static_cast<size_t>(parameter)];
  const SyncMode sync = session_.spec().sync;
  absl::Status value = CheckValue(of, sync, state.value);
  if (!value.ok()) return value;
  StateSpec spec{.name = of.name,
                 .dtype = of.dtype,
                 .shape = of.shape,
                 .cuts = state.cuts};
  if (sync == SyncMode::kReduceScatter) spec.sliced_like = of.name;
  const auto registered = session_.RegisterState(spec, state.value);
  if (!registered.ok()) return registered.status();
  RegisteredParameter& ids = states_[parameter];
  ids.value = *registered;
  spec.sliced_like = of.name;
  for (const OptimizerSlice& slice : state.slices) {
    spec.name = absl::StrCat(of.name, ".", slice.suffix);
    spec.dtype = slice.dtype;
    const auto added = session_.RegisterState(spec, nullptr);
    if (!added.ok()) return added.status();
    ids.slices[slice.suffix] = *added;
  }
  return absl::OkStatus();
}

absl::Status GradientSync::Impl::SetSliceMemory(int parameter,
                                                const std::string& suffix,
                                                void* data) {
  if (absl::Status known = CheckRegistered(parameter); !known.ok()) {
    return known;
  }
  const auto state = states_.find(parameter);
  if (state != states_.end()) {
    const auto slice = state->second.slices.find(suffix);
    if (slice != state->second.slices.end()) {
      return session_.state().SetMemory(slice->second, data);
    }
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "no state %s.%s is registered", names_[static_cast<size_t>(parameter)],
      absl::Utf8SafeCEscape(suffix)));
}

// The values of a sharded job are the library's, and this rank keeps its slice.
absl::Status GradientSync::Impl::SetValueMemory() {
  if (session_.spec().sync != SyncMode::kReduceScatter) {
    return absl::OkStatus();
  }
  for (const auto& [parameter, ids] : states_) {
    const auto offset = engine_->SliceOf(parameter).offset;
    const DType dtype = parameters_[static_cast<size_t>(parameter)].dtype;
    std::byte* const slice = engine_->Value(parameter).data() +
                             static_cast<size_t>(offset) * SizeOf(dtype);
    absl::Status set = session_.state().SetMemory(ids.value, slice);
    if (!set.ok()) return set;
  }
  return absl::OkStatus();
}

absl::Status GradientSync::RegisterState(ParameterId parameter,
                                         const ParameterState& state) {
  return impl_->RegisterState(parameter.index, state);
}

absl::Status GradientSync::SetSliceMemory(ParameterId parameter,
                                          const std::string& suffix,
                                          void* data) {
  return impl_->SetSliceMemory(parameter.index, suffix, data);
}

}  // namespace lockstep
