#include "base/join_token.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace lockstep {

absl::StatusOr<std::string> JoinToken(absl::string_view secret,
                                      absl::string_view job) {
  if (secret.size() < kJoinSecretBytesMin) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the workers' token has ", secret.size(),
        " bytes, and the tokens of "
        "jobs need one of at least ",
        kJoinSecretBytesMin, ", such as openssl rand -hex 32 makes"));
  }
  const std::string text = absl::StrCat("lockstep join v1", job);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  Check(HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
             reinterpret_cast<const unsigned char*>(text.data()), text.size(),
             digest, &size) != nullptr,
        "OpenSSL computes an HMAC");
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), size));
}

}  // namespace lockstep
