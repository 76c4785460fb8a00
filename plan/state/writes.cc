#include "plan/state/writes.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace lockstep::plan {
namespace {

struct HeldPart {
  StateWrite write;
  int64_t bytes = 0;
  const std::vector<int>* ranks = nullptr;  // that hold it
};

int64_t BytesOf(const TensorBox& box, DType dtype) {
  int64_t bytes = static_cast<int64_t>(SizeOf(dtype));
  for (const int64_t extent : box.shape) bytes *= extent;
  return bytes;
}

// Divides a box along its first dimension of more than one element, so that
// parts are contiguous where the box is.
std::vector<HeldBox> Divided(const StateBlock& block, int64_t parts) {
  const TensorBox& box = block.box;
  const auto dim = std::find_if(box.shape.begin(), box.shape.end(),
                                [](int64_t extent) { return extent > 1; });
  if (dim == box.shape.end()) return {{box, block.offset}};
  const auto d = static_cast<size_t>(dim - box.shape.begin());
  const std::vector<int64_t> bounds =
      EvenBounds(*dim, static_cast<int>(std::min(parts, *dim)));
  int64_t inner = 1;
  for (size_t i = d + 1; i < box.shape.size(); ++i) inner *= box.shape[i];
  std::vector<HeldBox> divided;
  for (size_t i = 0; i + 1 < bounds.size(); ++i) {
    TensorBox part = box;
    part.begin[d] += bounds[i];
    part.shape[d] = bounds[i + 1] - bounds[i];
    divided.push_back({std::move(part), block.offset + bounds[i] * inner});
  }
  return divided;
}

}  // namespace

std::vector<std::vector<StateWrite>> AssignWrites(
    const std::vector<StateTensor>& tensors, const Mesh& mesh,
    int64_t part_bytes) {
  std::vector<std::vector<StateBlock>> blocks;
  for (const StateTensor& tensor : tensors) {
    blocks.push_back(BlocksOf(tensor, mesh));
  }
  std::vector<HeldPart> parts;
  for (size_t t = 0; t < tensors.size(); ++t) {
    const DType dtype = tensors[t].dtype;
    for (const StateBlock& block : blocks[t]) {
      const int64_t wanted =
          (BytesOf(block.box, dtype) + part_bytes - 1) / part_bytes;
      const auto holders = static_cast<int64_t>(block.ranks.size());
      for (HeldBox& held : Divided(block, std::min(wanted, holders))) {
        const int64_t bytes = BytesOf(held.box, dtype);
        parts.push_back(
            {{static_cast<int>(t), std::move(held.box), held.offset},
             bytes,
             &block.ranks});
      }
    }
  }
  std::stable_sort(
      parts.begin(), parts.end(),
      [](const HeldPart& a, const HeldPart& b) { return a.bytes > b.bytes; });

  const auto world = static_cast<size_t>(mesh.WorldSize());
  std::vector<int64_t> loads(world, 0);
  std::vector<std::vector<StateWrite>> writes(world);
  for (HeldPart& part : parts) {
    const int writer = *std::min_element(
        part.ranks->begin(), part.ranks->end(), [&loads](int a, int b) {
          return loads[static_cast<size_t>(a)] < loads[static_cast<size_t>(b)];
        });
    loads[static_cast<size_t>(writer)] += part.bytes;
    writes[static_cast<size_t>(writer)].push_back(std::move(part.write));
  }
  for (std::vector<StateWrite>& of : writes) {
    std::sort(of.begin(), of.end(),
              [](const StateWrite& a, const StateWrite& b) {
                return std::tie(a.tensor, a.box.begin) <
                       std::tie(b.tensor, b.box.begin);
              });
  }
  return writes;
}

}  // namespace lockstep::plan
