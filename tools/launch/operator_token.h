// Where the operator's token of a private coordinator is: the launcher writes
// it into a file of mode 0600, and lockstepctl of the same user finds it by the
// coordinator's address.
//
//   $XDG_RUNTIME_DIR/lockstep/127.0.0.1:40123.token      if the variable is set
//   $HOME/.lockstep/127.0.0.1:40123.token                else
//
// The folder has mode 0700. A launcher that is killed leaves its file; the
// token in it opens nothing any more.

#ifndef LOCKSTEP_TOOLS_LAUNCH_OPERATOR_TOKEN_H_
#define LOCKSTEP_TOOLS_LAUNCH_OPERATOR_TOKEN_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::launch {

// The file of the coordinator at `address`. FailedPrecondition if neither
// variable is set.
absl::StatusOr<std::string> OperatorTokenPath(const std::string& address);

// The token in that file; empty if there is no such file. Errors of
// ReadSecretFile.
absl::StatusOr<std::string> FindOperatorToken(const std::string& address);

// The addresses of all files there are, sorted: of private coordinators of this
// user, some of which may have ended. None if there is no such folder.
std::vector<std::string> PublishedAddresses();

// The file, as long as this lives.
class PublishedToken {
 public:
  // Errors of OperatorTokenPath, MakePrivateDirectory and WriteSecretFile.
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
  std::string path_;  // empty: nothing was written
};

}  // namespace lockstep::launch

#endif  // LOCKSTEP_TOOLS_LAUNCH_OPERATOR_TOKEN_H_
