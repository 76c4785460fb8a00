// The step summary that the verdict lane reduces over the whole world, as
// vectors. client/gradient/step_summary.h defines their elements.
//
//   f64, sum   kSummarySums elements
//   u64, max   kSummaryMaxima elements
//   f64, sum   one element for each leaf, in jobs with leaves

#ifndef LOCKSTEP_PLAN_SUMMARY_H_
#define LOCKSTEP_PLAN_SUMMARY_H_

#include "lockstep/command.h"

namespace lockstep::plan {

inline constexpr int kSummarySums = 8 + kCommands;
inline constexpr int kSummaryMaxima = 8;

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_SUMMARY_H_
