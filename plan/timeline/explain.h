// A plan's timeline for people: as text, and as a picture.
//
//   rank 0  F0 F1 F2 F3 .. .. .. .. .. B0 -- F4 ...
//   rank 1  .. F0 F1 F2 ...
//   bubble: 27.3 %

#ifndef LOCKSTEP_PLAN_TIMELINE_EXPLAIN_H_
#define LOCKSTEP_PLAN_TIMELINE_EXPLAIN_H_

#include <string>

#include "plan/ir.h"
#include "plan/timeline/timeline.h"

namespace lockstep::plan {

// "1f1b: 4 stages on 4 ranks, 8 micro-batches".
std::string Headline(const Plan& plan);

// What each rank computes when, the bubble, bytes on each link, activations
// kept by each stage, buffers, gradients, trees of leaves, and the operations
// of each rank (operation_list.h). Each line ends with a newline. The timeline
// must be in small units: the costs of which TimelineOf is made by default.
std::string ExplainText(const Plan& plan, const Timeline& timeline);

// An SVG with one row for each rank, a bar for each task and for the verdict,
// and an arrow for each message. Large plans are drawn with their first 64
// ranks.
std::string ExplainSvg(const Plan& plan, const Timeline& timeline);

// "27.3 %", "6.0 MiB".
std::string PercentText(double share);
std::string BytesText(int64_t bytes);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_TIMELINE_EXPLAIN_H_
