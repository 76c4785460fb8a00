// Errors of a step that no rank caused alone: the ranks differ in something
// that must be the same, and every one of them finds out. Whoever reports one
// first is not to be blamed for it.

#ifndef LOCKSTEP_CLIENT_GRADIENT_DISAGREEMENT_H_
#define LOCKSTEP_CLIENT_GRADIENT_DISAGREEMENT_H_

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace lockstep::gradient {

inline constexpr absl::string_view kOfAllRanks = "lockstep/of-all-ranks";

inline absl::Status OfAllRanks(absl::Status error) {
  error.SetPayload(kOfAllRanks, absl::Cord());
  return error;
}

inline bool IsOfAllRanks(const absl::Status& error) {
  return error.GetPayload(kOfAllRanks).has_value();
}

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_DISAGREEMENT_H_
