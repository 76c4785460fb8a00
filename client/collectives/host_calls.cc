#include "client/collectives/host_calls.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/text/rank_list.h"
#include "client/collectives/shapes.h"

namespace lockstep::collectives {
namespace {

// Runs one operation and waits for it.
absl::Status RunNow(const AxisGroup& group, const AxisCollective& op,
                    absl::Span<const TensorType> types,
                    absl::Span<const void* const> inputs,
                    absl::Span<void* const> outputs, HostStream& stream) {
  auto prepared = group.Prepare(op, types);
  if (!prepared.ok()) return prepared.status();
  absl::Status called = prepared->Run(inputs, outputs, stream);
  called.Update(stream.Synchronize());
  return called;
}

// The values of all members, by index.
absl::StatusOr<std::vector<uint64_t>> GatherWords(
    const AxisGroup& group, const std::vector<uint64_t>& words,
    HostStream& stream) {
  std::vector<uint64_t> all(words.size() * static_cast<size_t>(group.size()));
  const TensorType type{DType::kU64, {static_cast<int64_t>(words.size())}};
  absl::Status gathered =
      RunNow(group, {.kind = AxisCollectiveKind::kAllGather}, {type},
             {words.data()}, {all.data()}, stream);
  if (!gathered.ok()) return gathered;
  return all;
}

// "w.3: ranks 0-2: 1f...; rank 3: 2e...": the digests of tensor t.
std::string DigestsOf(const HostTensor& tensor, size_t t, size_t tensors,
                      const std::vector<uint64_t>& digests) {
  std::vector<std::pair<int, std::string>> said;
  for (size_t m = 0; m * tensors < digests.size(); ++m) {
    said.push_back({static_cast<int>(m),
                    absl::StrFormat("%016x", digests[m * tensors + t])});
  }
  return absl::StrCat(tensor.name, ": ", WhoSaidWhat(said));
}

}  // namespace

absl::Status BroadcastParameters(const AxisGroup& group,
                                 absl::Span<const HostTensor> tensors,
                                 HostStream& stream, int root) {
  std::vector<TensorType> types;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const HostTensor& tensor : tensors) {
    types.push_back(tensor.type);
    inputs.push_back(tensor.data);
    outputs.push_back(tensor.data);
  }
  return RunNow(group, {.kind = AxisCollectiveKind::kPbroadcast, .root = root},
                types, inputs, outputs, stream);
}

absl::Status CheckParametersEqual(const AxisGroup& group,
                                  absl::Span<const HostTensor> tensors,
                                  HostStream& stream) {
  std::vector<uint64_t> own;
  for (const HostTensor& tensor : tensors) {
    if (auto count = CheckedElements(tensor.type); !count.ok()) {
      return count.status();
    }
    if (tensor.data == nullptr && ElementsOf(tensor.type) > 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(tensor.name, " has no memory"));
    }
    own.push_back(XXH3_64bits(tensor.data, BytesOf(tensor.type)));
  }
  const auto all = GatherWords(group, own, stream);
  if (!all.ok()) return all.status();
  constexpr size_t kNamed = 5;
  std::vector<std::string> faults;
  size_t different = 0;
  for (size_t t = 0; t < own.size(); ++t) {
    bool equal = true;
    for (size_t at = t; at < all->size(); at += own.size()) {
      equal &= (*all)[at] == (*all)[t];
    }
    if (equal) continue;
    if (different++ < kNamed) {
      faults.push_back(DigestsOf(tensors[t], t, own.size(), *all));
    }
  }
  if (different == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(different, " of ", own.size(),
                   " tensors have different values, here as digests: ",
                   absl::StrJoin(faults, ". ")));
}

absl::StatusOr<std::vector<double>> AllReduceScalars(
    const AxisGroup& group, absl::Span<const double> values, ReduceOp op,
    HostStream& stream) {
  std::vector<double> out(values.begin(), values.end());
  AxisCollective collective;
  switch (op) {
    case ReduceOp::kSum: collective.kind = AxisCollectiveKind::kPsum; break;
    case ReduceOp::kMean: collective.kind = AxisCollectiveKind::kPmean; break;
    case ReduceOp::kMin: collective.kind = AxisCollectiveKind::kPmin; break;
    case ReduceOp::kMax: collective.kind = AxisCollectiveKind::kPmax; break;
    case ReduceOp::kProd: collective.kind = AxisCollectiveKind::kPprod; break;
  }
  const TensorType type{DType::kF64, {static_cast<int64_t>(out.size())}};
  absl::Status reduced =
      RunNow(group, collective, {type}, {out.data()}, {out.data()}, stream);
  if (!reduced.ok()) return reduced;
  return out;
}

absl::StatusOr<std::vector<std::string>> AllGatherObjects(
    const AxisGroup& group, std::string_view object, HostStream& stream) {
  constexpr uint64_t kBytesMax = uint64_t{1} << 30;
  const auto sizes = GatherWords(group, {object.size()}, stream);
  if (!sizes.ok()) return sizes.status();
  uint64_t total = 0;
  for (const uint64_t size : *sizes) {
    if (size > kBytesMax - total) {
      return absl::ResourceExhaustedError(
          "the objects of all ranks have more than 1 GiB together");
    }
    total += size;
  }
  // Every member sends the same bytes to each.
  const size_t members = sizes->size();
  std::string all(total, '\0');
  std::vector<size_t> counts(members, object.size()), offsets(members, 0);
  std::vector<size_t> out_counts, out_offsets;
  size_t at = 0;
  for (const uint64_t size : *sizes) {
    out_counts.push_back(size);
    out_offsets.push_back(at);
    at += size;
  }
  absl::Status moved = group.communicator().AllToAllV(
      object.data(), counts, offsets, all.data(), out_counts, out_offsets,
      DType::kU8, stream);
  moved.Update(stream.Synchronize());
  if (!moved.ok()) return moved;
  std::vector<std::string> objects;
  for (size_t m = 0; m < members; ++m) {
    objects.push_back(all.substr(out_offsets[m], out_counts[m]));
  }
  return objects;
}

absl::Status Barrier(const AxisGroup& group, HostStream& stream) {
  absl::Status called = group.communicator().Barrier(stream);
  called.Update(stream.Synchronize());
  return called;
}

}  // namespace lockstep::collectives
