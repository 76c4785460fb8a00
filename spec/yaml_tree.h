// A YAML or JSON text as a tree that keeps lines and repeated keys.
//
// Built from the parser's events instead of yaml-cpp's own tree, because that
// tree loses the position of a missing value and resolves aliases into cycles,
// and its reader of several documents does not terminate on a text such as ",".

#ifndef LOCKSTEP_SPEC_YAML_TREE_H_
#define LOCKSTEP_SPEC_YAML_TREE_H_

#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"

namespace lockstep::spec {

struct YamlEntry;

struct YamlNode {
  enum class Kind { kNothing, kWord, kList, kMap };
  Kind kind = Kind::kNothing;
  int line = 1;      // where it starts
  std::string word;  // quoted or not
  std::vector<YamlNode> elements;
  std::vector<YamlEntry> entries;  // in written order
};

struct YamlEntry {
  YamlNode key;
  YamlNode value;
};

struct YamlError {
  int line = 1;
  std::string what;
};

// The only document in the text. Returns an error for invalid YAML, several
// documents, aliases, more than 1 MiB, or nesting deeper than 64. Does not
// throw.
std::variant<YamlNode, YamlError> ParseYaml(absl::string_view text);

}  // namespace lockstep::spec

#endif  // LOCKSTEP_SPEC_YAML_TREE_H_
