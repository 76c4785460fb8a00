// Errors of a step that no single rank caused: the ranks differ in a value that
// must be the same, and every rank detects it. The rank that reports such an
// error first is not a suspect.

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
