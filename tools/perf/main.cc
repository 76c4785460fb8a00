// lockstep-perf: how fast a collective operation is, and whether it is right.
//
//   lockstep-perf all_reduce -b 1K -e 64M -f 4 --ranks 2 --transport shm
//   --arena
//
// Starts its ranks itself, as processes of this machine; rank 0 prints. Exits
// with 1 if an element was wrong or a rank failed, 2 if it was called wrongly.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "client/transport/gloo/gloo.h"
#include "client/transport/nccl/gpu.h"
#include "client/transport/shm/shm.h"
#include "tools/perf/operation.h"
#include "tools/perf/options.h"
#include "tools/perf/processes.h"
#include "tools/perf/report.h"

namespace lockstep::perf {
namespace {

absl::StatusOr<std::unique_ptr<transport::Transport>> MakeTransport(
    const Options& options) {
  if (options.transport == "shm") return transport::MakeShmTransport();
  if (options.transport == "gloo") return transport::MakeGlooTransport({});
  auto made = transport::nccl::MakeGpuTransport([](const std::string& name) {
    const char* value = std::getenv(name.c_str());
    return std::string(value == nullptr ? "" : value);
  });
  if (!made.ok()) return made.status();
  return absl::UnimplementedError(
      "lockstep-perf has host buffers only: use shm or gloo");
}

class Rank {
 public:
  Rank(const Options& options, int rank) : options_(options), rank_(rank) {}

  absl::Status Connect(HandleExchange& exchange) {
    auto transport = MakeTransport(options_);
    if (!transport.ok()) return transport.status();
    transport_ = *std::move(transport);
    auto pending = transport_->Prepare(
        {.name = "perf", .rank = rank_, .size = options_.ranks});
    if (!pending.ok()) return pending.status();
    auto handles = exchange.Exchange((*pending)->handle(), options_.ranks);
    if (!handles.ok()) return handles.status();
    auto comm = (*pending)->Connect(*handles, absl::Seconds(60));
    if (!comm.ok()) return comm.status();
    comm_ = *std::move(comm);
    if (options_.arena) arena_ = transport_->MakeArena();
    return absl::OkStatus();
  }

  absl::StatusOr<Row> Measure(size_t bytes) {
    auto operation = Operation::Create(options_, bytes, *comm_, arena_.get());
    if (!operation.ok()) return operation.status();
    Operation& op = **operation;
    op.Fill();
    absl::StatusOr<double> warm = SecondsOf(op, options_.warmup);
    if (!warm.ok()) return warm.status();
    absl::StatusOr<double> seconds = SecondsOf(op, options_.iterations);
    if (!seconds.ok()) return seconds.status();
    op.Fill();
    // Nobody's input may be read before it is there.
    absl::StatusOr<double> checked = SecondsOf(op, 1);
    if (!checked.ok()) return checked.status();
    double totals[] = {*seconds / options_.iterations,
                       static_cast<double>(op.Wrong())};
    absl::Status summed = Finished(comm_->AllReduce(
        totals, totals, 2, DType::kF64, ReduceOp::kSum, stream_));
    if (!summed.ok()) return summed;
    return Row{.bytes = op.bytes(),
               .count = op.count(),
               .seconds = totals[0] / options_.ranks,
               .wrong = static_cast<size_t>(totals[1])};
  }

 private:
  absl::Status Finished(absl::Status called) {
    return called.ok() ? stream_.Synchronize() : called;
  }

  // Of so many, from when all ranks are ready.
  absl::StatusOr<double> SecondsOf(Operation& op, int iterations) {
    absl::Status ready = Finished(comm_->Barrier(stream_));
    if (!ready.ok()) return ready;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < iterations; ++i) {
      if (absl::Status called = op.Run(stream_); !called.ok()) return called;
    }
    if (absl::Status done = stream_.Synchronize(); !done.ok()) return done;
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         begin)
        .count();
  }

  const Options& options_;
  const int rank_;
  std::unique_ptr<transport::Transport> transport_;
  std::unique_ptr<Communicator> comm_;
  std::unique_ptr<Arena> arena_;
  HostStream stream_{"perf", HostStream::Execution::kInline};
};

absl::Status RunRank(const Options& options, int rank, HandleExchange& exchange,
                     size_t* wrong) {
  Rank self(options, rank);
  if (absl::Status connected = self.Connect(exchange); !connected.ok()) {
    return connected;
  }
  const bool prints = rank == 0;
  std::vector<Row> rows;
  if (prints) PrintHeader(options);
  for (size_t bytes : options.Sizes()) {
    absl::StatusOr<Row> row = self.Measure(bytes);
    if (!row.ok()) return row.status();
    *wrong += row->wrong;
    if (prints) PrintRow(options, *row);
    rows.push_back(*row);
  }
  if (!prints) return absl::OkStatus();
  PrintFooter(rows);
  return options.json.empty() ? absl::OkStatus() : WriteJson(options, rows);
}

int Main(int argc, char** argv) {
  Options options;
  int exit_code = 0;
  if (!Parse(argc, argv, &options, &exit_code)) return exit_code;
  return RunRanks(options.ranks, [&](int rank, HandleExchange& exchange) {
    size_t wrong = 0;
    const absl::Status ran = RunRank(options, rank, exchange, &wrong);
    if (!ran.ok()) {
      std::fprintf(stderr, "lockstep-perf: rank %d: %s\n", rank,
                   ran.ToString().c_str());
    }
    return ran.ok() && wrong == 0 ? 0 : 1;
  });
}

}  // namespace
}  // namespace lockstep::perf

int main(int argc, char** argv) { return lockstep::perf::Main(argc, argv); }
