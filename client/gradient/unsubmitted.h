// Parameters that a rank goes on without submitting, so that their gradients
// are zeros or those of other ranks alone.
//
//   step          0  1  2  3  4  5 ...
//   w submitted   x  x  x  x  x  x
//   b submitted   -  -  -              named behind step 2: 3 steps running
//   c submitted   x  -  -  x  -  -     never: conditional branches come and go
//
// What is named once stays named, so nobody is told of it twice.
//
// Threads: not thread-safe; the engine's lock guards it.

#ifndef LOCKSTEP_CLIENT_GRADIENT_UNSUBMITTED_H_
#define LOCKSTEP_CLIENT_GRADIENT_UNSUBMITTED_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "plan/words/protocol.h"

namespace lockstep::gradient {

class Unsubmitted {
 public:
  // `steps`: how many steps running it must be. `here_too`: ranks are expected
  // to submit what others do.
  Unsubmitted(std::vector<std::string> names, int steps, bool here_too)
      : names_(std::move(names)),
        steps_(steps),
        here_too_(here_too),
        running_(names_.size(), 0),
        short_of_leaves_(names_.size(), 0) {}

  // In the step that has passed, for each parameter in turn: did this rank
  // submit it, and did anybody?
  void Note(int parameter, bool here, bool anywhere) {
    int& running = running_[parameter];
    if (here || (anywhere && !here_too_)) {
      if (running >= 0) running = 0;
    } else if (running >= 0 && ++running == steps_) {
      running = -1;
      Name(anywhere ? here_ : by_all_, names_[parameter]);
    }
  }

  // In the step that ends: how many leaves of the parameter this rank
  // submitted, of how many that it has. None is not some: see Note.
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
  std::vector<int> running_;          // steps without it; -1: it is named
  std::vector<int> short_of_leaves_;  // likewise, with some of its leaves only
  protocol::ParameterNames by_all_;
  protocol::ParameterNames here_;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_UNSUBMITTED_H_
