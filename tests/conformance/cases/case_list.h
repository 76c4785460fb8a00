// A file of conformance cases: {"operation": NAME, "cases": [CASE, ...]}.

#ifndef LOCKSTEP_TESTS_CONFORMANCE_CASES_CASE_LIST_H_
#define LOCKSTEP_TESTS_CONFORMANCE_CASES_CASE_LIST_H_

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::conformance {

struct CaseList {
  std::string path;
  std::string operation;
  nlohmann::json cases;
};

// InvalidArgument names the file and what is wrong with it.
absl::StatusOr<CaseList> ReadCaseList(const std::string& path);

// Calls `read` with each case. InvalidArgument names the file, the case and
// what is wrong with it: the error of `read`, or what nlohmann-json throws.
absl::Status ForEachCase(
    const CaseList& list,
    const std::function<absl::Status(const nlohmann::json&)>& read);

template <typename T>
void ReadIfThere(const nlohmann::json& json, const char* key, T* to) {
  if (json.contains(key)) json.at(key).get_to(*to);
}

}  // namespace lockstep::conformance

#endif  // LOCKSTEP_TESTS_CONFORMANCE_CASES_CASE_LIST_H_
