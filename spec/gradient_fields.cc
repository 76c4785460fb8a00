#include "spec/gradient_fields.h"

#include <algorithm>
#include <bit>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lockstep::spec {
namespace {

constexpr char kNoCast[] = "none";

absl::Status NotOneOf(absl::string_view word, absl::string_view domain) {
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", absl::Utf8SafeCEscape(word), "\" is not one of ", domain));
}

}  // namespace

Written WireDTypeForm::Print(std::optional<DType> value) const {
  return value ? std::string(Name(*value)) : std::string(kNoCast);
}

absl::StatusOr<std::optional<DType>> WireDTypeForm::Read(
    const Written& written) const {
  const absl::StatusOr<std::string> word = WordOf(written);
  if (!word.ok()) return word.status();
  if (*word == kNoCast) return std::optional<DType>();
  for (const DType half : {DType::kBF16, DType::kF16}) {
    if (*word == Name(half)) return std::optional<DType>(half);
  }
  return NotOneOf(*word, Domain());
}

std::string WireDTypeForm::Fault(std::optional<DType> value,
                                 const JobSpec&) const {
  if (!value || *value == DType::kBF16 || *value == DType::kF16) return "";
  return absl::StrCat("\"", std::string(Name(*value)),
                      "\" is outside of its domain: ", Domain());
}

std::string ErrorFeedbackForm::Fault(bool value, const JobSpec& spec) const {
  if (!value) return "";
  if (!spec.buckets.wire_dtype) {
    return "is about a cast, and there is none: set buckets.wire_dtype";
  }
  return spec.sync == SyncMode::kNegotiated
             ? "is not for sync: negotiated, where ranks leave out gradients"
             : "";
}

std::string WindowsForm::Fault(bool value, const JobSpec& spec) const {
  if (!value || spec.run_ahead > 0) return "";
  return "needs run_ahead: 1 or 2, where each step has other buckets than the "
         "one before it";
}

absl::StatusOr<int> LeavesForm::Read(const Written& written) const {
  const absl::StatusOr<std::string> word = WordOf(written);
  if (!word.ok()) return word.status();
  int value = 0;
  if (!absl::SimpleAtoi(*word, &value)) return NotOneOf(*word, Domain());
  return value;
}

std::string LeavesForm::Fault(int value, const JobSpec& spec) const {
  if (value == 0) return "";
  if (value < 0 || value > ReproducibleSpec::kLeavesMax ||
      !std::has_single_bit(static_cast<unsigned>(value))) {
    return absl::StrCat(value, " is outside of its domain: ", Domain());
  }
  if (spec.sync != SyncMode::kStatic) {
    return "needs sync: static, where every rank gets every sum";
  }
  if (spec.buckets.wire_dtype) {
    return "sums what ranks have, and buckets.wire_dtype casts it: set one";
  }
  // A parameter is reduced over one or more axes.
  const auto& axes = spec.mesh.axes;
  const bool can_reduce =
      std::any_of(axes.begin(), axes.end(), [value](const MeshAxis& axis) {
        return std::has_single_bit(static_cast<unsigned>(axis.size)) &&
               axis.size <= value;
      });
  if (can_reduce) return "";
  return absl::StrFormat(
      "the ranks that reduce a parameter must be a power of two, %d at most, "
      "which no axis of mesh %s is",
      value, ToString(spec.mesh));
}

std::string RunAheadForm::Fault(int value, const JobSpec& spec) const {
  std::string fault = NumberForm<int>::Fault(value, spec);
  if (!fault.empty() || value == 0) return fault;
  if (spec.transport != "nccl") {
    return "needs transport: nccl: on a host each step waits for the verdict "
           "of the one before it";
  }
  const char* what = nullptr;
  if (spec.reproducible.leaves > 0) what = "reproducible.leaves";
  if (spec.sync == SyncMode::kNegotiated) what = "sync: negotiated";
  if (spec.sync == SyncMode::kReduceScatter) what = "sync: reduce_scatter";
  if (spec.buckets.error_feedback) what = "buckets.error_feedback";
  if (spec.pipeline.schedule != PipelineSchedule::kNone) what = "a pipeline";
  if (what == nullptr) return "";
  return absl::StrCat("must be 0 with ", what,
                      ": each step waits for the one before it");
}

}  // namespace lockstep::spec
