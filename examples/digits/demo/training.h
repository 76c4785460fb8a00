// Starts the processes of the demonstration: a coordinator with workers, or
// one.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_DEMO_TRAINING_H_
#define LOCKSTEP_EXAMPLES_DIGITS_DEMO_TRAINING_H_

#include "examples/digits/demo/flags.h"
#include "examples/digits/demo/job_files.h"
#include "examples/digits/demo/screen.h"

namespace lockstep::digits {

inline constexpr int kExitKilled = 3;

// Runs the job; returns the exit code of its workers, or kExitKilled once
// flags.kill_all has ended it.
int TrainTogether(const Flags& flags, const JobFiles& files, Screen& screen);

// Trains the same in one process; returns its exit code.
int TrainAlone(const Flags& flags, const JobFiles& files, Screen& screen);

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_DEMO_TRAINING_H_
