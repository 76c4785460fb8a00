#include "spec/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace lockstep::spec {
namespace {

constexpr size_t kTextBytesMax = 1 << 20;
constexpr size_t kDepthMax = 64;  // the parser recurses

// Lines count from 1; an unknown position is on the first line.
int LineOf(const YAML::Mark& mark) { return std::max(mark.line, 0) + 1; }

// Builds the tree of one document.
class TreeBuilder : public YAML::EventHandler {
 public:
  using Tag = std::string;

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    Place({.line = LineOf(mark)});
  }
  void OnScalar(const YAML::Mark& mark, const Tag&, YAML::anchor_t,
                const std::string& value) override {
    Place({.kind = YamlNode::Kind::kWord, .line = LineOf(mark), .word = value});
  }
  void OnSequenceStart(const YAML::Mark& mark, const Tag&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    Begin(YamlNode::Kind::kList, mark);
  }
  void OnMapStart(const YAML::Mark& mark, const Tag&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    Begin(YamlNode::Kind::kMap, mark);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapEnd() override { Close(); }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw YAML::ParserException(mark, "an alias cannot be used here");
  }

  YamlNode TakeRoot() { return std::move(root_); }

 private:
  // An open list or map, and the key that waits for its value.
  struct Open {
    YamlNode node;
    YamlNode key;
    bool has_key = false;
  };

  void Begin(YamlNode::Kind kind, const YAML::Mark& mark) {
    if (open_.size() == kDepthMax) {
      throw YAML::ParserException(
          mark, absl::StrCat("it is nested deeper than ", kDepthMax));
    }
    open_.push_back({{.kind = kind, .line = LineOf(mark)}});
  }

  void Close() {
    YamlNode node = std::move(open_.back().node);
    open_.pop_back();
    Place(std::move(node));
  }

  void Place(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& open = open_.back();
    if (open.node.kind == YamlNode::Kind::kList) {
      open.node.elements.push_back(std::move(node));
    } else if (open.has_key) {
      open.node.entries.push_back({std::move(open.key), std::move(node)});
      open.has_key = false;
    } else {
      open.key = std::move(node);
      open.has_key = true;
    }
  }

  YamlNode root_;
  std::vector<Open> open_;
};

// Stores only the position where the document starts.
class BeginningFinder : public TreeBuilder {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override {
    line_ = LineOf(mark);
  }
  int line() const { return line_; }

 private:
  int line_ = 1;
};

// In a list or map in brackets, an unquoted "f32[4,8]" ends at its "[".
absl::string_view HintFor(const std::string& error) {
  for (const char* in_brackets :
       {YAML::ErrorMsg::END_OF_SEQ_FLOW, YAML::ErrorMsg::END_OF_MAP_FLOW,
        YAML::ErrorMsg::FLOW_END}) {
    if (error == in_brackets) {
      return "; a text that holds brackets needs quotes in a list or map, "
             "such as [\"f32[4,8]\"]";
    }
  }
  return "";
}

std::variant<YamlNode, YamlError> ParseDocument(std::istream& stream) {
  YAML::Parser parser(stream);
  TreeBuilder builder;
  if (!parser.HandleNextDocument(builder)) {
    return YamlError{.what = "the text is empty"};
  }
  BeginningFinder second;
  if (parser.HandleNextDocument(second)) {
    return YamlError{second.line(), "the text goes on after its end"};
  }
  return builder.TakeRoot();
}

}  // namespace

std::variant<YamlNode, YamlError> ParseYaml(absl::string_view text) {
  if (text.size() > kTextBytesMax) {
    return YamlError{.what =
                         absl::StrCat("the text has ", text.size(),
                                      " bytes, the limit is ", kTextBytesMax)};
  }
  try {
    std::istringstream stream{std::string(text)};
    return ParseDocument(stream);
  } catch (const YAML::Exception& e) {
    return YamlError{
        LineOf(e.mark),
        absl::StrCat("the text is not YAML: ", e.msg, HintFor(e.msg))};
  }
}

}  // namespace lockstep::spec
