// One rank of lockstep-perf: connects, then measures one size after the other.
//
//   Barrier ─▶ warm-up ─▶ Barrier ─▶ timed ─▶ new inputs ─▶ once ─▶ checked
//
// Threads: one.

#ifndef LOCKSTEP_TOOLS_PERF_RANK_H_
#define LOCKSTEP_TOOLS_PERF_RANK_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/transport/device_context.h"
#include "client/transport/transport.h"
#include "lockstep/communicator.h"
#include "lockstep/stream.h"
#include "tools/perf/memory.h"
#include "tools/perf/operation.h"
#include "tools/perf/options.h"
#include "tools/perf/report.h"

namespace lockstep::perf {

// The rank's transport and memory. The last members are destroyed first.
struct Backend {
  std::unique_ptr<transport::Transport> transport;
  std::unique_ptr<Arena> arena;
  std::unique_ptr<transport::DeviceContext> device;  // null: host memory
  std::unique_ptr<Stream> stream;
};

class PerfRank {
 public:
  // Sends this rank's handle, and returns all ranks' handles.
  using Exchange =
      std::function<absl::StatusOr<std::vector<std::string>>(std::string)>;

  PerfRank(const PerfOptions& options, int rank, Backend backend)
      : options_(options),
        rank_(rank),
        backend_(std::move(backend)),
        memory_(backend_.arena.get(), backend_.device.get()) {}

  absl::Status Connect(const Exchange& exchange);

  // The transport that connects the ranks, and the reason for it.
  const std::string& connection() const { return connection_; }

  // Collective; `bytes` is equal on all ranks.
  absl::StatusOr<Row> Measure(size_t bytes);

 private:
  absl::Status Finished(absl::Status called);
  // Seconds of `iterations` operations, from when all ranks are ready.
  absl::StatusOr<double> SecondsOf(PerfOperation& op, int iterations);
  absl::Status Sum(double* values, size_t count);

  const PerfOptions& options_;
  const int rank_;
  Backend backend_;
  Memory memory_;
  std::unique_ptr<Communicator> comm_;
  std::string connection_;
};

}  // namespace lockstep::perf

#endif  // LOCKSTEP_TOOLS_PERF_RANK_H_
