// Which workers are the members of the next epoch, and with which ranks: a pure
// function of the arrived workers, the previous epoch and the spec.
//
//   first epoch    hosts in the natural order of their first worker, the
//                  workers of a host adjacent, so that a host fills the
//                  innermost axes
//   later epochs   a previous member keeps its rank; a new worker takes a free
//                  rank, preferably that of a former worker of its own host
//
//     previous  w0   w1   w2   w3            arrived  w0 w3 x(host of w2) y
//     ranks     w0   y    x    w3
//
//   elastic jobs   as many replicas as the arrived workers fill. A previous
//                  member that holds the state keeps its coordinates in all
//                  axes but the elastic one: it has the weights of its stage
//
//     data=3,pipe=2  w0 w1 | w2 w3 | w4 w5   arrived  w0 w1 w2 w4 w5
//     data=2,pipe=2  w0 w1 | w4 w5           w2 waits: nobody has the other
//                                            stage of its replica
//
// All other workers wait: spares, survivors of broken replicas, newcomers. A
// previous member that has lost the state comes before newcomers. A survivor
// that waited keeps its coordinates like a previous member, while it holds the
// state.
//
// Threads: values.

#ifndef LOCKSTEP_SERVER_CORE_FORMATION_H_
#define LOCKSTEP_SERVER_CORE_FORMATION_H_

#include <optional>
#include <vector>

#include "lockstep/job_spec.h"
#include "protocol/types.h"

namespace lockstep::core {

// The coordinates of `rank` in all axes but the elastic one, as one number,
// which does not change with the number of replicas. An epoch of `world`
// members fills a mesh.
int CellOf(const JobSpec& spec, int world, int rank);

struct ArrivedWorker {
  protocol::Member member;
  // Present if it has the state that the epoch begins with: the cell that it
  // has it for. For a previous member that is its cell in `previous`.
  std::optional<int> held_cell;
};

// The members in rank order, whose mesh is MeshOfWorld; empty if the arrived
// workers fill no mesh. `arrived` is in any order, with distinct names.
// `previous` has the previous epoch's members in rank order, or none.
// elastic.min_workers is not considered.
std::vector<protocol::Member> FormEpoch(
    const JobSpec& spec, std::vector<ArrivedWorker> arrived,
    const std::vector<protocol::Member>& previous);

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_FORMATION_H_
