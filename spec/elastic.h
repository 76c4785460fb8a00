// The meshes of an elastic job: the spec's, with fewer replicas along one axis.
//
//   mesh data=4,pipe=2, elastic axis data     a replica: 2 workers, one a stage
//     8 workers   data=4,pipe=2               the spec's mesh is the largest
//     6 workers   data=3,pipe=2
//     5 workers   no mesh: one of them waits
//
// A job of fixed size has one replica: its mesh.
//
// Pure functions of valid specs. MeshOfWorld is in lockstep/job_spec.h.

#ifndef LOCKSTEP_SPEC_ELASTIC_H_
#define LOCKSTEP_SPEC_ELASTIC_H_

#include "lockstep/job_spec.h"

namespace lockstep::spec {

inline bool IsElastic(const JobSpec& spec) {
  return !spec.elastic.axis.empty();
}

// The size of the elastic axis; 1 for a job of fixed size.
int ReplicasMax(const JobSpec& spec);

int WorkersPerReplica(const JobSpec& spec);

// An epoch may have so many replicas: at most ReplicasMax, and a power of two
// if sums are reproducible. elastic.min_workers is not considered.
bool MayHaveReplicas(const JobSpec& spec, int replicas);

// elastic.min_workers, but one replica at least.
int WorkersMin(const JobSpec& spec);

// The mesh's ranks and limits.spares: as many may be here at once.
int WorkersMax(const JobSpec& spec);

}  // namespace lockstep::spec

#endif  // LOCKSTEP_SPEC_ELASTIC_H_
