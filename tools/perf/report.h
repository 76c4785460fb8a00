// The output of lockstep-perf: the columns of nccl-tests, and a JSON file.

#ifndef LOCKSTEP_TOOLS_PERF_REPORT_H_
#define LOCKSTEP_TOOLS_PERF_REPORT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/perf/options.h"

namespace lockstep::perf {

struct Row {
  size_t bytes = 0;
  size_t count = 0;
  double seconds = 0;  // per call, the mean over calls and ranks
  size_t wrong = 0;    // elements, on all ranks
};

// GB/s (10^9 bytes); 0 if the time is 0.
double AlgorithmBandwidth(const Row& row);

// `connection`: the transport that connects the ranks, and why.
void PrintHeader(const PerfOptions& options, const std::string& connection);
void PrintRow(const PerfOptions& options, const Row& row);
// The last line of the table. DataLoss if not all of the table could be written
// to standard output.
absl::Status PrintFooter(const std::vector<Row>& rows);
// DataLoss if something that was printed could not be written.
absl::Status FlushOutput();

// {"rows": [{"op", "bytes", "time_us", "algbw", "busbw", "wrong"}], ...}
absl::Status WriteJson(const PerfOptions& options,
                       const std::vector<Row>& rows);

}  // namespace lockstep::perf

#endif  // LOCKSTEP_TOOLS_PERF_REPORT_H_
