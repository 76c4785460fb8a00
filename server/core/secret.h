// Secrets of sessions: what a worker proves with that it is who was welcomed.
//
//   Hello, generation 0 ──▶ Welcome(generation, secret)   the journal has its
//   hash Hello(generation, secret) ──▶ resumed, if the secret has that hash
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_SECRET_H_
#define LOCKSTEP_SERVER_CORE_SECRET_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/core/token.h"

namespace lockstep::core {

// A function of a seed and of how many were drawn before, so that a history can
// be replayed. Whoever does not know the seed learns nothing of one secret from
// the others.
class SecretSource {
 public:
  explicit SecretSource(std::string seed) : seed_(std::move(seed)) {}

  // 64 hexadecimal digits.
  std::string Draw() {
    return Sha256(absl::StrCat(seed_, Sha256(absl::StrCat(seed_, ++drawn_))));
  }

 private:
  const std::string seed_;
  uint64_t drawn_ = 0;
};

// Whether `secret` has that hash. Takes as long whether or not. Nothing opens
// an empty hash.
inline bool SecretOpens(absl::string_view secret, absl::string_view hash) {
  return !hash.empty() && TokenOpens(secret, hash);
}

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_SECRET_H_
