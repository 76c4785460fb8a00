#include "proto/decoder.h"

#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "proto/duration.h"

namespace lockstep::proto {

void Decoder::Fail(const char* field, absl::string_view why) {
  if (!status_.ok()) return;
  std::string where;
  for (const auto& [name, index] : path_) {
    absl::StrAppend(&where, name);
    if (index >= 0) absl::StrAppend(&where, "[", index, "]");
    absl::StrAppend(&where, ".");
  }
  status_ = absl::InvalidArgumentError(
      absl::StrCat(message_, ": ", where, field, ": ", why));
}

void Decoder::Name(const char* field, const std::string& from,
                   std::string* to) {
  constexpr size_t kShownMax = 100;
  Bytes(field, from, kNameBytesMax, to);
  if (IsPrintableUtf8(from)) return;
  Fail(field, absl::StrCat("\"", Printable(from.substr(0, kShownMax)),
                           "\" holds characters that cannot be displayed"));
}

void Decoder::Bytes(const char* field, const std::string& from,
                    size_t bytes_max, std::string* to) {
  if (from.size() > bytes_max) {
    return Fail(field,
                absl::StrCat(from.size(), " bytes are more than ", bytes_max));
  }
  *to = from;
}

void Decoder::Int(const char* field, int64_t from, int least, int* to) {
  if (from < least || from > std::numeric_limits<int>::max()) {
    return Fail(field, absl::StrCat(from, " is not in [", least, ", ",
                                    std::numeric_limits<int>::max(), "]"));
  }
  *to = static_cast<int>(from);
}

void Decoder::NotNegative(const char* field, int64_t from, int64_t* to) {
  if (from < 0) return Fail(field, absl::StrCat(from, " is negative"));
  *to = from;
}

void Decoder::Shape(const char* field,
                    const google::protobuf::RepeatedField<int64_t>& from,
                    std::vector<int64_t>* to) {
  constexpr int64_t kElementsMax = std::numeric_limits<int64_t>::max() / 8;
  if (!Count(field, from.size(), kDimensionsMax)) return;
  int64_t elements = 1;  // of all sizes but zeros, independent of their order
  for (const int64_t size : from) {
    if (size < 0) return Fail(field, absl::StrCat(size, " is negative"));
    if (size > kElementsMax / elements) {
      return Fail(field, "has more elements than can be counted in bytes");
    }
    if (size > 0) elements *= size;
    to->push_back(size);
  }
}

void Decoder::Finite(const char* field, double from, double* to) {
  if (!std::isfinite(from)) {
    return Fail(field, absl::StrCat(from, " is not finite"));
  }
  *to = from;
}

void Decoder::Seconds(const char* field, double from, double* to) {
  if (!std::isfinite(from) || from < 0) {
    return Fail(field, absl::StrCat(from, " is no time in seconds"));
  }
  *to = from;
}

void Decoder::Duration(const char* field,
                       const google::protobuf::Duration& from,
                       absl::Duration* to) {
  if (from.seconds() < 0 || from.nanos() < 0) {
    return Fail(field, absl::StrCat(from.seconds(), " s ", from.nanos(),
                                    " ns is negative"));
  }
  if (from.seconds() > kForEverSeconds || from.nanos() > 999'999'999) {
    return Fail(field, absl::StrCat(from.seconds(), " s ", from.nanos(),
                                    " ns is out of range"));
  }
  *to = from.seconds() == kForEverSeconds
            ? absl::InfiniteDuration()
            : absl::Seconds(from.seconds()) + absl::Nanoseconds(from.nanos());
}

void Decoder::Hash(const char* field, const std::string& from,
                   std::string* to) {
  constexpr size_t kDigits = 32;
  const bool is_hash =
      from.size() == kDigits &&
      from.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!is_hash) {
    return Fail(field, "is not of 32 lower case hexadecimal digits");
  }
  *to = from;
}

void Decoder::ErrorCode(const char* field, uint32_t from,
                        absl::StatusCode* to) {
  constexpr auto kFirst = static_cast<uint32_t>(absl::StatusCode::kCancelled);
  constexpr auto kLast =
      static_cast<uint32_t>(absl::StatusCode::kUnauthenticated);
  if (from < kFirst || from > kLast) {
    return Fail(field, absl::StrCat(from, " is no code of an error"));
  }
  *to = static_cast<absl::StatusCode>(from);
}

bool Decoder::Count(const char* field, int count, int count_max) {
  if (count <= count_max) return true;
  Fail(field, absl::StrCat(count, " entries are more than ", count_max));
  return false;
}

}  // namespace lockstep::proto
