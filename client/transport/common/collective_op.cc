#include "client/transport/common/collective_op.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"

namespace lockstep::transport {
namespace {

template <typename... Parts>
absl::Status Invalid(const CollectiveOp& call, const Parts&... parts) {
  return absl::InvalidArgumentError(
      absl::StrCat(AbslView(Name(call.kind)), ": ", parts...));
}

// A buffer of the caller: its address, and its size in elements.
struct Extent {
  const char* what;
  const void* data = nullptr;
  size_t count = 0;
};

struct BufferLayout {
  Extent in{"in"};
  Extent out{"out"};
  // In place: the offset of `out` from `in` in elements, at which they may
  // overlap.
  std::optional<ptrdiff_t> in_place;
};

// The end of the last block of an AllToAllV.
size_t EndOf(const std::vector<size_t>& counts,
             const std::vector<size_t>& offsets) {
  size_t reach = 0;
  for (size_t r = 0; r < counts.size(); ++r) {
    if (counts[r] > 0) reach = std::max(reach, offsets[r] + counts[r]);
  }
  return reach;
}

BufferLayout LayoutOf(const CollectiveOp& call, int rank, int size) {
  const size_t one = call.count;
  const size_t all = call.count * size;
  const ptrdiff_t mine = static_cast<ptrdiff_t>(call.count) * rank;
  switch (call.kind) {
    case CollectiveKind::kAllReduce:
      return {{"in", call.in, one}, {"out", call.out, one}, 0};
    case CollectiveKind::kReduceScatter:
      return {{"in", call.in, all}, {"out", call.out, one}, mine};
    case CollectiveKind::kAllGather:
      return {{"in", call.in, one}, {"out", call.out, all}, -mine};
    case CollectiveKind::kAllToAll:
      return {{"in", call.in, all}, {"out", call.out, all}};
    case CollectiveKind::kAllToAllV:
      return {{"in", call.in, EndOf(call.in_counts, call.in_offsets)},
              {"out", call.out, EndOf(call.out_counts, call.out_offsets)}};
    case CollectiveKind::kSend: return {{"buffer", call.in, one}};
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kRecv: return {{"in"}, {"buffer", call.out, one}};
    case CollectiveKind::kBarrier: return {};
  }
  return {};
}

// After this check no sum or product of counts below can overflow.
absl::Status CheckCounts(const CollectiveOp& call, int size) {
  const size_t most = std::numeric_limits<ptrdiff_t>::max() /
                      (2 * static_cast<size_t>(size) * SizeOf(call.dtype));
  size_t largest = call.count;
  for (const std::vector<size_t>* counts :
       {&call.in_counts, &call.in_offsets, &call.out_counts,
        &call.out_offsets}) {
    for (size_t count : *counts) largest = std::max(largest, count);
  }
  if (largest <= most) return absl::OkStatus();
  return Invalid(call, largest, " elements are larger than memory");
}

absl::Status CheckExtent(const CollectiveOp& call, const Extent& extent) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(extent.data);
  // The sizes of elements are powers of 2.
  const bool aligned = (address & (SizeOf(call.dtype) - 1)) == 0;
  if (aligned && (address != 0 || extent.count == 0)) return absl::OkStatus();
  if (address == 0) {
    return Invalid(call, extent.what, " is null and should hold ", extent.count,
                   " elements");
  }
  return Invalid(call, extent.what, " is not aligned to its elements of ",
                 SizeOf(call.dtype), " bytes");
}

absl::Status CheckOverlap(const CollectiveOp& call,
                          const BufferLayout& layout) {
  const ptrdiff_t element = static_cast<ptrdiff_t>(SizeOf(call.dtype));
  const intptr_t in = reinterpret_cast<intptr_t>(layout.in.data);
  const intptr_t out = reinterpret_cast<intptr_t>(layout.out.data);
  const intptr_t in_end =
      in + static_cast<ptrdiff_t>(layout.in.count) * element;
  const intptr_t out_end =
      out + static_cast<ptrdiff_t>(layout.out.count) * element;
  if (in_end <= out || out_end <= in) return absl::OkStatus();
  if (layout.in_place && out - in == *layout.in_place * element) {
    return absl::OkStatus();
  }
  return Invalid(call, "in and out overlap",
                 layout.in_place ? ", but not as in place" : "");
}

absl::Status CheckReduction(const CollectiveOp& call) {
  if (call.kind != CollectiveKind::kAllReduce &&
      call.kind != CollectiveKind::kReduceScatter) {
    return absl::OkStatus();
  }
  if (Name(call.op) == "?") {
    return Invalid(call, "no reduction has the number ",
                   static_cast<int>(call.op));
  }
  const bool wide = call.dtype == DType::kF32 || call.dtype == DType::kF64;
  if (call.in_pairs && !wide) {
    return Invalid(call, "sums in pairs are of f32 or f64, not of ",
                   AbslView(Name(call.dtype)));
  }
  const bool has_divisor =
      call.kind == CollectiveKind::kAllReduce && call.op == ReduceOp::kMean;
  if (call.divisor < 0 || (call.divisor > 0 && !has_divisor)) {
    return Invalid(call, "the sum of a mean is divided by ", call.divisor,
                   ", must be at least 1");
  }
  if (call.op == ReduceOp::kMean && !IsFloat(call.dtype)) {
    return Invalid(call, "the mean of ", AbslView(Name(call.dtype)),
                   " is not defined, only of floats");
  }
  return absl::OkStatus();
}

absl::Status CheckChecks(const CollectiveOp& call, int rank, int size) {
  if (call.checks.empty()) return absl::OkStatus();
  if (call.kind != CollectiveKind::kAllReduce || !IsFloat(call.dtype)) {
    return Invalid(call, "only all-reduces of floats are checked, not of ",
                   AbslView(Name(call.dtype)));
  }
  const SliceRange slice = ReduceSliceOf(call, size, rank);
  size_t begin = slice.begin;
  for (const CheckedPart& part : call.checks) {
    const size_t end = slice.begin + slice.count;
    if (part.range.begin < begin || part.range.begin > end ||
        part.range.count > end - part.range.begin) {
      return Invalid(call, "elements from ", part.range.begin,
                     " on are not rank ", rank, "'s to check, or not in order");
    }
    begin = part.range.begin + part.range.count;
  }
  return absl::OkStatus();
}

absl::Status CheckPeer(const CollectiveOp& call, int rank, int size) {
  if (call.peer < 0 || call.peer >= size) {
    return Invalid(call, "rank ", call.peer, " is not in this group of ", size);
  }
  if (call.is_point_to_point() && call.peer == rank) {
    return Invalid(call, "rank ", rank, " cannot exchange with itself");
  }
  return absl::OkStatus();
}

absl::Status CheckBlocks(const CollectiveOp& call, int size) {
  if (call.kind != CollectiveKind::kAllToAllV) return absl::OkStatus();
  for (const std::vector<size_t>* blocks :
       {&call.in_counts, &call.in_offsets, &call.out_counts,
        &call.out_offsets}) {
    if (blocks->size() != static_cast<size_t>(size)) {
      return Invalid(call, blocks->size(), " counts or offsets for a group of ",
                     size);
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view Name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce: return "AllReduce";
    case CollectiveKind::kReduceScatter: return "ReduceScatter";
    case CollectiveKind::kAllGather: return "AllGather";
    case CollectiveKind::kBroadcast: return "Broadcast";
    case CollectiveKind::kAllToAll: return "AllToAll";
    case CollectiveKind::kAllToAllV: return "AllToAllV";
    case CollectiveKind::kSend: return "Send";
    case CollectiveKind::kRecv: return "Recv";
    case CollectiveKind::kBarrier: return "Barrier";
  }
  return "?";
}

SliceRange ReduceSliceOf(const CollectiveOp& call, int ranks, int rank) {
  return call.in_pairs
             ? PairsSlice(call.count, ranks, rank)
             : ReduceSliceOf(call.count, SizeOf(call.dtype), ranks, rank);
}

absl::Status CheckOp(const CollectiveOp& call, int rank, int size) {
  if (SizeOf(call.dtype) == 0) {
    return Invalid(call, "no dtype has the number ",
                   static_cast<int>(call.dtype));
  }
  if (!IsTransportDType(call.dtype)) {
    return Invalid(call, "no communicator takes ", AbslView(Name(call.dtype)),
                   ": use a named-axis collective");
  }
  if (absl::Status s = CheckReduction(call); !s.ok()) return s;
  if (absl::Status s = CheckPeer(call, rank, size); !s.ok()) return s;
  if (absl::Status s = CheckBlocks(call, size); !s.ok()) return s;
  if (absl::Status s = CheckCounts(call, size); !s.ok()) return s;
  if (absl::Status s = CheckChecks(call, rank, size); !s.ok()) return s;
  const BufferLayout layout = LayoutOf(call, rank, size);
  if (absl::Status s = CheckExtent(call, layout.in); !s.ok()) return s;
  if (absl::Status s = CheckExtent(call, layout.out); !s.ok()) return s;
  return CheckOverlap(call, layout);
}

}  // namespace lockstep::transport
