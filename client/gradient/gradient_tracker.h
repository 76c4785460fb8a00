// Which parameters of the step in progress have been submitted.
//
// Pure bookkeeping: it says what a Submit means, and what Finish still has to
// fill with zeros. It knows no memory, no streams and no plan.
//
//   NoSync    [Submit w: first] [Submit w] ...   any number of passes
//   last      [Submit w: complete]   ............. Finish: w contributed
//             [v: never submitted]   ............. Finish: v is missing
//
// Threads: not thread-safe; the engine's lock guards it.

#ifndef LOCKSTEP_CLIENT_GRADIENT_GRADIENT_TRACKER_H_
#define LOCKSTEP_CLIENT_GRADIENT_GRADIENT_TRACKER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::gradient {

class GradientTracker {
 public:
  // Of which parameters a step may have gradients: of all, or (in negotiated
  // mode) of those that BeginPass says.
  enum class Expects { kAll, kAnnounced };

  // uses[p]: Submits of parameter p in one backward pass; names for messages.
  GradientTracker(std::vector<std::string> names, std::vector<int> uses,
                  Expects expects = Expects::kAll);

  // With kAnnounced, once a step, first: what will be submitted in it. Without
  // it, nothing. InvalidArgument, and no change: a parameter that is unknown or
  // comes twice. FailedPrecondition: the second in this step.
  absl::Status BeginPass(const std::vector<int>& parameters);
  bool has_begun() const { return has_begun_; }

  struct Submission {
    bool first = false;     // of this step: overwrite, else add
    bool complete = false;  // the gradient is final: it may travel
  };

  // Takes note of one Submit, from a buffer or from the view. InvalidArgument,
  // and no change, for a parameter that is unknown or was not announced, or
  // more Submits than uses in a pass outside of NoSync.
  absl::StatusOr<Submission> Submit(int parameter, bool from_buffer = false);

  // Did the first of this step come from a buffer? Then, as long as it is not
  // complete, its view holds a sum.
  bool HasSumInView(int parameter) const {
    return states_[parameter].sum_in_view;
  }

  // Enters or leaves passes in which nothing is complete: any number of them.
  // FailedPrecondition if scopes would nest, or a gradient is complete.
  absl::Status BeginNoSync();
  void EndNoSync();

  // Parameters, by index, that the step ends without being complete...
  struct Incomplete {
    std::vector<int> never;   // no gradient at all: zeros
    std::vector<int> partly;  // accumulated, or fewer Submits than uses
  };
  Incomplete Finish();  // ... and starts the next step.

  // Parameters whose gradients cannot travel yet: not complete and, once the
  // pass has begun, expected in it.
  std::vector<int> Resting() const;

  // Submits of the parameter in this pass, outside of NoSync, and how many
  // there should be.
  int submitted(int parameter) const { return states_[parameter].in_pass; }
  int uses(int parameter) const { return uses_[parameter]; }

  // Complete in this step, in the order in which they became so.
  const std::vector<int>& completed() const { return completed_; }
  // The first `most` names that are not complete.
  std::vector<std::string> MissingNames(int most) const;

 private:
  struct State {
    bool expected = true;
    int in_pass = 0;
    bool ever = false;
    bool sum_in_view = false;
    bool complete = false;
  };

  void BeginStep();
  absl::Status CheckKnown(int parameter) const;

  std::vector<std::string> names_;
  std::vector<int> uses_;
  std::vector<State> states_;
  Expects expects_;
  bool has_begun_ = false;
  bool no_sync_ = false;
  std::vector<int> completed_;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_GRADIENT_TRACKER_H_
