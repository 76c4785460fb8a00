// What lockstep-perf is asked to do, with the habits of nccl-tests.
//
//   lockstep-perf OP -b 1K -e 256M -f 2 -n 20 -w 5 --ranks 4
//                 --transport auto|shm|gloo|hierarchical|nccl [--hosts 2]
//                 [--arena] [--json FILE]

#ifndef LOCKSTEP_TOOLS_PERF_OPTIONS_H_
#define LOCKSTEP_TOOLS_PERF_OPTIONS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/dtype.h"

namespace lockstep::perf {

struct PerfOptions {
  std::string op;  // all_reduce, ...: operation.h
  size_t min_bytes = 32 << 20;
  size_t max_bytes = 32 << 20;
  size_t step_bytes = 0;  // 0: factor counts
  int factor = 2;
  int iterations = 20;
  int warmup = 5;
  int ranks = 2;
  int root = 0;
  DType dtype = DType::kF32;
  ReduceOp redop = ReduceOp::kSum;
  std::string transport = "shm";
  int hosts = 0;  // that the ranks pretend to run on; 0: this one
  bool arena = false;
  std::string json;  // a file to write; empty: none

  // The host that `rank` pretends to run on; neighbours share one.
  int HostOf(int rank) const { return rank * hosts / ranks; }

  // Every size to measure, ascending: of those asked for, the ones that hold
  // an element of each rank. One, 0, for a barrier.
  std::vector<size_t> Sizes() const;
};

// True if `options` is filled in and the program should go on. Else what it
// should exit with is in `exit_code` (0 after --help, 2 for what makes no
// sense), and what there is to say has been said.
bool Parse(int argc, char** argv, PerfOptions* options, int* exit_code);

}  // namespace lockstep::perf

#endif  // LOCKSTEP_TOOLS_PERF_OPTIONS_H_
