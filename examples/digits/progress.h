// The progress of a training, in one line.
//
//   [=============>                ] 130/300   28.4 steps/s   loss 0.1127

#ifndef LOCKSTEP_EXAMPLES_DIGITS_PROGRESS_H_
#define LOCKSTEP_EXAMPLES_DIGITS_PROGRESS_H_

#include <cstdint>
#include <string>

namespace lockstep::digits {

struct Progress {
  int64_t done = 0;
  int64_t steps = 0;  // at least 1
  double seconds = 0;
  double loss = 0;  // of the last step
};

std::string ProgressLine(const Progress& progress);

// Shows progress on stderr after every step: one growing line on a terminal,
// ten lines in a log.
class ProgressPrinter {
 public:
  ProgressPrinter();
  void Show(const Progress& progress) const;

 private:
  const bool terminal_;
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_PROGRESS_H_
