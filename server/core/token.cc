#include "server/core/token.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "absl/strings/escaping.h"

namespace lockstep::core {

std::string Sha256(absl::string_view text) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         digest);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), sizeof digest));
}

std::string HashOfToken(absl::string_view token) {
  return token.empty() ? std::string() : Sha256(token);
}

bool TokenOpens(absl::string_view token, absl::string_view hash) {
  if (hash.empty()) return true;
  const std::string brought = Sha256(token);
  return brought.size() == hash.size() &&
         CRYPTO_memcmp(brought.data(), hash.data(), hash.size()) == 0;
}

}  // namespace lockstep::core
