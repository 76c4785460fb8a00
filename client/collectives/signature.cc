#include "client/collectives/signature.h"

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/absl_view.h"
#include "base/text/rank_list.h"
#include "client/collectives/shapes.h"

namespace lockstep::collectives {
namespace {

using Kind = AxisCollectiveKind;

void AppendAxes(const AxisCollective& op, std::string* text) {
  absl::StrAppend(text, " over ", absl::StrJoin(op.axes, ","));
  for (const std::vector<int>& group : op.index_groups) {
    absl::StrAppend(text, "[", absl::StrJoin(group, ","), "]");
  }
}

void AppendAttributes(const AxisCollective& op, std::string* text) {
  switch (op.kind) {
    case Kind::kAllToAll:
      absl::StrAppend(text, " concat_axis ", op.concat_axis);
      [[fallthrough]];
    case Kind::kAllGather:
    case Kind::kAllGatherInvariant:
    case Kind::kPsumScatter:
    case Kind::kGather:
    case Kind::kScatter:
    case Kind::kPswapaxes:
      absl::StrAppend(text, " axis ", op.axis, op.tiled ? " tiled" : "");
      break;
    case Kind::kPpermute:
    case Kind::kPsend:
    case Kind::kPrecv:
      absl::StrAppend(text, " pairs");
      for (const auto& [from, to] : op.pairs) {
        absl::StrAppend(text, " ", from, ":", to);
      }
      break;
    case Kind::kPshuffle:
      absl::StrAppend(text, " sources ", absl::StrJoin(op.sources, ","));
      break;
    default: break;
  }
  switch (op.kind) {
    case Kind::kReduce:
      absl::StrAppend(text, " ", AbslView(Name(op.reduce)));
      [[fallthrough]];
    case Kind::kPbroadcast:
    case Kind::kGather:
    case Kind::kScatter: absl::StrAppend(text, " root ", op.root); break;
    default: break;
  }
}

// FNV-1a: the same on all members, whatever their standard library.
uint64_t Hash(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

}  // namespace

std::string SignatureText(const AxisCollective& op,
                          absl::Span<const TensorType> inputs) {
  std::string text(Name(op.kind));
  AppendAxes(op, &text);
  AppendAttributes(op, &text);
  absl::StrAppend(
      &text, " of ",
      absl::StrJoin(inputs, " ", [](std::string* out, const TensorType& type) {
        absl::StrAppend(out, Text(type));
      }));
  return text;
}

void WriteSignature(const std::string& text, std::byte* to) {
  std::memset(to, 0, kSignatureBytes);
  if (text.size() <= kSignatureBytes) {
    std::memcpy(to, text.data(), text.size());
    return;
  }
  const std::string end = absl::StrFormat("... #%016x", Hash(text));
  const size_t kept = kSignatureBytes - end.size();
  std::memcpy(to, text.data(), kept);
  std::memcpy(to + kept, end.data(), end.size());
}

std::string SignatureFault(const std::byte* all, absl::Span<const int> ranks) {
  std::vector<std::pair<int, std::string>> calls;
  bool equal = true;
  for (size_t member = 0; member < ranks.size(); ++member) {
    const char* const text =
        reinterpret_cast<const char*>(all + member * kSignatureBytes);
    calls.push_back(
        {ranks[member], std::string(text, strnlen(text, kSignatureBytes))});
    equal &= calls.back().second == calls.front().second;
  }
  return equal ? "" : WhoSaidWhat(calls);
}

std::string DifferentCalls(const std::string& fault) {
  return absl::StrCat("the ranks of a group call different operations: ",
                      fault);
}

}  // namespace lockstep::collectives
