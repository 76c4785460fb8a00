#include "plan/local_op_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lockstep::plan {
namespace {

bool HasTypes(const LocalOp& op) {
  return op.kind == LocalKind::kCast || op.kind == LocalKind::kCastFeedback ||
         op.kind == LocalKind::kSumPairs || op.from != op.to;
}

}  // namespace

std::string Describe(const LocalOp& op) {
  std::string text(Name(op.kind));
  if (op.offset != 0 || op.count != 0) {
    // Unsigned, so that the sum of any numbers of an unverified plan is
    // defined.
    absl::StrAppend(&text, " of elements ", op.offset, " to ",
                    static_cast<int64_t>(static_cast<uint64_t>(op.offset) +
                                         static_cast<uint64_t>(op.count)));
  }
  if (HasTypes(op)) {
    absl::StrAppendFormat(&text, " from %s to %s", Name(op.from), Name(op.to));
  }
  if (op.leaf != -1) absl::StrAppend(&text, " for leaf ", op.leaf);
  if (op.divisor != 1) absl::StrAppend(&text, ", divisor ", op.divisor);
  return text;
}

}  // namespace lockstep::plan
