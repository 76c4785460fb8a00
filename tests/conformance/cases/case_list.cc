#include "tests/conformance/cases/case_list.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "base/user_file.h"

namespace lockstep::conformance {
namespace {

absl::Status Fault(absl::string_view where, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", what));
}

}  // namespace

absl::StatusOr<CaseList> ReadCaseList(const std::string& path) {
  constexpr size_t kBytesMax = size_t{1} << 30;
  auto text = ReadUserFile(path, kBytesMax);
  if (!text.ok()) return text.status();
  try {
    nlohmann::json json = nlohmann::json::parse(*text);
    return CaseList{path, json.at("operation"), std::move(json.at("cases"))};
  } catch (const nlohmann::json::exception& error) {
    return Fault(path, error.what());
  }
}

absl::Status ForEachCase(
    const CaseList& list,
    const std::function<absl::Status(const nlohmann::json&)>& read) {
  std::string where = list.path;
  try {  // of nlohmann-json: missing keys, other types
    for (const nlohmann::json& one : list.cases) {
      where = absl::StrCat(list.path, ", case ", one.at("name").dump());
      const absl::Status status = read(one);
      if (!status.ok()) return Fault(where, status.message());
    }
    return absl::OkStatus();
  } catch (const nlohmann::json::exception& error) {
    return Fault(where, error.what());
  }
}

}  // namespace lockstep::conformance
