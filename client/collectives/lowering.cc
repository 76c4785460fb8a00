#include "client/collectives/lowering.h"

#include <utility>

namespace lockstep::collectives {

absl::StatusOr<Lowered> Lower(const AxisCollective& op, int size, int index,
                              absl::Span<const TensorType> inputs) {
  auto outputs = OutputTypes(op, size, index, inputs);
  if (!outputs.ok()) return outputs.status();
  CallTypes call{op, size, index, inputs, *std::move(outputs)};
  if (KeepsShapeWithoutAxes(op, size)) return LowerMove(std::move(call));
  if (ReductionOf(op).has_value()) return LowerReduction(std::move(call));
  switch (op.kind) {
    case AxisCollectiveKind::kPsumScatter:
    case AxisCollectiveKind::kPgatherTranspose:
      return LowerReduction(std::move(call));
    case AxisCollectiveKind::kRaggedAllToAll:
    case AxisCollectiveKind::kRaggedAllToAllTranspose: return Lowered{};
    default: return LowerMove(std::move(call));
  }
}

}  // namespace lockstep::collectives
