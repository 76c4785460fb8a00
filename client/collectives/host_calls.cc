#include "lockstep/host_calls.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/absl_view.h"
#include "base/text/rank_list.h"
#include "client/collectives/axis_group_impl.h"
#include "client/collectives/shapes.h"

namespace lockstep {
namespace {

using collectives::BytesOf;
using collectives::CheckedElements;
using collectives::ElementsOf;

constexpr size_t kDigestChunkBytes = size_t{16} << 20;

// Bytes on the host and their copies in the memory that the group's operations
// move; on the host both are the same.
class Mirror {
 public:
  Mirror(const AxisGroup& group, absl::Span<const std::byte> in,
         absl::Span<std::byte> out)
      : memory_(group.impl().memory()), in_(in), out_(out) {}

  // Errors: ResourceExhausted.
  absl::Status Allocate() {
    if (memory_.device == nullptr) return absl::OkStatus();
    const size_t bytes = std::max<size_t>(in_.size() + out_.size(), 1);
    auto staging = memory_.device->AllocateStaging(bytes);
    auto on_device = memory_.allocate(bytes);
    if (!staging.ok()) return staging.status();
    if (!on_device.ok()) return on_device.status();
    staging_ = *std::move(staging);
    on_device_ = *std::move(on_device);
    std::copy(in_.begin(), in_.end(), staging_.data());
    return absl::OkStatus();
  }

  const void* in() const {
    return memory_.device == nullptr ? in_.data() : on_device_.data();
  }
  void* out() const {
    return memory_.device == nullptr ? out_.data()
                                     : on_device_.data() + in_.size();
  }

  absl::Status CopyIn(Stream& stream) const {
    return Copy(stream, staging_.data(), on_device_.data(), in_.size());
  }
  absl::Status CopyOut(Stream& stream) const {
    return Copy(stream, on_device_.data() + in_.size(),
                staging_.data() + in_.size(), out_.size());
  }
  // Once the stream has run CopyOut.
  void TakeOut() const {
    if (memory_.device == nullptr) return;
    const std::byte* const from = staging_.data() + in_.size();
    std::copy(from, from + out_.size(), out_.begin());
  }

 private:
  absl::Status Copy(Stream& stream, const void* from, void* to,
                    size_t bytes) const {
    if (memory_.device == nullptr || bytes == 0) return absl::OkStatus();
    return memory_.device->Perform(
        &stream,
        [from, to, bytes](transport::DeviceContext::KernelQueue& queue) {
          queue.Copy(from, to, bytes);
          return queue.status();
        });
  }

  const GroupMemory memory_;
  const absl::Span<const std::byte> in_;
  const absl::Span<std::byte> out_;
  ArenaBuffer staging_, on_device_;
};

using Enqueue = absl::FunctionRef<absl::Status(
    const void* in, void* out, Communicator& communicator, Stream& stream)>;

// Runs `enqueue` with these bytes of the host, and waits for it.
template <typename In, typename Out>
absl::Status RunOnHostMemory(const AxisGroup& group, const std::string& call,
                             const std::string& signature,
                             absl::Span<const In> in, absl::Span<Out> out,
                             Enqueue enqueue) {
  Mirror mirror(
      group,
      {reinterpret_cast<const std::byte*>(in.data()), in.size() * sizeof(In)},
      {reinterpret_cast<std::byte*>(out.data()), out.size() * sizeof(Out)});
  absl::Status status = mirror.Allocate();
  if (!status.ok()) return status;
  status = group.impl().RunAndWait(
      call, signature, [&](Communicator& communicator, Stream& stream) {
        absl::Status enqueued = mirror.CopyIn(stream);
        if (!enqueued.ok()) return enqueued;
        enqueued = enqueue(mirror.in(), mirror.out(), communicator, stream);
        if (!enqueued.ok()) return enqueued;
        return mirror.CopyOut(stream);
      });
  if (status.ok()) mirror.TakeOut();
  return status;
}

// The values of all members, by index.
absl::StatusOr<std::vector<uint64_t>> GatherWords(
    const AxisGroup& group, const std::string& call,
    const std::string& signature, const std::vector<uint64_t>& words) {
  std::vector<uint64_t> all(words.size() * static_cast<size_t>(group.size()));
  absl::Status gathered = RunOnHostMemory<uint64_t, uint64_t>(
      group, call, signature, words, absl::MakeSpan(all),
      [&](const void* in, void* out, Communicator& communicator,
          Stream& stream) {
        return communicator.AllGather(in, out, words.size(), DType::kU64,
                                      stream);
      });
  if (!gathered.ok()) return gathered;
  return all;
}

// XXH3 of the tensor's bytes, which are in the group's kind of memory.
absl::StatusOr<uint64_t> DigestOf(const AxisGroup& group,
                                  const NamedTensor& tensor, size_t bytes) {
  const GroupMemory memory = group.impl().memory();
  if (memory.device == nullptr) return XXH3_64bits(tensor.data, bytes);
  auto staging =
      memory.device->AllocateStaging(std::min(bytes, kDigestChunkBytes));
  if (!staging.ok()) return staging.status();
  const auto stream = group.impl().OwnStream("CheckParametersEqual");
  if (!stream.ok()) return stream.status();
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (size_t at = 0; at < bytes; at += kDigestChunkBytes) {
    const size_t count = std::min(bytes - at, kDigestChunkBytes);
    absl::Status copied = memory.device->Perform(
        *stream, [&](transport::DeviceContext::KernelQueue& queue) {
          queue.Copy(static_cast<const std::byte*>(tensor.data) + at,
                     staging->data(), count);
          return queue.status();
        });
    copied.Update((*stream)->Record().Wait());
    if (!copied.ok()) return copied;
    XXH3_64bits_update(&state, staging->data(), count);
  }
  return XXH3_64bits_digest(&state);
}

// "w.3: ranks 0-2: 1f...; rank 3: 2e...": the digests of tensor t.
std::string DigestsOf(const NamedTensor& tensor, size_t t, size_t tensors,
                      const std::vector<uint64_t>& digests,
                      const std::vector<int>& ranks) {
  std::vector<std::pair<int, std::string>> said;
  for (size_t m = 0; m * tensors < digests.size(); ++m) {
    said.push_back(
        {ranks[m], absl::StrFormat("%016x", digests[m * tensors + t])});
  }
  return absl::StrCat(tensor.name, ": ", WhoSaidWhat(said));
}

}  // namespace

absl::Status BroadcastParameters(const AxisGroup& group,
                                 absl::Span<const NamedTensor> tensors,
                                 int root) {
  std::vector<TensorType> types;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const NamedTensor& tensor : tensors) {
    types.push_back(tensor.type);
    inputs.push_back(tensor.data);
    outputs.push_back(tensor.data);
  }
  const auto prepared = group.Prepare(
      {.kind = AxisCollectiveKind::kPbroadcast, .root = root}, types);
  if (!prepared.ok()) return prepared.status();
  return prepared->RunAndWait(inputs, outputs);
}

absl::Status CheckParametersEqual(const AxisGroup& group,
                                  absl::Span<const NamedTensor> tensors) {
  std::vector<uint64_t> own;
  for (const NamedTensor& tensor : tensors) {
    if (auto count = CheckedElements(tensor.type); !count.ok()) {
      return count.status();
    }
    if (tensor.data == nullptr && ElementsOf(tensor.type) > 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(tensor.name, " has no memory"));
    }
    const auto digest = DigestOf(group, tensor, BytesOf(tensor.type));
    if (!digest.ok()) return digest.status();
    own.push_back(*digest);
  }
  const auto all = GatherWords(
      group, "CheckParametersEqual",
      absl::StrCat("CheckParametersEqual of ", own.size(), " tensors"), own);
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
      faults.push_back(
          DigestsOf(tensors[t], t, own.size(), *all, group.impl().ranks()));
    }
  }
  if (different == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(different, " of ", own.size(),
                   " tensors have different values, here as digests: ",
                   absl::StrJoin(faults, ". ")));
}

absl::StatusOr<std::vector<double>> AllReduceScalars(
    const AxisGroup& group, absl::Span<const double> values, ReduceOp op) {
  std::vector<double> out(values.size());
  absl::Status reduced = RunOnHostMemory<double, double>(
      group, "AllReduceScalars",
      absl::StrCat("AllReduceScalars of ", values.size(), " values, ",
                   AbslView(Name(op))),
      values, absl::MakeSpan(out),
      [&](const void* in, void* to, Communicator& communicator,
          Stream& stream) {
        return communicator.AllReduce(in, to, values.size(), DType::kF64, op,
                                      stream);
      });
  if (!reduced.ok()) return reduced;
  return out;
}

absl::StatusOr<std::vector<std::string>> AllGatherObjects(
    const AxisGroup& group, std::string_view object) {
  constexpr uint64_t kBytesMax = uint64_t{1} << 30;
  const auto sizes = GatherWords(group, "AllGatherObjects", "AllGatherObjects",
                                 {object.size()});
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
  absl::Status moved = RunOnHostMemory<char, char>(
      group, "AllGatherObjects", "objects of AllGatherObjects",
      {object.data(), object.size()}, absl::MakeSpan(all),
      [&](const void* in, void* out, Communicator& communicator,
          Stream& stream) {
        return communicator.AllToAllV(in, counts, offsets, out, out_counts,
                                      out_offsets, DType::kU8, stream);
      });
  if (!moved.ok()) return moved;
  std::vector<std::string> objects;
  for (size_t m = 0; m < members; ++m) {
    objects.push_back(all.substr(out_offsets[m], out_counts[m]));
  }
  return objects;
}

absl::Status Barrier(const AxisGroup& group) {
  return group.impl().RunAndWait(
      "Barrier", "Barrier", [](Communicator& communicator, Stream& stream) {
        return communicator.Barrier(stream);
      });
}

}  // namespace lockstep
