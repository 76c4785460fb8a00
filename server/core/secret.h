// Session secrets: a resuming worker proves that it is the process that was
// welcomed.
//
//   Hello, generation 0       ──▶ Welcome(generation, secret)
//                                 the journal stores the secret's hash
//   Hello(generation, secret) ──▶ resumed, if the secret has that hash
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

// A function of a seed and of the number of earlier draws, so that a history
// can be replayed. Without the seed, one secret reveals nothing of the others.
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

// Whether `hash` is the hash of `secret`, in constant time. No secret opens an
// empty hash.
inline bool SecretOpens(absl::string_view secret, absl::string_view hash) {
  return !hash.empty() && TokenOpens(secret, hash);
}

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_SECRET_H_
