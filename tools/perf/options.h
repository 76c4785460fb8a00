// The command line of lockstep-perf, with the options of nccl-tests.
//
//   lockstep-perf OP -b 1K -e 256M -f 2 -n 20 -w 5 --ranks 4
//                 --transport auto|shm|gloo|hierarchical|nccl [--hosts 2]
//                 [--arena] [--bind core] [--json FILE]

#ifndef LOCKSTEP_TOOLS_PERF_OPTIONS_H_
#define LOCKSTEP_TOOLS_PERF_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/dtype.h"
#include "lockstep/halo_spec.h"

namespace lockstep::perf {

struct PerfOptions {
  std::string op;  // all_reduce, ...: operation.h
  size_t min_bytes = 32 << 20;
  size_t max_bytes = 32 << 20;
  size_t step_bytes = 0;  // 0: use factor
  int factor = 2;
  int iterations = 20;
  int warmup = 5;
  int ranks = 2;
  int root = 0;
  DType dtype = DType::kF32;
  ReduceOp redop = ReduceOp::kSum;
  std::string transport = "shm";
  // halo: the whole field, the cells of each side of a block (in all dimensions
  // or in each one, as 0x1), the blocks in each dimension (empty: as equal as
  // possible), and the edge.
  std::string shape = "1024x1024";
  std::string width = "1";
  std::string cut;
  HaloEdge edge = HaloEdge::kPeriodic;
  int hosts = 0;  // simulated hosts of the ranks; 0: this host
  bool arena = false;
  std::string bind = "none";  // or "core": a share of the cores for each rank
  std::string json;           // output file; empty: none

  // The simulated host of `rank`; neighbours share a host.
  int HostOf(int rank) const { return rank * hosts / ranks; }

  // All sizes to measure, ascending: the requested sizes with at least one
  // element per rank. For a barrier one size, 0.
  std::vector<size_t> Sizes() const;
};

// Returns true if `options` is filled in and the program should continue.
// Otherwise `exit_code` is set (0 after --help, 2 for invalid options) and the
// message has been printed.
bool Parse(int argc, char** argv, PerfOptions* options, int* exit_code);

}  // namespace lockstep::perf

#endif  // LOCKSTEP_TOOLS_PERF_OPTIONS_H_
