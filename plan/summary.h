// What the verdict lane sends over the whole world. The step summary is reduced
// as vectors; client/gradient/step_summary.h defines their elements:
//
//   f64, sum   kSummarySums elements
//   u64, max   kSummaryMaxima elements
//   f64, sum   one element for each leaf, in jobs with leaves
//
// or each rank's record is gathered (records.h, kernels/step_gate.h):
//
//   u64        kRecordWords elements of each rank

#ifndef LOCKSTEP_PLAN_SUMMARY_H_
#define LOCKSTEP_PLAN_SUMMARY_H_

#include "lockstep/command.h"

namespace lockstep::plan {

inline constexpr int kSummarySums = 8 + kCommands;
inline constexpr int kSummaryMaxima = 8;
inline constexpr int kRecordWords = 16;

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_SUMMARY_H_
