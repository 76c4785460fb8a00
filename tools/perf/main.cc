// lockstep-perf: measures and checks a collective operation.
//
//   lockstep-perf all_reduce -b 1K -e 64M -f 4 --ranks 2 --transport shm
//   --arena
//
// Starts its ranks as processes of this machine; rank 0 prints. Exit codes: 1
// if an element was wrong, a rank failed or the report could not be written, 2
// for invalid options.

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/cpu_affinity.h"
#include "client/transport/gloo/gloo.h"
#include "client/transport/hierarchical/auto.h"
#include "client/transport/shm/shm.h"
#include "tools/perf/gpu_backend.h"
#include "tools/perf/options.h"
#include "tools/perf/processes.h"
#include "tools/perf/rank.h"
#include "tools/perf/report.h"

namespace lockstep::perf {
namespace {

absl::StatusOr<Backend> OnHost(
    const PerfOptions& options,
    absl::StatusOr<std::unique_ptr<transport::Transport>> transport) {
  if (!transport.ok()) return transport.status();
  Backend backend;
  backend.arena = options.arena ? (*transport)->MakeArena() : MakePlainArena();
  backend.transport = *std::move(transport);
  backend.stream =
      std::make_unique<HostStream>("perf", HostStream::Execution::kInline);
  return backend;
}

absl::StatusOr<std::unique_ptr<transport::Transport>> MakeAuto(
    const PerfOptions& options, int rank) {
  auto links = transport::MakeGlooLinks({});
  if (!links.ok()) return links.status();
  const std::string host =
      options.hosts == 0 ? "" : absl::StrCat("host-", options.HostOf(rank));
  return transport::MakeAutoTransport(*std::move(links),
                                      {.pretended_host = host});
}

absl::StatusOr<Backend> MakeBackend(const PerfOptions& options, int rank) {
  if (options.transport == "auto" || options.transport == "hierarchical") {
    return OnHost(options, MakeAuto(options, rank));
  }
  if (options.transport == "shm") {
    return OnHost(options, transport::MakeShmTransport());
  }
  if (options.transport == "gloo") {
    return OnHost(options, transport::MakeGlooTransport({}));
  }
  return MakeGpuBackend(options, rank);
}

absl::Status Bind(const PerfOptions& options, int rank) {
  if (options.bind == "none") return absl::OkStatus();
  const std::optional<cpu_set_t> cores = AllowedCores();
  const bool bound = cores && RunOn(ShareOfCores(*cores, rank, options.ranks));
  return bound ? absl::OkStatus()
               : absl::UnavailableError("the rank cannot be bound to cores");
}

absl::Status RunRank(const PerfOptions& options, int rank,
                     HandlePipes& exchange, size_t* wrong) {
  if (absl::Status bound = Bind(options, rank); !bound.ok()) return bound;
  auto backend = MakeBackend(options, rank);
  if (!backend.ok()) return backend.status();
  PerfRank self(options, rank, *std::move(backend));
  absl::Status connected = self.Connect([&](const std::string& handle) {
    return exchange.Exchange(handle, options.ranks);
  });
  if (!connected.ok()) return connected;
  const bool prints = rank == 0;
  std::vector<Row> rows;
  if (prints) PrintHeader(options, self.connection());
  for (size_t bytes : options.Sizes()) {
    absl::StatusOr<Row> row = self.Measure(bytes);
    if (!row.ok()) return row.status();
    *wrong += row->wrong;
    if (prints) PrintRow(options, *row);
    rows.push_back(*row);
  }
  if (!prints) return absl::OkStatus();
  absl::Status reported = PrintFooter(rows);
  if (!options.json.empty()) reported.Update(WriteJson(options, rows));
  return reported;
}

int Main(int argc, char** argv) {
  PerfOptions options;
  int exit_code = 0;
  if (!Parse(argc, argv, &options, &exit_code)) {
    if (FlushOutput().ok()) return exit_code;
    std::fprintf(stderr,
                 "lockstep-perf: the standard output could not be written\n");
    return exit_code == 0 ? 1 : exit_code;
  }
  return RunRanks(options.ranks, [&](int rank, HandlePipes& exchange) {
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
