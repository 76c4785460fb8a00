#include "client/checkpoint/strict_json.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text/utf8.h"

namespace lockstep::checkpoint {
namespace {

using Json = nlohmann::json;

constexpr int kDepthMax = 16;

}  // namespace

absl::StatusOr<Json> ParseStrictJson(absl::string_view text) {
  // The parser would take it for the end of the text.
  if (text.find('\0') != absl::string_view::npos) {
    return absl::InvalidArgumentError("the text is no JSON: it has a byte 0");
  }
  std::vector<std::set<std::string>> keys;  // of each open object
  std::string fault;
  const auto on_event = [&](int depth, Json::parse_event_t event,
                            Json& parsed) {
    if (depth > kDepthMax && fault.empty()) fault = "it is nested too deep";
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key &&
        !keys.back().insert(parsed.get<std::string>()).second &&
        fault.empty()) {
      fault = absl::StrCat("it has the key \"",
                           Printable(parsed.get<std::string>().substr(0, 100)),
                           "\" twice in one object");
    }
    return true;
  };
  Json tree = Json::parse(text.begin(), text.end(), on_event,
                          /*allow_exceptions=*/false);
  if (tree.is_discarded()) {
    return absl::InvalidArgumentError("the text is no JSON");
  }
  if (!fault.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the text is refused: ", fault));
  }
  return tree;
}

ObjectReader::ObjectReader(const Json& tree, std::string path,
                           absl::Status* status)
    : tree_(tree), path_(std::move(path)), status_(status) {
  if (status_->ok() && !tree_.is_object()) {
    *status_ = absl::InvalidArgumentError(absl::StrCat(
        path_.empty() ? "the text" : path_, ": must be an object, {...}"));
  }
}

std::string ObjectReader::PathOf(const char* key) const {
  return absl::StrCat(path_, path_.empty() ? "" : ".", key);
}

std::string ObjectReader::ElementPath(const char* key, size_t index) const {
  return absl::StrCat(PathOf(key), "[", index, "]");
}

void ObjectReader::Fail(const char* key, absl::string_view fault) {
  if (!status_->ok()) return;
  *status_ = absl::InvalidArgumentError(absl::StrCat(PathOf(key), ": ", fault));
}

bool ObjectReader::Has(const char* key) const {
  return status_->ok() && tree_.contains(key);
}

const Json* ObjectReader::Take(const char* key) {
  if (!status_->ok()) return nullptr;
  taken_.push_back(key);
  const auto found = tree_.find(key);
  if (found != tree_.end()) return &*found;
  Fail(key, "is missing");
  return nullptr;
}

void ObjectReader::Finish() {
  if (!status_->ok() || taken_.size() == tree_.size()) return;
  for (const auto& [key, value] : tree_.items()) {
    if (std::find(taken_.begin(), taken_.end(), key) == taken_.end()) {
      return Fail(Printable(key.substr(0, 100)).c_str(), "is not known");
    }
  }
}

void ObjectReader::Read(const char* key, std::string* value) {
  const Json* tree = Take(key);
  if (tree == nullptr) return;
  if (!tree->is_string()) return Fail(key, "must be a text in quotes");
  *value = tree->get<std::string>();
}

void ObjectReader::Read(const char* key, uint64_t* value) {
  const Json* tree = Take(key);
  if (tree == nullptr) return;
  if (!tree->is_number_unsigned()) {
    return Fail(key, "must be a whole number of at least 0");
  }
  *value = tree->get<uint64_t>();
}

void ObjectReader::Read(const char* key, int64_t* value) {
  uint64_t number = 0;
  Read(key, &number);
  if (!status_->ok()) return;
  if (number > std::numeric_limits<int64_t>::max()) {
    return Fail(key, "is too large");
  }
  *value = static_cast<int64_t>(number);
}

void ObjectReader::Read(const char* key, double* value) {
  const Json* tree = Take(key);
  if (tree == nullptr) return;
  if (!tree->is_number()) return Fail(key, "must be a number");
  *value = tree->get<double>();
}

void ObjectReader::Read(const char* key, std::vector<int64_t>* value) {
  const Json* tree = Take(key);
  if (tree == nullptr) return;
  value->clear();
  if (!tree->is_array()) return Fail(key, "must be a list of whole numbers");
  for (const Json& element : *tree) {
    const uint64_t number =
        element.is_number_unsigned() ? element.get<uint64_t>() : ~uint64_t{0};
    if (number > std::numeric_limits<int64_t>::max()) {
      return Fail(key, "must be a list of whole numbers of at least 0");
    }
    value->push_back(static_cast<int64_t>(number));
  }
}

void ObjectReader::Read(const char* key, std::vector<std::string>* value) {
  const Json* tree = Take(key);
  if (tree == nullptr) return;
  value->clear();
  if (!tree->is_array()) return Fail(key, "must be a list of texts");
  for (const Json& element : *tree) {
    if (!element.is_string()) return Fail(key, "must be a list of texts");
    value->push_back(element.get<std::string>());
  }
}

void ObjectReader::Read(const char* key,
                        std::map<std::string, std::string>* value) {
  const Json* tree = Take(key);
  if (tree == nullptr) return;
  value->clear();
  if (!tree->is_object()) return Fail(key, "must be an object of texts");
  for (const auto& [name, element] : tree->items()) {
    if (!element.is_string()) return Fail(key, "must be an object of texts");
    value->emplace(name, element.get<std::string>());
  }
}

}  // namespace lockstep::checkpoint
