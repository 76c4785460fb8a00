// JSON objects that have exactly the fields that a reader asks for. For sources
// that include nlohmann-json; no public header does.

#ifndef LOCKSTEP_CLIENT_CHECKPOINT_STRICT_JSON_H_
#define LOCKSTEP_CLIENT_CHECKPOINT_STRICT_JSON_H_

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lockstep::checkpoint {

// InvalidArgument if the text is no JSON, has a key twice in one object, or is
// nested deeper than 16 levels.
absl::StatusOr<nlohmann::json> ParseStrictJson(absl::string_view text);

// Reads the fields of one object. The first fault, with its path, is stored in
// `status`; reads after it do nothing.
class ObjectReader {
 public:
  // `path` is empty for the outermost object.
  ObjectReader(const nlohmann::json& tree, std::string path,
               absl::Status* status);

  // The field's value must be of this kind, and fit.
  void Read(const char* key, std::string* value);
  void Read(const char* key, int64_t* value);
  void Read(const char* key, uint64_t* value);
  void Read(const char* key, double* value);
  void Read(const char* key, std::vector<int64_t>* value);
  void Read(const char* key, std::vector<std::string>* value);
  void Read(const char* key, std::map<std::string, std::string>* value);

  bool Has(const char* key) const;
  // `read(ObjectReader)` for the object, or for each object of a list.
  template <typename F>
  void ReadObject(const char* key, F read) {
    const nlohmann::json* tree = Take(key);
    if (tree == nullptr) return;
    ObjectReader fields(*tree, PathOf(key), status_);
    read(fields);
    fields.Finish();
  }
  template <typename F>
  void ReadList(const char* key, F read) {
    const nlohmann::json* list = Take(key);
    if (list == nullptr) return;
    if (!list->is_array()) return Fail(key, "must be a list, [...]");
    for (size_t i = 0; i < list->size() && status_->ok(); ++i) {
      ObjectReader fields((*list)[i], ElementPath(key, i), status_);
      read(fields);
      fields.Finish();
    }
  }

  // Refuses fields that were not read.
  void Finish();

  void Fail(const char* key, absl::string_view fault);

 private:
  // The field's value; nullptr if it is missing or there is a fault already.
  const nlohmann::json* Take(const char* key);
  std::string PathOf(const char* key) const;
  std::string ElementPath(const char* key, size_t index) const;

  const nlohmann::json& tree_;
  const std::string path_;
  absl::Status* const status_;
  std::vector<std::string> taken_;
};

}  // namespace lockstep::checkpoint

#endif  // LOCKSTEP_CLIENT_CHECKPOINT_STRICT_JSON_H_
