// The file with the operator's token of a private coordinator. If that serves
// TLS, two more lines name the TLS folders of operators and workers. The
// launcher writes it with mode 0600, and lockstepctl of the same user finds it
// by the coordinator's address.
//
//   $XDG_RUNTIME_DIR/lockstep/127.0.0.1:40123.token      if the variable is set
//   $HOME/.lockstep/127.0.0.1:40123.token                else
//
// The folder has mode 0700. The launcher holds a lock (flock) of its file as
// long as it lives. A killed launcher leaves its file behind, but no lock, and
// its coordinator dies with it: another one at that address has another token.
// So a file that nobody has locked is removed and counts as none.
//
//   Write     ADDRESS.token.new, locked ──rename──▶ ADDRESS.token
//   ~         ADDRESS.token is removed, then the lock is released
//
// Names are changed under a lock of the folder: a file that is removed is the
// one that was found without a lock, and no newer one of that name.

#ifndef LOCKSTEP_TOOLS_LAUNCH_OPERATOR_TOKEN_H_
#define LOCKSTEP_TOOLS_LAUNCH_OPERATOR_TOKEN_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file_descriptor.h"

namespace lockstep::launch {

// The path for the coordinator at `address`. FailedPrecondition if neither
// variable is set.
absl::StatusOr<std::string> OperatorTokenPath(const std::string& address);

// The token in that file; empty if there is no launcher that has locked it.
// Errors: those of ReadSecretFile.
absl::StatusOr<std::string> FindOperatorToken(const std::string& address);

struct OperatorAccess {
  std::string token;              // empty: there is none
  std::string tls_folder;         // empty: plaintext
  std::string worker_tls_folder;  // for workers that are started besides
};

// All of that file; the rest as of FindOperatorToken.
absl::StatusOr<OperatorAccess> FindOperatorAccess(const std::string& address);

// The addresses of all such files that launchers have locked, sorted. Empty if
// the folder does not exist.
std::vector<std::string> PublishedAddresses();

// The file exists as long as this object.
class PublishedToken {
 public:
  // Errors: those of OperatorTokenPath, MakePrivateDirectory, WriteSecretFile;
  // of locks and of the file system, with the path.
  static absl::StatusOr<PublishedToken> Write(const std::string& address,
                                              const OperatorAccess& access);
  PublishedToken() = default;
  PublishedToken(PublishedToken&& other) noexcept
      : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}
  PublishedToken& operator=(PublishedToken&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(lock_, other.lock_);
    return *this;
  }
  ~PublishedToken();

  bool written() const { return !path_.empty(); }

 private:
  std::string path_;     // empty: no file was written
  FileDescriptor lock_;  // of that file
};

}  // namespace lockstep::launch

#endif  // LOCKSTEP_TOOLS_LAUNCH_OPERATOR_TOKEN_H_
