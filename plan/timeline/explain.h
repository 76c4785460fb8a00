// A plan's timeline for people: as text, and as an SVG picture.
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

// When each rank computes each task, the bubble, bytes on each link, stored
// activations of each stage, buffers, gradients, trees of leaves, fields and
// messages of halo exchanges, and the operations of each rank
// (operation_list.h). Each line ends with a newline.
// The timeline must be in small units: that of the default costs of TimelineOf.
std::string ExplainText(const Plan& plan, const Timeline& timeline);

// An SVG with one row for each rank, a bar for each task and for the verdict,
// and an arrow for each message. At most the first 64 ranks are drawn.
std::string ExplainSvg(const Plan& plan, const Timeline& timeline);

// "27.3 %", "6.0 MiB".
std::string PercentText(double share);
std::string BytesText(int64_t bytes);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_TIMELINE_EXPLAIN_H_
