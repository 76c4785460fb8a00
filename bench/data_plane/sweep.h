// One side of the comparison: an all-reduce of f32 sums, in place, over a sweep
// of sizes, and how long each call took.
//
// Every side is measured the same way: before each iteration the owners write
// their inputs (not timed), all ranks meet at a barrier of shared memory (not
// timed), then rank 0's call is timed. What counts is the median of the
// iterations.

#ifndef LOCKSTEP_BENCH_DATA_PLANE_SWEEP_H_
#define LOCKSTEP_BENCH_DATA_PLANE_SWEEP_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::bench {

// Seconds by bytes.
using Times = std::map<size_t, double>;

// What a rank does of one side.
class Side {
 public:
  virtual ~Side() = default;
  // Memory of this rank for `bytes`; the one before is let go.
  virtual float* Prepare(size_t bytes) = 0;
  // The all-reduce of what Prepare gave. Ends the process if it fails.
  virtual void Run() = 0;
};

// Gives each rank its side; `exchange` passes handles among the ranks.
using Exchange =
    std::function<std::vector<std::string>(const std::string& own)>;
using MakeSide =
    std::function<std::unique_ptr<Side>(int rank, int ranks, Exchange)>;

struct SweepOptions {
  int ranks = 2;
  bool pinned = false;  // rank r on core r
  std::vector<size_t> sizes;
  double seconds = 0.15;  // about so long for a size
};

// In processes of its own; empty if a rank failed.
Times Sweep(const MakeSide& make, const SweepOptions& options);

// --- The sides ---

MakeSide Limit();  // L: the same loads and stores on private memory
// The same loop on shared memory, and nothing else; each rank as if it were
// `crew`, with a buffer each.
MakeSide Handover(int crew);
MakeSide Copy();  // memcpy of the same bytes
MakeSide Shared(bool in_arena);
MakeSide OverGloo();    // our Communicator over Gloo
MakeSide GlooItself();  // gloo::allreduce
// Our Communicator between ranks that pretend to run on several hosts.
MakeSide OverHosts(int hosts, bool in_arena);

// An MPI program (mpi_side.cc) under its launcher; empty if it is not there.
Times SweepOfMpi(const std::string& launcher, const std::string& program,
                 const SweepOptions& options);

// --- Round trips, seconds ---

double CacheLineRoundTrip();  // two processes pinned to two cores
double PipeRoundTrip();

}  // namespace lockstep::bench

#endif  // LOCKSTEP_BENCH_DATA_PLANE_SWEEP_H_
