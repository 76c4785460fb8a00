// Targets of a benchmark, the measured values, and the machine.

#ifndef LOCKSTEP_BENCH_FIGURES_H_
#define LOCKSTEP_BENCH_FIGURES_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep::bench {

// A target and the measured value.
struct Figure {
  std::string what;
  double promised = 0;  // 0: no target; explains the previous figure
  double measured = 0;
  bool at_most = false;  // else at least

  bool reached() const {
    return at_most ? measured <= promised : measured >= promised;
  }
};

// Prints a table with "reached" or "NOT REACHED" for each figure.
void Print(const std::vector<Figure>& figures);
nlohmann::ordered_json ToJson(const std::vector<Figure>& figures);

// Processor, cores, kernel, date. Callers add the versions of other libraries.
nlohmann::ordered_json Machine();
// The first line of output of `command`, or a note that it is not installed.
std::string FirstLineOf(const char* command);

// The median; for an even number of values, the upper of the two middle values.
// `values` must not be empty.
double Median(std::vector<double> values);

}  // namespace lockstep::bench

#endif  // LOCKSTEP_BENCH_FIGURES_H_
