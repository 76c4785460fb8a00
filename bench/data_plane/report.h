// What a run of the data plane's bench found: figures reached or not, a table,
// a picture and a file for machines.

#ifndef LOCKSTEP_BENCH_DATA_PLANE_REPORT_H_
#define LOCKSTEP_BENCH_DATA_PLANE_REPORT_H_

#include <map>
#include <string>
#include <vector>

#include "bench/data_plane/sweep.h"
#include "bench/figures.h"

namespace lockstep::bench {

struct Report {
  std::vector<std::string> order;      // of the sides
  std::map<std::string, Times> sides;  // medians over the rounds
  std::vector<Figure> figures;
  std::map<std::string, double> single;  // other times, seconds
  int rounds = 0;
};

void Print(const Report& report);

// PATH.json and PATH.svg; false if they cannot be written.
bool Write(const Report& report, const std::string& path);

}  // namespace lockstep::bench

#endif  // LOCKSTEP_BENCH_DATA_PLANE_REPORT_H_
