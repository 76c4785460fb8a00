// One side of the comparison: an all-reduce of f32 sums, in place, over a sweep
// of sizes, and the duration of each call.
//
// Every side is measured in the same way. Before each iteration the owners
// write their inputs (not timed) and all ranks wait at a barrier in shared
// memory (not timed); then rank 0's call is timed. The result is the median of
// the iterations.

#ifndef LOCKSTEP_BENCH_DATA_PLANE_SWEEP_H_
#define LOCKSTEP_BENCH_DATA_PLANE_SWEEP_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::bench {

// Seconds by size in bytes.
using Times = std::map<size_t, double>;

// One rank of a side.
class Side {
 public:
  virtual ~Side() = default;
  // Returns this rank's memory for `bytes`; releases the previous memory.
  virtual float* Prepare(size_t bytes) = 0;
  // All-reduces the memory of the last Prepare. Ends the process on failure.
  virtual void Run() = 0;
};

// Creates each rank's Side; `exchange` exchanges handles between the ranks.
using Exchange =
    std::function<std::vector<std::string>(const std::string& own)>;
using MakeSide =
    std::function<std::unique_ptr<Side>(int rank, int ranks, Exchange)>;

struct SweepOptions {
  int ranks = 2;
  bool pinned = false;  // rank r on core r
  std::vector<size_t> sizes;
  double seconds = 0.15;  // approximate, per size
};

// Runs in separate processes; empty if a rank failed.
Times Sweep(const MakeSide& make, const SweepOptions& options);

// --- The sides ---

MakeSide Limit();  // L: the same loads and stores on private memory
// The same loop on shared memory only; each rank acts as `buffers` ranks, with
// a buffer each.
MakeSide Handover(int buffers);
MakeSide Copy();  // memcpy of the same bytes
MakeSide Shared(bool in_arena);
MakeSide OverGloo();    // our Communicator over Gloo
MakeSide GlooItself();  // gloo::allreduce
// Our Communicator between ranks on several simulated hosts.
MakeSide OverHosts(int hosts, bool in_arena);

// An MPI program (mpi_side.cc) under its launcher; empty if it is not
// installed.
Times SweepOfMpi(const std::string& launcher, const std::string& program,
                 const SweepOptions& options);

// --- Round trips, seconds ---

double CacheLineRoundTrip();  // two processes pinned to two cores
double PipeRoundTrip();

}  // namespace lockstep::bench

#endif  // LOCKSTEP_BENCH_DATA_PLANE_SWEEP_H_
