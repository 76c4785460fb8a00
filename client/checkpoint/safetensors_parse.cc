// Parses the JSON of a header event by event: a tree of a hostile header would
// take many times its bytes, and a tree keeps only one of two equal keys.

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/text/utf8.h"
#include "client/checkpoint/safetensors.h"
#include "client/checkpoint/safetensors_names.h"
#include "protocol/tensor_type.h"

namespace lockstep::checkpoint {
namespace {

using Json = nlohmann::json;

std::string Quoted(const std::string& text) {
  return absl::StrCat("\"", Printable(text.substr(0, 100)), "\"");
}

// Receives the events of nlohmann's parser. A method that returns false ends
// the parse; `status` then has the reason.
class HeaderEvents final : public nlohmann::json_sax<Json> {
 public:
  absl::Status status() const { return status_; }
  SafetensorsHeader TakeHeader() { return std::move(header_); }

  bool start_object(std::size_t) override {
    switch (expected_) {
      case Expected::kHeader: return Expect(Expected::kName);
      case Expected::kMetadata: return Expect(Expected::kMetadataKey);
      case Expected::kTensor: return Expect(Expected::kField);
      default: return Unexpected("an object");
    }
  }

  bool key(std::string& key) override {
    switch (expected_) {
      case Expected::kName: return BeginEntry(key);
      case Expected::kMetadataKey: return BeginMetadata(key);
      case Expected::kField: return BeginField(key);
      default: return Unexpected("a key");
    }
  }

  bool end_object() override {
    switch (expected_) {
      case Expected::kName: return Expect(Expected::kNothing);
      case Expected::kMetadataKey: return Expect(Expected::kName);
      case Expected::kField: return EndTensor();
      default: return Unexpected("the end of an object");
    }
  }

  bool start_array(std::size_t) override {
    switch (expected_) {
      case Expected::kShape: return Expect(Expected::kExtent);
      case Expected::kOffsets: return Expect(Expected::kOffset);
      default: return Unexpected("an array");
    }
  }

  bool end_array() override {
    switch (expected_) {
      case Expected::kExtent: return Expect(Expected::kField);
      case Expected::kOffset:
        if (offsets_ == 2) return Expect(Expected::kField);
        return Fail("data_offsets must be two numbers, begin and end");
      default: return Unexpected("the end of an array");
    }
  }

  bool string(std::string& text) override {
    switch (expected_) {
      case Expected::kMetadataValue:
        header_.metadata[metadata_key_] = std::move(text);
        return Expect(Expected::kMetadataKey);
      case Expected::kDType: return ReadDType(text);
      default: return Unexpected("a text");
    }
  }

  bool number_unsigned(uint64_t number) override {
    switch (expected_) {
      case Expected::kExtent: return AddExtent(number);
      case Expected::kOffset: return AddOffset(number);
      default: return Unexpected("a number");
    }
  }

  bool number_integer(int64_t number) override {
    return Unexpected(absl::StrCat("the number ", number, " with a sign"));
  }
  bool number_float(double, const std::string& text) override {
    return Unexpected(absl::StrCat("the number ", text.substr(0, 40),
                                   ", which is not whole or too large"));
  }
  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("true or false"); }
  bool binary(Json::binary_t&) override { return Unexpected("bytes"); }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    return Fail(absl::StrCat("the header is not JSON at byte ",
                             kHeaderPrefixBytes + position, ": ",
                             Printable(error.what()).substr(0, 300)));
  }

 private:
  enum class Expected : uint8_t {
    kHeader,  // its object
    kName,    // of the next tensor, or the metadata's key
    kMetadata,
    kMetadataKey,
    kMetadataValue,
    kTensor,  // its object
    kField,   // dtype, shape or data_offsets
    kDType,
    kShape,
    kExtent,
    kOffsets,
    kOffset,
    kNothing,
  };

  bool Expect(Expected next) {
    expected_ = next;
    return true;
  }

  bool Fail(absl::string_view fault) {
    return Fail(absl::InvalidArgumentError(fault));
  }
  bool Fail(absl::Status fault) {
    if (status_.ok()) status_ = std::move(fault);
    return false;
  }
  bool FailTensor(absl::string_view fault) {
    return Fail(absl::StrCat(TensorText(tensor_.name), " ", fault));
  }

  bool Unexpected(absl::string_view found) {
    switch (expected_) {
      case Expected::kHeader:
        return Fail(absl::StrCat("the header must be an object, not ", found));
      case Expected::kMetadata:
        return Fail(
            absl::StrCat(kMetadataKey, " must be an object, not ", found));
      case Expected::kMetadataValue:
        return Fail(absl::StrCat(kMetadataKey, " ", Quoted(metadata_key_),
                                 " must be a text, not ", found));
      case Expected::kTensor:
        return FailTensor(absl::StrCat("must be an object, not ", found));
      case Expected::kDType:
        return FailTensor(absl::StrCat("has a dtype that is no text: ", found));
      case Expected::kShape:
      case Expected::kExtent:
        return FailTensor(
            absl::StrCat("has a shape that is no list of whole numbers of at "
                         "least 0: ",
                         found));
      case Expected::kOffsets:
      case Expected::kOffset:
        return FailTensor(
            absl::StrCat("has data_offsets that are no list of whole numbers "
                         "of at least 0: ",
                         found));
      default: return Fail(absl::StrCat("unexpected in the header: ", found));
    }
  }

  bool BeginEntry(std::string& name) {
    if (name == kMetadataKey) {
      if (std::exchange(has_metadata_, true)) {
        return Fail(absl::StrCat(kMetadataKey, " is there twice"));
      }
      return Expect(Expected::kMetadata);
    }
    tensor_ = {.name = std::move(name)};
    offsets_ = 0;
    has_dtype_ = has_shape_ = has_offsets_ = false;
    if (!names_.insert(tensor_.name).second) {
      return FailTensor("is there twice");
    }
    return Expect(Expected::kTensor);
  }

  bool BeginMetadata(std::string& key) {
    metadata_key_ = std::move(key);
    if (!header_.metadata.emplace(metadata_key_, "").second) {
      return Fail(absl::StrCat(kMetadataKey, " ", Quoted(metadata_key_),
                               " is there twice"));
    }
    return Expect(Expected::kMetadataValue);
  }

  bool BeginField(const std::string& key) {
    const auto begin = [&](bool* has, Expected next) {
      if (!std::exchange(*has, true)) return Expect(next);
      return FailTensor(absl::StrCat("has ", key, " twice"));
    };
    if (key == "dtype") return begin(&has_dtype_, Expected::kDType);
    if (key == "shape") return begin(&has_shape_, Expected::kShape);
    if (key == "data_offsets") return begin(&has_offsets_, Expected::kOffsets);
    return FailTensor(absl::StrCat("has the field ", Quoted(key),
                                   "; there are dtype, shape, data_offsets"));
  }

  bool ReadDType(const std::string& name) {
    for (const NamedDType& named : kNamedDTypes) {
      if (named.name != name) continue;
      tensor_.type.dtype = named.dtype;
      return Expect(Expected::kField);
    }
    const bool foreign =
        std::find(std::begin(kForeignDTypes), std::end(kForeignDTypes), name) !=
        std::end(kForeignDTypes);
    if (!foreign) {
      return FailTensor(absl::StrCat("has the unknown dtype ", Quoted(name)));
    }
    return Fail(absl::UnimplementedError(
        absl::StrCat(TensorText(tensor_.name), " has dtype ", name,
                     ", which Lockstep does not have")));
  }

  bool AddExtent(uint64_t extent) {
    if (extent > std::numeric_limits<int64_t>::max()) {
      return FailTensor(
          absl::StrCat("has an extent that is too large: ", extent));
    }
    if (tensor_.type.shape.size() == kDimensionsMax) {
      return FailTensor(
          absl::StrCat("has more than ", kDimensionsMax, " dimensions"));
    }
    tensor_.type.shape.push_back(static_cast<int64_t>(extent));
    return true;
  }

  bool AddOffset(uint64_t offset) {
    if (offsets_ == 2) {
      return FailTensor("has more than two data_offsets");
    }
    (offsets_++ == 0 ? tensor_.begin : tensor_.end) = offset;
    return true;
  }

  bool EndTensor() {
    if (!has_dtype_ || !has_shape_ || !has_offsets_) {
      return FailTensor(absl::StrCat("has no ", !has_dtype_ ? "dtype"
                                                : !has_shape_
                                                    ? "shape"
                                                    : "data_offsets"));
    }
    const absl::StatusOr<uint64_t> bytes = TensorBytes(tensor_.type);
    if (!bytes.ok()) return FailTensor(bytes.status().message());
    if (tensor_.begin > tensor_.end || tensor_.bytes() != *bytes) {
      return FailTensor(absl::StrCat("has data_offsets ", tensor_.begin, " to ",
                                     tensor_.end, "; ", TypeText(tensor_.type),
                                     " has ", *bytes, " bytes"));
    }
    header_.tensors.push_back(std::move(tensor_));
    return Expect(Expected::kName);
  }

  absl::Status status_;
  Expected expected_ = Expected::kHeader;
  SafetensorsHeader header_;
  absl::flat_hash_set<std::string> names_;
  bool has_metadata_ = false;
  std::string metadata_key_;
  // The entry in progress.
  StoredTensor tensor_;
  int offsets_ = 0;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
};

// What is wrong with where a tensor begins; empty if nothing is. `before` is
// the tensor with the data before it, nullptr for the first one.
std::string BeginFault(const StoredTensor* before, const StoredTensor& tensor) {
  const uint64_t end = before == nullptr ? 0 : before->end;
  if (tensor.begin == end) return "";
  return absl::StrCat(
      before == nullptr
          ? std::string("the data begins at 0")
          : absl::StrCat(TensorText(before->name), " ends at ", end),
      tensor.begin < end ? ": they overlap" : ": there is a gap");
}

// Orders the tensors by their data, and checks that they fill it exactly.
absl::Status CheckRanges(uint64_t data_bytes,
                         std::vector<StoredTensor>* tensors) {
  std::sort(tensors->begin(), tensors->end(),
            [](const StoredTensor& a, const StoredTensor& b) {
              return std::tie(a.begin, a.end, a.name) <
                     std::tie(b.begin, b.end, b.name);
            });
  const StoredTensor* before = nullptr;
  for (const StoredTensor& tensor : *tensors) {
    const std::string fault = BeginFault(before, tensor);
    if (!fault.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(TensorText(tensor.name), " has data_offsets ",
                       tensor.begin, " to ", tensor.end, "; ", fault));
    }
    before = &tensor;
  }
  const uint64_t end = before == nullptr ? 0 : before->end;
  if (end == data_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the file has ", data_bytes, " bytes of data; ",
      before == nullptr ? std::string("it has no tensor")
                        : absl::StrCat(TensorText(before->name),
                                       ", the last one, ends at ", end)));
}

}  // namespace

absl::StatusOr<SafetensorsHeader> ParseHeader(absl::string_view bytes,
                                              uint64_t file_bytes) {
  const absl::StatusOr<uint64_t> data_begin = DataBegin(bytes, file_bytes);
  if (!data_begin.ok()) return data_begin.status();
  if (bytes.size() < *data_begin) {
    return absl::InvalidArgumentError(
        absl::StrCat("the header has ", *data_begin, " bytes with its length; ",
                     bytes.size(), " were given"));
  }
  const absl::string_view json =
      bytes.substr(kHeaderPrefixBytes, *data_begin - kHeaderPrefixBytes);
  // The parser would skip white space and a byte order mark.
  if (json.empty() || json[0] != '{') {
    return absl::InvalidArgumentError("the header does not begin with '{'");
  }
  // The parser would take it for the end of the text.
  const size_t zero = json.find('\0');
  if (zero != absl::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the header is not JSON at byte ", kHeaderPrefixBytes + zero, ": 0"));
  }
  HeaderEvents events;
  const bool parsed = Json::sax_parse(json.begin(), json.end(), &events);
  if (!parsed || !events.status().ok()) return events.status();
  SafetensorsHeader header = events.TakeHeader();
  absl::Status ranges = CheckRanges(file_bytes - *data_begin, &header.tensors);
  if (!ranges.ok()) return ranges;
  return header;
}

}  // namespace lockstep::checkpoint
