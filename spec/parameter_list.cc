#include "spec/parameter_list.h"

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/text/nearest.h"
#include "plan/schedule/pipeline_shape.h"

namespace lockstep::spec {
namespace {

using Kind = YamlNode::Kind;

// Why a value is invalid; nullopt if it was read.
using Fault = std::optional<std::string>;

// The words of a list, or a single word.
std::optional<std::vector<std::string>> WordsIn(const YamlNode& node) {
  if (node.kind == Kind::kWord) return std::vector<std::string>{node.word};
  if (node.kind != Kind::kList) return std::nullopt;
  std::vector<std::string> words;
  for (const YamlNode& element : node.elements) {
    if (element.kind != Kind::kWord) return std::nullopt;
    words.push_back(element.word);
  }
  return words;
}

Fault ReadText(const YamlNode& node, std::string* text) {
  if (node.kind != Kind::kWord) return "is no word";
  *text = node.word;
  return std::nullopt;
}

Fault ReadTexts(const YamlNode& node, std::vector<std::string>* texts) {
  std::optional<std::vector<std::string>> words = WordsIn(node);
  if (!words) return "is no list of words, such as [a, b]";
  *texts = *std::move(words);
  return std::nullopt;
}

template <typename T>
Fault ReadNumbers(const YamlNode& node, std::vector<T>* numbers) {
  const std::optional<std::vector<std::string>> words = WordsIn(node);
  if (!words) return "is no list of numbers, such as [4, 128]";
  for (const std::string& word : *words) {
    if (!absl::SimpleAtoi(word, &numbers->emplace_back())) {
      return absl::StrCat("has \"", absl::Utf8SafeCEscape(word),
                          "\", which is no whole number");
    }
  }
  return std::nullopt;
}

template <typename E>
Fault ReadNamed(const YamlNode& node,
                std::optional<E> (*parse)(std::string_view), E* value) {
  const std::optional<E> named =
      node.kind == Kind::kWord ? parse(node.word) : std::nullopt;
  if (!named) return "is no word that is known here";
  *value = *named;
  return std::nullopt;
}

using Read = std::function<Fault(const YamlNode&, DeclaredParameter*)>;

const std::vector<std::pair<std::string, Read>>& ParameterFields() {
  using P = DeclaredParameter;
  using N = YamlNode;
  static const auto* const fields =
      new std::vector<std::pair<std::string, Read>>{
          {"name",
           [](const N& n, P* p) { return ReadText(n, &p->parameter.name); }},
          {"shape", [](const N& n,
                       P* p) { return ReadNumbers(n, &p->parameter.shape); }},
          {"dtype",
           [](const N& n, P* p) {
             return ReadNamed(n, &ParseDType, &p->parameter.dtype);
           }},
          {"op",
           [](const N& n, P* p) {
             return ReadNamed(n, &ParseReduceOp, &p->parameter.op);
           }},
          {"axes",
           [](const N& n, P* p) { return ReadTexts(n, &p->parameter.axes); }},
          {"replicated_over",
           [](const N& n, P* p) {
             return ReadTexts(n, &p->parameter.replicated_over);
           }},
          {"stage",
           [](const N& n, P* p) { return ReadNumbers(n, &p->stages); }},
      };
  return *fields;
}

std::vector<std::string> FieldNames() {
  std::vector<std::string> names;
  for (const auto& [name, read] : ParameterFields()) names.push_back(name);
  return names;
}

std::optional<YamlError> ReadField(const YamlNode& key, const YamlNode& value,
                                   DeclaredParameter* parameter) {
  for (const auto& [name, read] : ParameterFields()) {
    if (key.word != name) continue;
    const Fault fault = read(value, parameter);
    if (!fault) return std::nullopt;
    return YamlError{key.line, absl::StrCat("parameters: ", name, " ", *fault)};
  }
  const std::string nearest = Nearest(key.word, FieldNames());
  return YamlError{
      key.line,
      absl::StrCat(
          "parameters: ", absl::Utf8SafeCEscape(key.word),
          " is no field of a parameter; ",
          nearest.empty()
              ? absl::StrCat("there are ", absl::StrJoin(FieldNames(), ", "))
              : absl::StrCat("did you mean ", nearest, "?"))};
}

std::optional<YamlError> ReadParameter(const YamlNode& node,
                                       DeclaredParameter* parameter) {
  if (node.kind != Kind::kMap) {
    return YamlError{node.line,
                     "parameters: an entry is no map, such as {name: w, shape: "
                     "[8, 8]}"};
  }
  parameter->line = node.line;
  std::set<std::string> seen;
  for (const auto& [key, value] : node.entries) {
    if (!seen.insert(key.word).second) {
      return YamlError{
          key.line, absl::StrCat("parameters: ", key.word, " is there twice")};
    }
    if (auto error = ReadField(key, value, parameter)) return error;
  }
  for (const char* required : {"name", "shape"}) {
    if (seen.contains(required)) continue;
    return YamlError{node.line,
                     absl::StrCat("parameters: ", required, " is missing")};
  }
  return std::nullopt;
}

std::vector<std::string> AxesBeside(const Mesh& mesh, const std::string& axis) {
  std::vector<std::string> axes;
  for (const MeshAxis& other : mesh.axes) {
    if (other.name != axis) axes.push_back(other.name);
  }
  return axes;
}

absl::Status At(const DeclaredParameter& declared, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrFormat(
      "%d: parameters: %s %s", declared.line, declared.parameter.name, what));
}

// The parameter as the ranks of its stage register it.
absl::StatusOr<Parameter> OfStage(const JobSpec& spec,
                                  const DeclaredParameter& declared) {
  Parameter parameter = declared.parameter;
  if (!plan::HasPipeline(spec.pipeline)) {
    return At(declared, "has a stage, but the spec has no pipeline");
  }
  if (parameter.axes.empty()) {
    parameter.axes = AxesBeside(spec.mesh, spec.pipeline.axis);
  }
  if (parameter.axes.empty()) {
    return At(declared,
              absl::StrFormat("has a stage, but mesh %s has no axis to reduce "
                              "it over: write data=1,%s",
                              ToString(spec.mesh), ToString(spec.mesh)));
  }
  return parameter;
}

// The positions in a pipeline that have one of the stages, each with that
// stage, or with -1 if it has several.
absl::StatusOr<std::map<int, int>> RanksOfStages(
    const JobSpec& spec, const DeclaredParameter& declared) {
  const plan::ScheduleShape shape = plan::ShapeOf(spec.pipeline, spec.mesh);
  std::map<int, int> places;
  for (const int stage : declared.stages) {
    if (stage < 0 || stage >= shape.stages()) {
      return At(declared, absl::StrFormat("is of stage %d, but there are %d",
                                          stage, shape.stages()));
    }
    const auto [place, is_first] =
        places.try_emplace(RankOf(shape, stage), stage);
    if (!is_first && place->second != stage) place->second = -1;
  }
  return places;
}

// Applies the coordinator's limit on the parameters of a worker.
absl::Status Register(const JobSpec& spec, const DeclaredParameter& declared,
                      const Parameter& parameter, size_t rank,
                      std::vector<std::vector<Parameter>>* registrations) {
  std::vector<Parameter>& registered = (*registrations)[rank];
  if (static_cast<int64_t>(registered.size()) == spec.limits.parameters_max) {
    return At(declared,
              absl::StrFormat("is one more than rank %d may register; "
                              "limits.parameters_max is %d",
                              rank, spec.limits.parameters_max));
  }
  registered.push_back(parameter);
  return absl::OkStatus();
}

}  // namespace

std::variant<std::vector<DeclaredParameter>, YamlError> ReadParameters(
    const YamlNode& list) {
  if (list.kind != Kind::kList) {
    return YamlError{list.line, "parameters: is no list of parameters"};
  }
  std::vector<DeclaredParameter> parameters;
  for (const YamlNode& node : list.elements) {
    if (auto error = ReadParameter(node, &parameters.emplace_back())) {
      return *std::move(error);
    }
  }
  return parameters;
}

absl::StatusOr<std::vector<std::vector<Parameter>>> RegistrationsOf(
    const SpecFile& file) {
  const JobSpec& spec = file.spec;
  std::vector<std::vector<Parameter>> registrations(spec.mesh.WorldSize());
  for (const DeclaredParameter& declared : file.parameters) {
    if (declared.stages.empty()) {
      for (size_t rank = 0; rank < registrations.size(); ++rank) {
        absl::Status added =
            Register(spec, declared, declared.parameter, rank, &registrations);
        if (!added.ok()) return added;
      }
      continue;
    }
    absl::StatusOr<Parameter> parameter = OfStage(spec, declared);
    if (!parameter.ok()) return parameter.status();
    const absl::StatusOr<std::map<int, int>> places =
        RanksOfStages(spec, declared);
    if (!places.ok()) return places.status();
    for (const auto& column : spec.mesh.GroupsOver({spec.pipeline.axis})) {
      for (const auto& [place, stage] : *places) {
        parameter->stage = stage;
        absl::Status added =
            Register(spec, declared, *parameter, column[place], &registrations);
        if (!added.ok()) return added;
      }
    }
  }
  return registrations;
}

}  // namespace lockstep::spec
