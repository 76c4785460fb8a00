#include "server/access/token_files.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/join_token.h"
#include "base/secret_file.h"
#include "base/text/token_text.h"

namespace lockstep::rpc {
namespace {

absl::StatusOr<std::vector<std::string>> ReadLines(const std::string& path) {
  absl::StatusOr<std::vector<std::string>> tokens = ReadSecretLines(path);
  if (!tokens.ok()) return tokens;
  for (const std::string& token : *tokens) {
    if (absl::Status fit = CheckToken(token, path); !fit.ok()) return fit;
  }
  return tokens;
}

// 64 random bits in hexadecimal digits.
constexpr size_t kSafeTokenBytes = 16;

constexpr char kMakeToken[] = ": make one with openssl rand -hex 32";

}  // namespace

std::string WarningOfShortTokens(const Tokens& tokens) {
  for (const auto* list : {&tokens.operators, &tokens.workers}) {
    for (const std::string& token : *list) {
      if (token.size() >= kSafeTokenBytes) continue;
      return absl::StrFormat(
          "a token of %s has %d bytes and may be guessed%s",
          list == &tokens.operators ? "operators" : "workers", token.size(),
          kMakeToken);
    }
  }
  for (const std::string& token : tokens.workers) {
    if (token.size() >= kJoinSecretBytesMin) continue;
    return absl::StrFormat(
        "a token of workers has %d bytes, and the join tokens of jobs need one "
        "of at least %d%s",
        token.size(), kJoinSecretBytesMin, kMakeToken);
  }
  return "";
}

absl::StatusOr<Tokens> ReadTokens(const TokenFiles& files) {
  Tokens tokens;
  if (files.empty() && !files.workers.empty()) {
    return absl::InvalidArgumentError(
        "--worker_token_file needs --token_file: without it everybody is an "
        "operator");
  }
  if (files.empty()) return tokens;
  absl::StatusOr<std::vector<std::string>> own = ReadLines(files.operators);
  if (!own.ok()) return own.status();
  tokens.operators = *std::move(own);
  if (files.workers.empty()) return tokens;
  absl::StatusOr<std::vector<std::string>> workers = ReadLines(files.workers);
  if (!workers.ok()) return workers.status();
  tokens.workers = *std::move(workers);
  const bool is_in_both = std::any_of(
      tokens.workers.begin(), tokens.workers.end(), [&](const auto& token) {
        return std::count(tokens.operators.begin(), tokens.operators.end(),
                          token) != 0;
      });
  if (!is_in_both) return tokens;
  return absl::InvalidArgumentError(absl::StrCat(
      files.operators, " and ", files.workers,
      " hold the same token: give workers one of their own, or leave out "
      "their file"));
}

}  // namespace lockstep::rpc
