#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text/nearest.h"
#include "plan/plan_json.h"
#include "plan/plan_json_fields.h"
#include "protocol/tensor_type.h"

namespace lockstep::plan {
namespace {

using Json = nlohmann::ordered_json;

std::string Quoted(const std::string& text) {
  return absl::StrCat("\"", absl::Utf8SafeCEscape(text.substr(0, 100)), "\"");
}

std::string Meant(const std::string& word,
                  const std::vector<std::string>& known) {
  const std::string nearest = Nearest(word, known);
  return nearest.empty()
             ? absl::StrCat("; there are ", absl::StrJoin(known, ", "))
             : absl::StrCat("; did you mean ", nearest, "?");
}

// Reads a tree into values and stores the first fault with its path.
class PlanReader {
 public:
  absl::Status status() const { return status_; }

  template <typename T>
  void Read(const Json& tree, T* value) {
    if constexpr (json::kIsRecord<T>) {
      ReadRecord(tree, value);
    } else if constexpr (std::is_enum_v<T>) {
      ReadWord(tree, value);
    } else if constexpr (std::is_same_v<T, bool>) {
      ReadTruth(tree, value);
    } else if constexpr (std::is_integral_v<T>) {
      ReadNumber(tree, value);
    } else if constexpr (std::is_floating_point_v<T>) {
      if (!tree.is_number()) return Fail("must be a number");
      *value = tree.get<T>();
    } else {
      ReadOther(tree, value);
    }
  }

 private:
  void Fail(absl::string_view what) {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(
        absl::StrCat(path_.empty() ? "the plan" : path_, ": ", what));
  }

  // Reads a field or element of the current value; `step` extends the path.
  template <typename T>
  void ReadAt(const std::string& step, const Json& tree, T* value) {
    if (!status_.ok()) return;
    const size_t before = path_.size();
    absl::StrAppend(&path_, path_.empty() || step[0] == '[' ? "" : ".", step);
    Read(tree, value);
    path_.resize(before);
  }

  template <typename T>
  void ReadRecord(const Json& tree, T* record) {
    if (!tree.is_object()) return Fail("must be an object, {...}");
    size_t read = 0;
    std::vector<std::string> known;
    json::Fields<T>([&](const char* name, auto member) {
      known.push_back(name);
      const auto found = tree.find(name);
      if (found == tree.end()) return;
      ++read;
      ReadAt(name, *found, &(record->*member));
    });
    if (!status_.ok() || read == tree.size()) return;
    for (const auto& [name, value] : tree.items()) {
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        return Fail(
            absl::StrCat("has no field ", Quoted(name), Meant(name, known)));
      }
    }
  }

  template <typename E>
  void ReadWord(const Json& tree, E* value) {
    if (!tree.is_string()) return Fail("must be a word in quotes");
    const std::string word = tree.get<std::string>();
    std::vector<std::string> known;
    for (const auto& [name, enumerator] : json::WordsOf<E>()) {
      if (name == word) {
        *value = enumerator;
        return;
      }
      known.push_back(name);
    }
    Fail(absl::StrCat(Quoted(word), " is not known here", Meant(word, known)));
  }

  void ReadTruth(const Json& tree, bool* value) {
    if (!tree.is_boolean()) return Fail("must be true or false");
    *value = tree.get<bool>();
  }

  template <typename T>
  void ReadNumber(const Json& tree, T* value) {
    using Limits = std::numeric_limits<T>;
    if (tree.is_number_unsigned()) {
      const uint64_t number = tree.get<uint64_t>();
      if (number <= static_cast<uint64_t>(Limits::max())) {
        *value = static_cast<T>(number);
        return;
      }
    } else if (tree.is_number_integer()) {
      const int64_t number = tree.get<int64_t>();
      if (std::is_signed_v<T> && number >= int64_t{Limits::min()}) {
        *value = static_cast<T>(number);
        return;
      }
    }
    Fail(absl::StrCat("must be a whole number, ",
                      std::is_signed_v<T> ? "" : "0 to ", Limits::max(),
                      std::is_signed_v<T> ? " at most" : ""));
  }

  void ReadOther(const Json& tree, std::string* value) {
    if (!tree.is_string()) return Fail("must be a text in quotes");
    *value = tree.get<std::string>();
  }

  void ReadOther(const Json& tree, Revision* value) {
    ReadNumber(tree, &value->value);
  }

  void ReadOther(const Json& tree, Mesh* value) {
    if (!tree.is_string())
      return Fail("must be axes such as \"data=2,pipe=4\"");
    absl::StatusOr<Mesh> mesh = ParseMesh(tree.get<std::string>());
    if (!mesh.ok()) return Fail(mesh.status().message());
    *value = *std::move(mesh);
  }

  void ReadOther(const Json& tree, Activation* value) {
    std::optional<Activation> activation;
    if (tree.is_string()) activation = ParseActivation(tree.get<std::string>());
    if (!activation) return Fail("must be a type such as \"f32[4,128]\"");
    *value = *std::move(activation);
  }

  void ReadOther(const Json& tree, TransferRef* value) {
    if (!tree.is_array() || tree.size() != 2) {
      return Fail("must name a transfer: [lane, index]");
    }
    ReadAt("[0]", tree[0], &value->lane);
    ReadAt("[1]", tree[1], &value->index);
  }

  void ReadOther(const Json& tree, HaloSegment* value) {
    if (!tree.is_array() || tree.size() != 4) {
      return Fail("must be a segment: [in, out, count, step]");
    }
    ReadAt("[0]", tree[0], &value->in);
    ReadAt("[1]", tree[1], &value->out);
    ReadAt("[2]", tree[2], &value->count);
    ReadAt("[3]", tree[3], &value->step);
  }

  void ReadOther(const Json& tree, StateSlice* value) {
    if (!tree.is_array() || tree.size() != 2) {
      return Fail("must be a slice: [offset, count]");
    }
    ReadAt("[0]", tree[0], &value->offset);
    ReadAt("[1]", tree[1], &value->count);
  }

  template <typename T>
  void ReadOther(const Json& tree, std::optional<T>* value) {
    Read(tree, &value->emplace());
  }

  template <typename T>
  void ReadOther(const Json& tree, std::vector<T>* list) {
    if (!tree.is_array()) return Fail("must be a list, [...]");
    list->reserve(tree.size());
    for (size_t i = 0; i < tree.size(); ++i) {
      ReadAt(absl::StrCat("[", i, "]"), tree[i], &list->emplace_back());
    }
  }

  std::string path_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<Plan> PlanFromJson(absl::string_view text) {
  const Json tree = Json::parse(text.begin(), text.end(), nullptr,
                                /*allow_exceptions=*/false);
  if (tree.is_discarded()) {
    return absl::InvalidArgumentError("the text is no JSON");
  }
  PlanReader reader;
  Plan plan;
  reader.Read(tree, &plan);
  if (!reader.status().ok()) return reader.status();
  return plan;
}

}  // namespace lockstep::plan
