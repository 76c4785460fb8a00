// The host's cost of an operation on a real GPU, beside NCCL as it comes.
//
// Exits with 1 if ours costs 3 us more, and with 77 where there is no GPU or no
// NCCL.

#include <cstdio>
#include <cstdlib>
#include <string>

#include "bench/enqueue_cost.h"
#include "client/transport/nccl/gpu.h"

namespace {

std::string Environment(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

constexpr double kMoreMax = 3;  // us

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

}  // namespace

int main() {
  const auto tables = lockstep::transport::nccl::LoadTables(Environment, 0);
  if (absl::IsFailedPrecondition(tables.status())) {
    std::printf("skipped: %s\n",
                std::string(tables.status().message()).c_str());
    return 77;
  }
  if (!tables.ok()) return Fail(tables.status());
  const auto cost =
      lockstep::bench::MeasureEnqueue(*tables, 10'000, /*with_raw=*/true);
  if (!cost.ok()) return Fail(cost.status());
  std::printf("an all-reduce of 1 KiB, 1 rank, 10,000 calls, us a call\n");
  std::printf("%-28s %8.2f\n", "raw NCCL, blocking", cost->raw_us);
  std::printf("%-28s %8.2f\n", "raw NCCL, polled", cost->polled_us);
  const double call_more = cost->call_us - cost->raw_us;
  const double queued_more = cost->queued_us - cost->polled_us;
  std::printf("%-28s %8.2f  (blocking + %.2f)\n", "a call of AllReduce",
              cost->call_us, call_more);
  std::printf("%-28s %8.2f  (polled + %.2f)\n", "until it is queued",
              cost->queued_us, queued_more);
  if (call_more <= kMoreMax && queued_more <= kMoreMax) return 0;
  std::printf("more than NCCL's + %.0f us\n", kMoreMax);
  return 1;
}
