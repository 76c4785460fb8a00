#include "client/checkpoint/safetensors.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/text/utf8.h"
#include "client/checkpoint/safetensors_names.h"
#include "protocol/tensor_type.h"

namespace lockstep::checkpoint {
namespace {

absl::Status Refused(const StoredTensor& tensor, absl::string_view fault) {
  return absl::InvalidArgumentError(
      absl::StrCat(TensorText(tensor.name), " ", fault));
}

bool IsUtf8(const std::string& text) { return ToUtf8(text) == text; }

// `text` must be UTF-8.
std::string JsonString(const std::string& text) {
  return nlohmann::json(text).dump();
}

absl::Status CheckNames(const SafetensorsHeader& header) {
  std::set<absl::string_view> names;
  for (const StoredTensor& tensor : header.tensors) {
    if (!IsUtf8(tensor.name)) return Refused(tensor, "has a name not in UTF-8");
    if (tensor.name == kMetadataKey) {
      return Refused(tensor, "has the name that is the key of the metadata");
    }
    if (!names.insert(tensor.name).second) {
      return Refused(tensor, "is there twice");
    }
  }
  for (const auto& [key, value] : header.metadata) {
    if (IsUtf8(key) && IsUtf8(value)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "metadata \"", Printable(key.substr(0, 100)), "\" is not UTF-8"));
  }
  return absl::OkStatus();
}

absl::Status CheckLayout(const std::vector<StoredTensor>& tensors) {
  uint64_t end = 0;
  for (const StoredTensor& tensor : tensors) {
    const absl::StatusOr<uint64_t> bytes = TensorBytes(tensor.type);
    if (!bytes.ok()) return Refused(tensor, bytes.status().message());
    if (tensor.begin != end || tensor.end < end || tensor.bytes() != *bytes) {
      return Refused(tensor, absl::StrCat("is to have ", *bytes, " bytes from ",
                                          end, " on; its range is ",
                                          tensor.begin, " to ", tensor.end));
    }
    end = tensor.end;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> TensorJson(const StoredTensor& tensor) {
  const std::string_view name = SafetensorsName(tensor.type.dtype);
  if (name.empty()) {
    return absl::UnimplementedError(absl::StrFormat(
        "%s cannot be stored: safetensors has no name for dtype %s",
        TensorText(tensor.name), Name(tensor.type.dtype)));
  }
  return absl::StrFormat(
      R"(%s:{"dtype":"%s","shape":[%s],"data_offsets":[%d,%d]})",
      JsonString(tensor.name), name, absl::StrJoin(tensor.type.shape, ","),
      tensor.begin, tensor.end);
}

absl::StatusOr<std::string> HeaderJson(const SafetensorsHeader& header) {
  std::string json = "{";
  if (!header.metadata.empty()) {
    absl::StrAppend(&json, JsonString(kMetadataKey), ":{",
                    absl::StrJoin(header.metadata, ",",
                                  [](std::string* out, const auto& entry) {
                                    absl::StrAppend(
                                        out, JsonString(entry.first), ":",
                                        JsonString(entry.second));
                                  }),
                    "}");
  }
  for (const StoredTensor& tensor : header.tensors) {
    const absl::StatusOr<std::string> entry = TensorJson(tensor);
    if (!entry.ok()) return entry.status();
    absl::StrAppend(&json, json.size() == 1 ? "" : ",", *entry);
  }
  json += "}";
  return json;
}

}  // namespace

std::string TensorText(absl::string_view name) {
  return absl::StrCat("tensor \"", Printable(name.substr(0, 100)),
                      name.size() > 100 ? "...\"" : "\"");
}

std::string_view SafetensorsName(DType dtype) {
  for (const NamedDType& named : kNamedDTypes) {
    if (named.dtype == dtype) return named.name;
  }
  return "";
}

absl::StatusOr<uint64_t> TensorBytes(const TensorType& type) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  uint64_t bytes = SizeOf(type.dtype);
  if (bytes == 0) return absl::InvalidArgumentError("has no valid dtype");
  if (type.shape.size() > kDimensionsMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "has ", type.shape.size(), " dimensions, more than ", kDimensionsMax));
  }
  for (const int64_t extent : type.shape) {
    if (extent < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("has the negative extent ", extent));
    }
    if (bytes != 0 && static_cast<uint64_t>(extent) > kMax / bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("has a size in bytes that overflows: ", TypeText(type)));
    }
    bytes *= static_cast<uint64_t>(extent);
  }
  return bytes;
}

absl::Status LayOut(std::vector<StoredTensor>* tensors) {
  std::sort(tensors->begin(), tensors->end(),
            [](const StoredTensor& a, const StoredTensor& b) {
              const size_t a_size = SizeOf(a.type.dtype);
              const size_t b_size = SizeOf(b.type.dtype);
              return std::tie(b_size, a.name) < std::tie(a_size, b.name);
            });
  uint64_t end = 0;
  for (StoredTensor& tensor : *tensors) {
    const absl::StatusOr<uint64_t> bytes = TensorBytes(tensor.type);
    if (!bytes.ok()) return Refused(tensor, bytes.status().message());
    if (*bytes > std::numeric_limits<uint64_t>::max() - end) {
      return Refused(tensor, "ends at an offset that overflows");
    }
    tensor.begin = end;
    tensor.end = end += *bytes;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> FormatHeader(const SafetensorsHeader& header) {
  absl::Status status = CheckNames(header);
  if (status.ok()) status = CheckLayout(header.tensors);
  if (!status.ok()) return status;
  absl::StatusOr<std::string> json = HeaderJson(header);
  if (!json.ok()) return json;
  const size_t used = kHeaderPrefixBytes + json->size();
  json->append((kDataAlignment - used % kDataAlignment) % kDataAlignment, ' ');
  if (json->size() > kHeaderJsonBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("the header of ", header.tensors.size(), " tensors has ",
                     json->size(), " bytes, more than ", kHeaderJsonBytesMax));
  }
  std::string bytes;
  for (size_t i = 0; i < kHeaderPrefixBytes; ++i) {
    bytes.push_back(static_cast<char>(json->size() >> (8 * i) & 0xFF));
  }
  return absl::StrCat(bytes, *json);
}

absl::StatusOr<uint64_t> DataBegin(absl::string_view prefix,
                                   uint64_t file_bytes) {
  if (file_bytes < kHeaderPrefixBytes || prefix.size() < kHeaderPrefixBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the file has ", file_bytes,
                                                   " bytes; the length of its "
                                                   "header alone needs ",
                                                   kHeaderPrefixBytes));
  }
  uint64_t length = 0;
  for (size_t i = 0; i < kHeaderPrefixBytes; ++i) {
    length |= uint64_t{static_cast<uint8_t>(prefix[i])} << (8 * i);
  }
  if (length > kHeaderJsonBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("the header claims to have ", length, " bytes; at most ",
                     kHeaderJsonBytesMax, " are read"));
  }
  if (length > file_bytes - kHeaderPrefixBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the header claims to have ", length,
                     " bytes; the file has ", file_bytes));
  }
  return kHeaderPrefixBytes + length;
}

}  // namespace lockstep::checkpoint
