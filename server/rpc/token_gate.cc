#include "server/rpc/token_gate.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace lockstep::rpc {

absl::StatusOr<TokenGate> TokenGate::FromFile(FileSystem* files,
                                              const std::string& path) {
  const absl::StatusOr<std::string> text = ReadWhole(files, path);
  if (!text.ok()) return text.status();
  absl::string_view line(*text);
  line = line.substr(0, line.find('\n'));
  absl::ConsumeSuffix(&line, "\r");
  if (line.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the first line holds no token"));
  }
  return TokenGate(std::string(line));
}

absl::Status TokenGate::Check(absl::string_view token) const {
  if (token_.empty()) return absl::OkStatus();
  bool same = token.size() == token_.size();
  for (size_t i = 0; i < token.size(); ++i) {
    same &= token[i] == token_[i % token_.size()];
  }
  return same ? absl::OkStatus()
              : absl::PermissionDeniedError(
                    token.empty() ? "this coordinator wants a token"
                                  : "the token is not this coordinator's");
}

}  // namespace lockstep::rpc
