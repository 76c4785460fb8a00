// Tracks which parameters of the step in progress have been submitted.
//
// Pure bookkeeping: interprets each Submit, and lists what Finish has to fill
// with zeros. It depends on no memory, streams or plan.
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
  // The parameters that may have gradients in a step: all, or (negotiated mode)
  // those passed to BeginPass.
  enum class Expects { kAll, kAnnounced };

  // uses[p]: Submits of parameter p in one backward pass; `names`: for errors.
  GradientTracker(std::vector<std::string> names, std::vector<int> uses,
                  Expects expects = Expects::kAll);

  // With kAnnounced: call once per step, before any Submit, with the parameters
  // that will be submitted. InvalidArgument, and no change: a parameter is
  // unknown or appears twice. FailedPrecondition: the second call in this step.
  absl::Status BeginPass(const std::vector<int>& parameters);
  bool has_begun() const { return has_begun_; }

  struct Submission {
    bool first = false;     // in this step: overwrite, else add
    bool complete = false;  // the gradient is final and may be sent
  };

  // Records one Submit, from a buffer or from the view. InvalidArgument, and no
  // change, for a parameter that is unknown or was not announced, and for more
  // Submits than uses in a pass outside of NoSync.
  absl::StatusOr<Submission> Submit(int parameter, bool from_buffer = false);

  // Whether the step's first Submit came from a buffer. Until the gradient is
  // complete, its view then contains a partial sum.
  bool HasSumInView(int parameter) const {
    return states_[parameter].sum_in_view;
  }

  // Begins or ends a scope of any number of passes in which no gradient becomes
  // complete. FailedPrecondition if scopes would nest or a gradient is
  // complete.
  absl::Status BeginNoSync();
  void EndNoSync();

  // Parameters, by index, that are not complete when the step ends.
  struct Incomplete {
    std::vector<int> never;   // no gradient at all: zeros
    std::vector<int> partly;  // accumulated, or fewer Submits than uses
  };
  Incomplete Finish();  // also starts the next step
  // Whether anything was announced or submitted since.
  bool is_in_step() const;

  // Parameters whose gradients cannot be sent yet: not complete and, once the
  // pass has begun, expected in it.
  std::vector<int> Resting() const;

  // Submits of the parameter in this pass, outside of NoSync, and the expected
  // number.
  int submitted(int parameter) const { return states_[parameter].in_pass; }
  int uses(int parameter) const { return uses_[parameter]; }

  // The parameters complete in this step, in order of completion.
  const std::vector<int>& completed() const { return completed_; }
  // The first `most` names of expected parameters that are not complete.
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
