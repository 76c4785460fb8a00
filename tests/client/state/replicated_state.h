// The state of all ranks of a job, in memory of this process.

#ifndef LOCKSTEP_TESTS_CLIENT_STATE_REPLICATED_STATE_H_
#define LOCKSTEP_TESTS_CLIENT_STATE_REPLICATED_STATE_H_

#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/mesh.h"
#include "plan/state/state.h"

namespace lockstep::state {

inline std::vector<int> RanksBelow(int end) {
  std::vector<int> ranks(static_cast<size_t>(end));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// Each element of a tensor has bytes of its own.
class ReplicatedState {
 public:
  ReplicatedState(Mesh mesh, std::vector<plan::StateTensor> tensors)
      : mesh_(std::move(mesh)), tensors_(std::move(tensors)) {
    for (int rank = 0; rank < mesh_.WorldSize(); ++rank) {
      std::vector<std::string>& memory = memory_.emplace_back();
      for (const plan::StateTensor& tensor : tensors_) {
        memory.push_back(ContentsOf(tensor, rank));
      }
    }
  }

  const Mesh& mesh() const { return mesh_; }
  const std::vector<plan::StateTensor>& tensors() const { return tensors_; }
  std::string& at(int rank, int tensor) { return memory_[rank][tensor]; }

  // nullptr where the rank holds nothing.
  template <typename Pointer>
  std::vector<Pointer> MemoryOf(int rank) {
    std::vector<Pointer> pointers;
    for (std::string& bytes : memory_[rank]) {
      pointers.push_back(bytes.empty() ? nullptr : bytes.data());
    }
    return pointers;
  }

  std::string ContentsOf(const plan::StateTensor& tensor, int rank) const {
    const auto element = static_cast<int64_t>(SizeOf(tensor.dtype));
    std::string bytes;
    for (const plan::HeldBox& box : plan::BoxesOf(tensor, mesh_, rank)) {
      int64_t count = 1;
      for (const int64_t extent : box.box.shape) count *= extent;
      for (int64_t i = 0; i < count; ++i) {
        uint64_t number = tensor.name.size() * 7919 + tensor.name.back();
        int64_t left = i;
        for (size_t d = box.box.shape.size(); d-- > 0;) {
          number =
              number * 1'000'003 +
              static_cast<uint64_t>(box.box.begin[d] + left % box.box.shape[d]);
          left /= box.box.shape[d];
        }
        for (int64_t b = 0; b < element; ++b) {
          number = number * 6364136223846793005u + 1442695040888963407u;
          bytes.push_back(static_cast<char>(number >> 56));
        }
      }
    }
    return bytes;
  }

 private:
  const Mesh mesh_;
  const std::vector<plan::StateTensor> tensors_;
  std::vector<std::vector<std::string>> memory_;  // by rank, by tensor
};

// Two data-parallel ranks times two blocks, and what optimizers have:
//
//   0 "w"     f32[9,5]  dim 0 cut over model
//   1 "w.m"   bf16      sliced like it over data
//   2 "step"  i64       a scalar, on all ranks
//   3 "head"  f32[3]    on ranks 1 and 3
//   4 "none"  f32[0]
inline ReplicatedState SmallState() {
  const Mesh mesh{{{"data", 2}, {"model", 2}}};
  const std::vector<plan::StateDim> cut = {
      {.axes = {"model"}, .bounds = {0, 5, 9}}, {.bounds = {0, 5}}};
  return ReplicatedState(
      mesh, {{"w", DType::kF32, cut, RanksBelow(4)},
             {"w.m",
              DType::kBF16,
              cut,
              RanksBelow(4),
              {{0, 13}, {0, 11}, {13, 12}, {11, 9}}},
             {"step", DType::kI64, {}, RanksBelow(4)},
             {"head", DType::kF32, {{.bounds = {0, 3}}}, {1, 3}},
             {"none", DType::kF32, {{.bounds = {0, 0}}}, RanksBelow(4)}});
}

}  // namespace lockstep::state

#endif  // LOCKSTEP_TESTS_CLIENT_STATE_REPLICATED_STATE_H_
