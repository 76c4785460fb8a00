// docs/spec.md equals the table of fields, and its examples are valid specs.

#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"
#include "spec/field.h"
#include "spec/spec_text.h"
#include "tests/support/paths.h"

namespace lockstep::spec {
namespace {

std::string SpecDocument() { return ReadSource("docs/spec.md"); }

// The rows of the document's only table, without its head.
std::vector<std::string> Rows() {
  std::vector<std::string> rows;
  for (absl::string_view line : absl::StrSplit(SpecDocument(), '\n')) {
    if (absl::StartsWith(line, "| `")) rows.emplace_back(line);
  }
  return rows;
}

// The block that is fenced as `language`.
std::string Example(const std::string& language) {
  const std::string document = SpecDocument();
  const std::string fence = "\n```" + language + "\n";
  const size_t begin = document.find(fence);
  if (begin == std::string::npos) return "";
  const size_t text = begin + fence.size();
  return document.substr(text, document.find("\n```", text) - text);
}

TEST(SpecDocumentTest, ListsEveryFieldAsTheTableHasIt) {
  std::vector<std::string> expected;
  for (const SpecFieldRule& rule : SpecFields()) {
    expected.push_back(absl::StrFormat(
        "| `%s` | %s | %s | %s |", rule.name, rule.type,
        rule.required ? "required" : OneLine(rule.print(JobSpec{})),
        rule.domain));
  }
  EXPECT_EQ(Rows(), expected);
}

TEST(SpecDocumentTest, ItsExamplesAreOneValidSpec) {
  const absl::StatusOr<JobSpec> yaml = ParseJobSpec(Example("yaml"), "yaml");
  const absl::StatusOr<JobSpec> json = ParseJobSpec(Example("json"), "json");
  ASSERT_TRUE(yaml.ok()) << yaml.status();
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(*yaml, *json);
  EXPECT_EQ(yaml->seed, 7u);
}

}  // namespace
}  // namespace lockstep::spec
