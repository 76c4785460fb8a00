#include "server/rpc/token_gate.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/secret_file.h"
#include "base/text/token_text.h"

namespace lockstep::rpc {
namespace {

bool IsSame(absl::string_view token, absl::string_view own) {
  if (own.empty()) return false;
  bool same = token.size() == own.size();
  for (size_t i = 0; i < token.size(); ++i) {
    same &= token[i] == own[i % own.size()];
  }
  return same;
}

absl::Status Denied(absl::string_view token) {
  return absl::PermissionDeniedError(
      token.empty() ? "this coordinator needs a token"
                    : "the token is not one of this coordinator's");
}

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  absl::StatusOr<std::string> token = ReadSecretFile(path);
  if (!token.ok()) return token;
  if (absl::Status fit = CheckToken(*token, path); !fit.ok()) return fit;
  return token;
}

}  // namespace

absl::StatusOr<TokenGate> TokenGate::FromFiles(const std::string& operator_path,
                                               const std::string& worker_path) {
  absl::StatusOr<std::string> own = ReadToken(operator_path);
  if (!own.ok()) return own.status();
  if (worker_path.empty()) return TokenGate(*std::move(own));
  absl::StatusOr<std::string> workers = ReadToken(worker_path);
  if (!workers.ok()) return workers.status();
  if (*own == *workers) {
    return absl::InvalidArgumentError(absl::StrCat(
        operator_path, " and ", worker_path,
        " hold the same token: give workers one of their own, or leave out "
        "their file"));
  }
  return TokenGate(*std::move(own), *std::move(workers));
}

absl::StatusOr<std::string> TokenGate::AdmitOperator(
    const CallerIdentity& caller, absl::string_view token) const {
  if (caller.has_certificate && !caller.is_operator) {
    return absl::PermissionDeniedError(
        absl::StrCat("the certificate of ", caller.name,
                     " does not permit to operate jobs: use an operator's"));
  }
  if (operator_token_.empty()) return std::string(token);
  if (IsSame(token, operator_token_)) return std::string();
  if (!IsSame(token, worker_token_)) return Denied(token);
  return absl::PermissionDeniedError(
      "this is the workers' token: the call needs the operator's");
}

absl::StatusOr<std::string> TokenGate::AdmitWorker(
    absl::string_view token) const {
  if (operator_token_.empty()) return std::string(token);
  const bool is_workers = IsSame(token, worker_token_);
  const bool is_operators = IsSame(token, operator_token_);
  if (is_workers || is_operators) return std::string();
  return Denied(token);
}

}  // namespace lockstep::rpc
