// An error that says where it happened.

#ifndef LOCKSTEP_BASE_STATUS_H_
#define LOCKSTEP_BASE_STATUS_H_

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace lockstep {

// "where: message", with the code and the payloads of `status`; OK remains OK.
inline absl::Status WithContext(absl::string_view where,
                                const absl::Status& status) {
  if (status.ok()) return status;
  absl::Status in_context(status.code(),
                          absl::StrCat(where, ": ", status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    in_context.SetPayload(url, payload);
  });
  return in_context;
}

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_STATUS_H_
