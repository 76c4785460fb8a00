// Runs a collective over named axes on the ranks of this process.

#ifndef LOCKSTEP_TESTS_CONFORMANCE_COLLECTIVES_RUN_COLLECTIVE_H_
#define LOCKSTEP_TESTS_CONFORMANCE_COLLECTIVES_RUN_COLLECTIVE_H_

#include "absl/status/statusor.h"
#include "lockstep/axis_collective.h"
#include "lockstep/mesh.h"
#include "tests/conformance/cases/case_tensor.h"
#include "tests/conformance/cases/groups.h"

namespace lockstep::conformance {

// The outputs of all ranks of the mesh; the first error if one failed.
// `checked`: as AxisGroupOptions. Members other than the root of pbroadcast and
// scatter may have no inputs.
absl::StatusOr<RankTensors> RunCollective(const Mesh& mesh,
                                          const AxisCollective& op,
                                          const RankTensors& inputs,
                                          Groups& groups, bool checked = false);

}  // namespace lockstep::conformance

#endif  // LOCKSTEP_TESTS_CONFORMANCE_COLLECTIVES_RUN_COLLECTIVE_H_
