// The file with the operator's token of a private coordinator. The launcher
// writes it with mode 0600, and lockstepctl of the same user finds it by the
// coordinator's address.
//
//   $XDG_RUNTIME_DIR/lockstep/127.0.0.1:40123.token      if the variable is set
//   $HOME/.lockstep/127.0.0.1:40123.token                else
//
// The folder has mode 0700. A killed launcher leaves its file behind; the token
// in it is no longer valid.

#ifndef LOCKSTEP_TOOLS_LAUNCH_OPERATOR_TOKEN_H_
#define LOCKSTEP_TOOLS_LAUNCH_OPERATOR_TOKEN_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::launch {

// The path for the coordinator at `address`. FailedPrecondition if neither
// variable is set.
absl::StatusOr<std::string> OperatorTokenPath(const std::string& address);

// The token in that file; empty if the file does not exist. Errors: those of
// ReadSecretFile.
absl::StatusOr<std::string> FindOperatorToken(const std::string& address);

// The addresses of all such files, sorted: private coordinators of this user,
// some of which may have ended. Empty if the folder does not exist.
std::vector<std::string> PublishedAddresses();

// The file exists as long as this object.
class PublishedToken {
 public:
  // Errors: those of OperatorTokenPath, MakePrivateDirectory, WriteSecretFile.
  static absl::StatusOr<PublishedToken> Write(const std::string& address,
                                              const std::string& token);
  PublishedToken() = default;
  PublishedToken(PublishedToken&& other) noexcept
      : path_(std::exchange(other.path_, {})) {}
  PublishedToken& operator=(PublishedToken&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }
  ~PublishedToken();

  bool written() const { return !path_.empty(); }

 private:
  std::string path_;  // empty: no file was written
};

}  // namespace lockstep::launch

#endif  // LOCKSTEP_TOOLS_LAUNCH_OPERATOR_TOKEN_H_
