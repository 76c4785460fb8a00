// The calls of a job whose ranks update slices.

#include <cstddef>

#include "base/check.h"
#include "client/gradient/gradient_sync_impl.h"

namespace lockstep {

absl::Status GradientSync::GatherParameters() { return Gather(nullptr); }

absl::Status GradientSync::GatherParameters(Stream& stream) {
  return Gather(&stream);
}

absl::Status GradientSync::Gather(Stream* stream) {
  if (absl::Status status = impl_->CheckSealed(); !status.ok()) return status;
  return impl_->Explained("GradientSync::GatherParameters",
                          impl_->engine().GatherParameters(stream));
}

absl::Status GradientSync::AwaitParameter(ParameterId parameter) {
  return Await(parameter, nullptr);
}

absl::Status GradientSync::AwaitParameter(ParameterId parameter,
                                          Stream& stream) {
  return Await(parameter, &stream);
}

absl::Status GradientSync::Await(ParameterId parameter, Stream* stream) {
  if (absl::Status status = impl_->CheckSealed(); !status.ok()) return status;
  return impl_->Explained(
      "GradientSync::AwaitParameter",
      impl_->engine().AwaitParameter(parameter.index, stream));
}

ParameterSlice GradientSync::Slice(ParameterId parameter) const {
  CheckRegistered(parameter);
  const plan::Slice slice = impl_->engine().SliceOf(parameter.index);
  return {.offset = static_cast<size_t>(slice.offset),
          .count = static_cast<size_t>(slice.count)};
}

absl::Span<std::byte> GradientSync::ValueBytes(ParameterId parameter,
                                               size_t element_bytes) {
  CheckRegistered(parameter);
  gradient::Engine& engine = impl_->engine();
  Check(engine.CheckSharded("Value").ok(),
        "GradientSync::Value in a job whose spec does not say sync: "
        "reduce_scatter");
  Check(element_bytes == SizeOf(engine.DTypeOf(parameter.index)),
        "GradientSync::Value with a type of another size than the dtype");
  return engine.Value(parameter.index);
}

void GradientSync::CheckRegistered(ParameterId parameter) const {
  Check(parameter.index >= 0 &&
            parameter.index < static_cast<int>(impl_->names().size()),
        "GradientSync::Slice or Value of a parameter that was not registered");
}

}  // namespace lockstep
