// The host cost that this library adds to an operation: the NCCL adapter over
// interfaces that do nothing, on any machine.

#include <cstdio>

#include "bench/enqueue_cost.h"
#include "bench/idle_tables.h"

int main() {
  lockstep::fake::FakeGpus gpus;
  const auto cost = lockstep::bench::MeasureEnqueue(
      lockstep::bench::IdleTables(&gpus), {}, {.batches = 7, .calls = 10'000});
  if (!cost.ok()) {
    std::fprintf(stderr, "%s\n", cost.status().ToString().c_str());
    return 1;
  }
  std::printf("the library alone, 1 rank, 10,000 calls, us an operation\n");
  std::printf("%-28s %8.2f\n", "a call of AllReduce", cost->call_us);
  return 0;
}
