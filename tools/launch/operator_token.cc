#include "tools/launch/operator_token.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/secret_file.h"

namespace lockstep::launch {
namespace {

constexpr char kExtension[] = ".token";

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

absl::StatusOr<std::string> Folder() {
  const std::string runtime = Variable("XDG_RUNTIME_DIR");
  if (!runtime.empty()) return absl::StrCat(runtime, "/lockstep");
  const std::string home = Variable("HOME");
  if (!home.empty()) return absl::StrCat(home, "/.lockstep");
  return absl::FailedPreconditionError(
      "neither XDG_RUNTIME_DIR nor HOME is set");
}

}  // namespace

absl::StatusOr<std::string> OperatorTokenPath(const std::string& address) {
  const absl::StatusOr<std::string> folder = Folder();
  if (!folder.ok()) return folder;
  return absl::StrCat(*folder, "/", address, kExtension);
}

absl::StatusOr<std::string> FindOperatorToken(const std::string& address) {
  // An address has no slash; a text with a slash is not a file of this folder.
  if (address.empty() || address.find('/') != std::string::npos) {
    return std::string();
  }
  const absl::StatusOr<std::string> path = OperatorTokenPath(address);
  if (!path.ok()) return std::string();
  absl::StatusOr<std::string> token = ReadSecretFile(*path);
  if (absl::IsNotFound(token.status())) return std::string();
  return token;
}

std::vector<std::string> PublishedAddresses() {
  const absl::StatusOr<std::string> folder = Folder();
  if (!folder.ok()) return {};
  std::vector<std::string> addresses;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(*folder, error), end;
       !error && entry != end; entry.increment(error)) {
    const std::filesystem::path& file = entry->path();
    if (file.extension() == kExtension) addresses.push_back(file.stem());
  }
  std::sort(addresses.begin(), addresses.end());
  return addresses;
}

absl::StatusOr<PublishedToken> PublishedToken::Write(const std::string& address,
                                                     const std::string& token) {
  const absl::StatusOr<std::string> folder = Folder();
  if (!folder.ok()) return folder.status();
  absl::Status written = MakePrivateDirectory(*folder);
  if (!written.ok()) return written;
  const absl::StatusOr<std::string> path = OperatorTokenPath(address);
  if (!path.ok()) return path.status();
  written = WriteSecretFile(*path, token);
  if (!written.ok()) return written;
  PublishedToken published;
  published.path_ = *path;
  return published;
}

PublishedToken::~PublishedToken() {
  if (!path_.empty()) unlink(path_.c_str());
}

}  // namespace lockstep::launch
