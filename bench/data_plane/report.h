// The result of a data-plane benchmark: figures with their targets, a table, a
// picture and a JSON file.

#ifndef LOCKSTEP_BENCH_DATA_PLANE_REPORT_H_
#define LOCKSTEP_BENCH_DATA_PLANE_REPORT_H_

#include <map>
#include <string>
#include <vector>

#include "bench/data_plane/sweep.h"
#include "bench/figures.h"

namespace lockstep::bench {

struct Report {
  std::vector<std::string> order;      // sides, in order of output
  std::map<std::string, Times> sides;  // medians over the rounds
  std::vector<Figure> figures;
  std::map<std::string, double> single;  // other times, seconds
  int rounds = 0;
};

void Print(const Report& report);

// Writes PATH.json and PATH.svg; false on failure.
bool Write(const Report& report, const std::string& path);

}  // namespace lockstep::bench

#endif  // LOCKSTEP_BENCH_DATA_PLANE_REPORT_H_
