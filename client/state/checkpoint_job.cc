#include "client/state/checkpoint_job.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "client/checkpoint/safetensors.h"
#include "plan/state/writes.h"

namespace lockstep::state {
namespace {

absl::Status CheckStorable(const plan::StateTensor& tensor) {
  if (checkpoint::SafetensorsName(tensor.dtype).empty()) {
    const std::string_view dtype = Name(tensor.dtype);
    return absl::InvalidArgumentError(absl::StrCat(
        checkpoint::TensorText(tensor.name), " is ", AbslView(dtype),
        ", which safetensors files have no name for"));
  }
  if (tensor.name == checkpoint::kMetadataKey) {
    return absl::InvalidArgumentError(
        absl::StrCat(checkpoint::TensorText(tensor.name),
                     " is the name of the metadata of safetensors files"));
  }
  return absl::OkStatus();
}

JobTensor TensorOf(const plan::StateTensor& tensor) {
  JobTensor of{.name = tensor.name, .type = {.dtype = tensor.dtype}};
  for (const plan::StateDim& dim : tensor.dims) {
    of.type.shape.push_back(dim.extent());
  }
  return of;
}

}  // namespace

absl::StatusOr<CheckpointJob> WithPlannedState(
    CheckpointJob rank, absl::Span<const plan::StateTensor> tensors,
    absl::Span<void* const> memory) {
  const auto part = [&](size_t t, const TensorBox& box, int64_t offset) {
    const auto bytes = offset * static_cast<int64_t>(SizeOf(tensors[t].dtype));
    return StatePart{t, box, static_cast<std::byte*>(memory[t]) + bytes};
  };
  for (size_t t = 0; t < tensors.size(); ++t) {
    absl::Status storable = CheckStorable(tensors[t]);
    if (!storable.ok()) return storable;
    rank.tensors.push_back(TensorOf(tensors[t]));
    for (const plan::HeldBox& held :
         plan::BoxesOf(tensors[t], rank.mesh, rank.rank)) {
      rank.held.push_back(part(t, held.box, held.offset));
    }
  }
  const auto writes =
      plan::AssignWrites({tensors.begin(), tensors.end()}, rank.mesh);
  for (const plan::StateWrite& write : writes[static_cast<size_t>(rank.rank)]) {
    rank.written.push_back(
        part(static_cast<size_t>(write.tensor), write.box, write.offset));
  }
  return rank;
}

uint64_t BytesOf(const CheckpointJob& job, const StatePart& part) {
  uint64_t bytes = SizeOf(job.tensors[part.tensor].type.dtype);
  for (const int64_t extent : part.box.shape) {
    bytes *= static_cast<uint64_t>(extent);
  }
  return bytes;
}

}  // namespace lockstep::state
