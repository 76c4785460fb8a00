// Parameters that a rank repeatedly does not submit, so that their gradients
// are zeros or only those of other ranks.
//
//   step          0  1  2  3  4  5 ...
//   w submitted   x  x  x  x  x  x
//   b submitted   -  -  -              named after step 2: 3 steps in a row
//   c submitted   x  -  -  x  -  -     never named: a conditional branch
//
// A parameter that was named stays named, so it is reported only once.
//
// Threads: not thread-safe; the engine's lock guards it.

#ifndef LOCKSTEP_CLIENT_GRADIENT_UNSUBMITTED_H_
#define LOCKSTEP_CLIENT_GRADIENT_UNSUBMITTED_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "protocol/progress.h"

namespace lockstep::gradient {

class Unsubmitted {
 public:
  // `steps`: consecutive steps before a parameter is named. `here_too`: name
  // parameters that other ranks submit but this one does not.
  Unsubmitted(std::vector<std::string> names, int steps, bool here_too)
      : names_(std::move(names)),
        steps_(steps),
        here_too_(here_too),
        running_(names_.size(), 0),
        short_of_leaves_(names_.size(), 0) {}

  // For each parameter of a step that has passed: whether this rank submitted
  // it, and whether any rank did.
  void Note(int parameter, bool here, bool anywhere) {
    int& running = running_[parameter];
    if (here || (anywhere && !here_too_)) {
      if (running >= 0) running = 0;
    } else if (running >= 0 && ++running == steps_) {
      running = -1;
      Name(anywhere ? here_ : by_all_, names_[parameter]);
    }
  }

  // For a step that ends: the number of leaves of the parameter that this rank
  // submitted, and the number that it has. Note handles 0.
  void NoteLeaves(int parameter, int submitted, int has) {
    int& running = short_of_leaves_[parameter];
    if (submitted == 0 || submitted == has) {
      if (running >= 0) running = 0;
    } else if (running >= 0 && ++running == steps_) {
      running = -1;
      Name(here_, absl::StrFormat("%d of %d leaves of %s", has - submitted, has,
                                  names_[parameter]));
    }
  }

  const protocol::ParameterNames& by_all() const { return by_all_; }
  const protocol::ParameterNames& here() const { return here_; }

 private:
  static void Name(protocol::ParameterNames& names, std::string name) {
    constexpr size_t kMost = 8;
    names.count += 1;
    names.names.insert(names.names.begin(), std::move(name));
    if (names.names.size() > kMost) names.names.pop_back();
  }

  const std::vector<std::string> names_;
  const int steps_;
  const bool here_too_;
  std::vector<int> running_;          // steps without it; -1: already named
  std::vector<int> short_of_leaves_;  // likewise, with only some of its leaves
  protocol::ParameterNames by_all_;
  protocol::ParameterNames here_;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_UNSUBMITTED_H_
