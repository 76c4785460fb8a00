// When a certificate ends, in words, and whether that is soon.

#ifndef LOCKSTEP_TOOLS_DOCTOR_CERTIFICATE_AGE_H_
#define LOCKSTEP_TOOLS_DOCTOR_CERTIFICATE_AGE_H_

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/text/count.h"
#include "base/tls/certificate.h"

namespace lockstep::doctor {

// Within `within`, and in the last quarter of its life: one that cert-manager
// renews every day is not reported all its life.
inline bool ExpiresSoon(const tls::CertificateFacts& certificate,
                        absl::Duration within, absl::Time now) {
  const absl::Duration life = certificate.until - certificate.from;
  return certificate.until - now < std::min(within, life / 4);
}

inline std::string DayText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d %H:%M UTC", time, absl::UTCTimeZone());
}

// "in 3 days", "2 hours ago".
inline std::string LeftText(absl::Time until, absl::Time now) {
  const absl::Duration left = absl::AbsDuration(until - now);
  const int64_t hours = absl::ToInt64Hours(left);
  const std::string text =
      hours < 48 ? Count(hours, "hour") : Count(hours / 24, "day");
  return until < now ? absl::StrCat(text, " ago") : absl::StrCat("in ", text);
}

}  // namespace lockstep::doctor

#endif  // LOCKSTEP_TOOLS_DOCTOR_CERTIFICATE_AGE_H_
