#include "spec/spec_text.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/text/nearest.h"
#include "spec/field.h"
#include "spec/yaml_tree.h"

namespace lockstep::spec {
namespace {

using Kind = YamlNode::Kind;

// Not a field of the job: workers register their parameters.
constexpr char kParameters[] = "parameters";

const SpecFieldRule* FindField(absl::string_view name) {
  for (const SpecFieldRule& rule : SpecFields()) {
    if (rule.name == name) return &rule;
  }
  return nullptr;
}

// The full names of a section's fields; empty if there is no such section.
std::vector<std::string> FieldsOfSection(absl::string_view section) {
  std::vector<std::string> names;
  for (const SpecFieldRule& rule : SpecFields()) {
    absl::string_view rest = rule.name;
    if (absl::ConsumePrefix(&rest, section) &&
        absl::ConsumePrefix(&rest, ".")) {
      names.push_back(rule.name);
    }
  }
  return names;
}

// A suggestion for `name`: a similar field or section, or a field of this name
// in a section.
std::string Suggestion(absl::string_view name) {
  std::vector<std::string> known = {kParameters};
  for (const SpecFieldRule& rule : SpecFields()) {
    known.push_back(rule.name);
    const std::vector<std::string> parts = absl::StrSplit(rule.name, '.');
    if (parts.size() == 2) known.push_back(parts[0]);
  }
  if (const std::string near = Nearest(name, known); !near.empty()) return near;
  for (const SpecFieldRule& rule : SpecFields()) {
    if (absl::EndsWith(rule.name, absl::StrCat(".", name))) return rule.name;
  }
  return "";
}

// Reads a spec from its tree, and stores the line of each field it has read.
class Reader {
 public:
  explicit Reader(absl::string_view file) : file_(file) {}

  absl::StatusOr<SpecFile> Read(const YamlNode& root) {
    if (root.kind != Kind::kMap) {
      return At(root.line, "the text is not a map of fields, such as name: x");
    }
    if (absl::Status s = ReadMap(root, ""); !s.ok()) return s;
    if (absl::Status s = CheckRequired(root.line); !s.ok()) return s;
    if (absl::Status s = CheckDomains(); !s.ok()) return s;
    return SpecFile{std::move(spec_), std::move(parameters_)};
  }

  absl::Status At(int line, absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(file_, ":", line, ": ", what));
  }

 private:
  absl::Status At(int line, absl::string_view field,
                  absl::string_view what) const {
    return At(line, absl::StrCat(field, ": ", what));
  }

  // `prefix` is "" or "section.". A key may be a full name as well, so
  // {buckets: {bytes_max: 1MiB}} and {buckets.bytes_max: 1MiB} are the same.
  absl::Status ReadMap(const YamlNode& map, absl::string_view prefix) {
    for (const auto& [key, value] : map.entries) {
      if (key.kind != Kind::kWord) return At(key.line, "a key is not a word");
      const std::string name = absl::StrCat(prefix, key.word);
      const auto [first, is_new] = line_of_.try_emplace(name, key.line);
      if (!is_new) {
        return At(key.line, Escaped(name),
                  absl::StrCat("is there already, in line ", first->second));
      }
      absl::Status read = ReadEntry(name, key.line, value);
      if (!read.ok()) return read;
    }
    return absl::OkStatus();
  }

  absl::Status ReadEntry(const std::string& name, int line,
                         const YamlNode& value) {
    if (name == kParameters) return ReadDeclared(value);
    const std::vector<std::string> fields = FieldsOfSection(name);
    if (!fields.empty()) {
      if (value.kind == Kind::kMap)
        return ReadMap(value, absl::StrCat(name, "."));
      return At(line, name,
                absl::StrCat("must be a map of its fields: ",
                             absl::StrJoin(fields, ", ")));
    }
    const SpecFieldRule* const field = FindField(name);
    if (field == nullptr) return UnknownField(name, line);
    absl::StatusOr<Written> written = WrittenIn(value);
    if (!written.ok()) return At(line, name, written.status().message());
    absl::Status read = field->read(*written, &spec_);
    return read.ok() ? read : At(line, name, read.message());
  }

  absl::Status ReadDeclared(const YamlNode& list) {
    auto read = ReadParameters(list);
    if (const auto* error = std::get_if<YamlError>(&read)) {
      return At(error->line, error->what);
    }
    parameters_ = std::get<0>(std::move(read));
    return absl::OkStatus();
  }

  absl::Status UnknownField(const std::string& name, int line) const {
    std::string what = "is no field of a job spec";
    if (const std::string meant = Suggestion(name); !meant.empty()) {
      absl::StrAppend(&what, "; did you mean ", meant, "?");
    }
    return At(line, Escaped(name), what);
  }

  static std::string Escaped(const std::string& name) {
    return absl::Utf8SafeCEscape(name.substr(0, 100));
  }

  static absl::StatusOr<std::string> WordIn(const YamlNode& node) {
    if (node.kind == Kind::kWord) return node.word;
    return absl::InvalidArgumentError(node.kind == Kind::kNothing
                                          ? "has an entry without a value"
                                          : "has an entry that is no word");
  }

  static absl::StatusOr<Written> WrittenIn(const YamlNode& node) {
    switch (node.kind) {
      case Kind::kWord: return Written(node.word);
      case Kind::kList: return ListIn(node);
      case Kind::kMap: return MapIn(node);
      case Kind::kNothing: break;
    }
    return absl::InvalidArgumentError("has no value");
  }

  static absl::StatusOr<Written> ListIn(const YamlNode& node) {
    WrittenList list;
    for (const YamlNode& element : node.elements) {
      absl::StatusOr<std::string> word = WordIn(element);
      if (!word.ok()) return word.status();
      list.push_back(*std::move(word));
    }
    return Written(std::move(list));
  }

  static absl::StatusOr<Written> MapIn(const YamlNode& node) {
    WrittenMap map;
    for (const auto& entry : node.entries) {
      absl::StatusOr<std::string> key = WordIn(entry.key);
      if (!key.ok()) return key.status();
      absl::StatusOr<std::string> value = WordIn(entry.value);
      if (!value.ok()) return value.status();
      map.emplace_back(*std::move(key), *std::move(value));
    }
    return Written(std::move(map));
  }

  absl::Status CheckRequired(int line) const {
    for (const SpecFieldRule& rule : SpecFields()) {
      if (rule.required && !line_of_.contains(rule.name)) {
        return At(line, rule.name, "is missing");
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckDomains() const {
    for (const SpecFieldRule& rule : SpecFields()) {
      const std::string fault = rule.fault(spec_);
      if (fault.empty()) continue;
      return At(LineOf(rule.name), rule.name, fault);
    }
    return absl::OkStatus();
  }

  // The line of the field; if the text does not have it, its section's; else 1.
  int LineOf(const std::string& name) const {
    const auto written = line_of_.find(name);
    if (written != line_of_.end()) return written->second;
    const std::string section = name.substr(0, name.find('.'));
    int first = 0;
    for (const auto& [seen, line] : line_of_) {
      const bool is_in_section =
          seen == section || absl::StartsWith(seen, absl::StrCat(section, "."));
      if (is_in_section && (first == 0 || line < first)) first = line;
    }
    return std::max(first, 1);
  }

  const std::string file_;
  JobSpec spec_;
  std::vector<DeclaredParameter> parameters_;
  std::map<std::string, int> line_of_;  // of fields and sections read so far
};

void Emit(YAML::Emitter& out, const Written& written) {
  if (const auto* word = std::get_if<std::string>(&written)) {
    out << *word;
  } else if (const auto* list = std::get_if<WrittenList>(&written)) {
    out << YAML::Flow << *list;
  } else {
    out << YAML::Flow << YAML::BeginMap;
    for (const auto& [key, value] : std::get<WrittenMap>(written)) {
      out << YAML::Key << key << YAML::Value << value;
    }
    out << YAML::EndMap;
  }
}

}  // namespace

absl::StatusOr<JobSpec> ParseJobSpec(absl::string_view text,
                                     absl::string_view file) {
  absl::StatusOr<SpecFile> read = ParseSpecFile(text, file);
  if (!read.ok()) return read.status();
  return std::move(read->spec);
}

absl::StatusOr<SpecFile> ParseSpecFile(absl::string_view text,
                                       absl::string_view file) {
  Reader reader(file);
  const std::variant<YamlNode, YamlError> parsed = ParseYaml(text);
  if (const auto* error = std::get_if<YamlError>(&parsed)) {
    return reader.At(error->line, error->what);
  }
  return reader.Read(std::get<YamlNode>(parsed));
}

bool LooksLikeJobSpec(absl::string_view text) {
  const std::variant<YamlNode, YamlError> parsed = ParseYaml(text);
  const auto* root = std::get_if<YamlNode>(&parsed);
  if (root == nullptr || root->kind != Kind::kMap) return false;
  const auto has = [root](absl::string_view field) {
    return std::any_of(
        root->entries.begin(), root->entries.end(),
        [field](const auto& entry) { return entry.key.word == field; });
  };
  return has("name") && !has("ranks");
}

std::string ToYaml(const JobSpec& spec) {
  YAML::Emitter out;
  out << YAML::BeginMap;
  std::string open_section;
  for (const SpecFieldRule& rule : SpecFields()) {
    const std::vector<std::string> path = absl::StrSplit(rule.name, '.');
    const std::string section = path.size() == 2 ? path[0] : "";
    if (section != open_section && !open_section.empty()) out << YAML::EndMap;
    if (section != open_section && !section.empty()) {
      out << YAML::Key << section << YAML::Value << YAML::BeginMap;
    }
    open_section = section;
    out << YAML::Key << path.back() << YAML::Value;
    Emit(out, rule.print(spec));
  }
  if (!open_section.empty()) out << YAML::EndMap;
  out << YAML::EndMap;
  return absl::StrCat(out.c_str(), "\n");
}

}  // namespace lockstep::spec
