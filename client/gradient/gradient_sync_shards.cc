// GradientSync calls of a sharded job (sync: reduce_scatter).

#include <cstddef>

#include "client/gradient/gradient_sync_impl.h"

namespace lockstep {

absl::Status GradientSync::GatherParameters() { return Gather(nullptr); }

absl::Status GradientSync::GatherParameters(Stream& stream) {
  return Gather(&stream);
}

absl::Status GradientSync::Gather(Stream* stream) {
  if (absl::Status status = impl_->CheckSealed(); !status.ok()) return status;
  const bool sharded = impl_->engine().CheckSharded("GatherParameters").ok();
  // Values that a stream has not written yet cannot be read here.
  if (sharded && stream == nullptr) impl_->CompareBeforeGather();
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
  const absl::Status gathered =
      impl_->Explained("GradientSync::AwaitParameter",
                       impl_->engine().AwaitParameter(parameter.index, stream));
  if (gathered.ok() && stream == nullptr) {
    impl_->CompareGathered(parameter.index);
  }
  return gathered;
}

absl::StatusOr<ParameterSlice> GradientSync::Slice(
    ParameterId parameter) const {
  absl::Status may = impl_->CheckSealed();
  if (may.ok()) may = impl_->engine().CheckKnown(parameter.index);
  if (!may.ok()) return may;
  const plan::Slice slice = impl_->engine().SliceOf(parameter.index);
  return ParameterSlice{.offset = static_cast<size_t>(slice.offset),
                        .count = static_cast<size_t>(slice.count)};
}

absl::StatusOr<absl::Span<std::byte>> GradientSync::ValueBytes(
    ParameterId parameter, size_t element_bytes, bool is_count) {
  if (absl::Status status = impl_->CheckSealed(); !status.ok()) return status;
  gradient::Engine& engine = impl_->engine();
  absl::Status may = engine.CheckSharded("Value");
  if (may.ok())
    may = engine.CheckView(parameter.index, element_bytes, is_count);
  if (!may.ok()) return may;
  return engine.Value(parameter.index);
}

}  // namespace lockstep
