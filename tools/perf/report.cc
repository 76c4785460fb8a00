#include "tools/perf/report.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/text/count.h"
#include "base/user_file.h"
#include "tools/perf/operation.h"

namespace lockstep::perf {
namespace {

bool Reduces(const PerfOptions& options) {
  return options.op == "all_reduce" || options.op == "reduce_scatter";
}

std::string RedOp(const PerfOptions& options) {
  return Reduces(options) ? std::string(Name(options.redop)) : "none";
}

double BusBandwidth(const PerfOptions& options, const Row& row) {
  return AlgorithmBandwidth(row) * BusFactor(options.op, options.ranks);
}

}  // namespace

double AlgorithmBandwidth(const Row& row) {
  return row.seconds > 0 ? static_cast<double>(row.bytes) / row.seconds / 1e9
                         : 0;
}

void PrintHeader(const PerfOptions& options, const std::string& connection) {
  std::printf("# %s: %s over %s, %s buffers, %s after %d\n", options.op.c_str(),
              Count(options.ranks, "rank").c_str(), connection.c_str(),
              options.arena ? "arena" : "private",
              Count(options.iterations, "iteration").c_str(), options.warmup);
  std::printf("#%11s %12s %6s %6s %11s %8s %8s %6s\n", "size", "count", "type",
              "redop", "time", "algbw", "busbw", "#wrong");
  std::printf("#%11s %12s %6s %6s %11s %8s %8s %6s\n", "(B)", "(elements)", "",
              "", "(us)", "(GB/s)", "(GB/s)", "");
}

void PrintRow(const PerfOptions& options, const Row& row) {
  std::printf("%12zu %12zu %6s %6s %11.2f %8.2f %8.2f %6zu\n", row.bytes,
              row.count, std::string(Name(options.dtype)).c_str(),
              RedOp(options).c_str(), row.seconds * 1e6,
              AlgorithmBandwidth(row), BusBandwidth(options, row), row.wrong);
  std::fflush(stdout);
}

absl::Status FlushOutput() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) {
    return absl::OkStatus();
  }
  return absl::DataLossError("the standard output could not be written");
}

absl::Status PrintFooter(const std::vector<Row>& rows) {
  size_t wrong = 0;
  for (const Row& row : rows) wrong += row.wrong;
  std::printf("# wrong elements: %zu%s\n", wrong, wrong == 0 ? " OK" : "");
  return FlushOutput();
}

absl::Status WriteJson(const PerfOptions& options,
                       const std::vector<Row>& rows) {
  nlohmann::ordered_json json;
  json["transport"] = options.transport;
  json["ranks"] = options.ranks;
  json["hosts"] = std::max(options.hosts, 1);
  json["arena"] = options.arena;
  json["type"] = std::string(Name(options.dtype));
  json["redop"] = RedOp(options);
  json["rows"] = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    json["rows"].push_back({{"op", options.op},
                            {"bytes", row.bytes},
                            {"time_us", row.seconds * 1e6},
                            {"algbw", AlgorithmBandwidth(row)},
                            {"busbw", BusBandwidth(options, row)},
                            {"wrong", row.wrong}});
  }
  return WriteUserFile(options.json, json.dump(2) + "\n");
}

}  // namespace lockstep::perf
