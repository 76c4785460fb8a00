#include "server/rpc/token_gate.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/join_token.h"
#include "base/text/utf8.h"

namespace lockstep::rpc {
namespace {

bool IsSame(absl::string_view token, absl::string_view own) {
  bool same = token.size() == own.size();
  for (size_t i = 0; i < token.size(); ++i) {
    same &= token[i] == own[i % own.size()];
  }
  return same;
}

// The position, from 1; 0 if there is none. Compares with all, also after one
// was found.
size_t PlaceOf(absl::string_view token, const std::vector<std::string>& owns) {
  size_t place = 0;
  for (size_t i = 0; i < owns.size(); ++i) {
    place = std::max(place, (i + 1) * IsSame(token, owns[i]));
  }
  return place;
}
bool IsOneOf(absl::string_view token, const std::vector<std::string>& owns) {
  return PlaceOf(token, owns) != 0;
}

absl::Status Needed() {
  return absl::UnauthenticatedError("this coordinator needs a token");
}

}  // namespace

absl::StatusOr<Admission> TokenGate::AdmitOperator(
    const CallerIdentity& caller, absl::string_view job,
    absl::string_view token) const {
  if (caller.has_certificate && !caller.is_operator) {
    return absl::PermissionDeniedError(
        absl::StrCat("the certificate ",
                     caller.name.empty() ? "without a common name"
                                         : absl::StrCat("of ", caller.name),
                     " does not permit to operate jobs: use an operator's"));
  }
  if (tokens_.operators.empty()) {
    return Admission{.token = std::string(token)};
  }
  if (token.empty()) return Needed();
  if (const size_t place = PlaceOf(token, tokens_.operators); place != 0) {
    return Admission{.credential = absl::StrCat("operator token ", place)};
  }
  if (IsOneOf(token, tokens_.workers)) {
    return absl::PermissionDeniedError(
        "this is a worker's token: the call needs the operator's");
  }
  if (IsWorkers(job, token)) {
    return absl::PermissionDeniedError(
        absl::StrCat("this is the join token of job ", Printable(job),
                     ": the call needs the operator's"));
  }
  return absl::UnauthenticatedError(
      "the token is not one of this coordinator's operators, which the call "
      "needs: it is the join token of a job, wrong, or was revoked");
}

absl::StatusOr<std::string> TokenGate::AdmitWorker(
    absl::string_view job, absl::string_view token) const {
  if (tokens_.operators.empty()) return std::string(token);
  if (token.empty()) return Needed();
  const bool is_workers = IsWorkers(job, token);
  const bool is_operators = IsOneOf(token, tokens_.operators);
  if (is_workers || is_operators) return std::string();
  return absl::UnauthenticatedError(
      "the token is neither this coordinator's nor the join token of this job: "
      "it is "
      "another job's, wrong, or was revoked");
}

bool TokenGate::IsWorkers(absl::string_view job,
                          absl::string_view token) const {
  bool found = IsOneOf(token, tokens_.workers);
  for (const std::string& secret : tokens_.workers) {
    const absl::StatusOr<std::string> join = JoinToken(secret, job);
    if (join.ok()) found |= IsSame(token, *join);
  }
  return found;
}

}  // namespace lockstep::rpc
