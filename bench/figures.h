// What a bench promises and what it measured; and on which machine.

#ifndef LOCKSTEP_BENCH_FIGURES_H_
#define LOCKSTEP_BENCH_FIGURES_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep::bench {

// A promise, and what was measured for it.
struct Figure {
  std::string what;
  double promised = 0;  // 0: nothing, it explains the one before
  double measured = 0;
  bool at_most = false;  // else at least

  bool reached() const {
    return at_most ? measured <= promised : measured >= promised;
  }
};

// A table, with reached or NOT REACHED beside each.
void Print(const std::vector<Figure>& figures);
nlohmann::ordered_json ToJson(const std::vector<Figure>& figures);

// Processor, cores, kernel, date; who has versions of peers adds them.
nlohmann::ordered_json Machine();
// What `command` says of its version, or that it is not there.
std::string FirstLineOf(const char* command);

// The middle of an odd number of values, else the upper of the two middle ones.
// `values` must not be empty.
double Median(std::vector<double> values);

}  // namespace lockstep::bench

#endif  // LOCKSTEP_BENCH_FIGURES_H_
