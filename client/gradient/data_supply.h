// Whether this rank still has data, and which calls it may make when it has
// none.
//
//   more_data    ──▶ Submit, Finish(samples > 0)
//   out of data  ──▶ Finish(samples 0, more_data false) only: zeros, until no
//                    rank has more (uneven: join)
//
// The rank finishes its last batch with more_data false.
//
// Threads: not thread-safe; the engine's lock guards it.

#ifndef LOCKSTEP_CLIENT_GRADIENT_DATA_SUPPLY_H_
#define LOCKSTEP_CLIENT_GRADIENT_DATA_SUPPLY_H_

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "lockstep/gradient_sync.h"

namespace lockstep::gradient {

class DataSupply {
 public:
  // InvalidArgument once the data has run out.
  absl::Status CheckSubmit() const {
    if (!out_) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "this rank said that it has no more data: it may not submit gradients, "
        "only call Finish with 0 samples until the verdict is the last");
  }

  // InvalidArgument for a negative or non-finite number of samples, and for
  // samples or more_data after the data has run out.
  absl::Status CheckFinish(const FinishOptions& options) const {
    if (!std::isfinite(options.samples) || options.samples < 0) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "samples is %g, must be at least 0", options.samples));
    }
    if (out_ && (options.more_data || options.samples != 0)) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "this rank said that it has no more data, and now says it has %g "
          "samples and %s",
          options.samples, options.more_data ? "more data" : "no more data"));
    }
    return absl::OkStatus();
  }

  // Call for a step whose options CheckFinish accepted.
  void Finish(const FinishOptions& options) { out_ = !options.more_data; }

  bool out() const { return out_; }

 private:
  bool out_ = false;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_DATA_SUPPLY_H_
