// All-reduces of a few bytes between two ranks that no one has pinned, compared
// to MPICH and Open MPI: `./run bench small-messages`.
//
//   small_messages_bench [PAIRS]      (default 15)
//
// Cold: 200 calls after 3, in a new group of new processes for each size. Warm:
// 20,000 calls. One sample is the mean of a loop's calls over both ranks; the
// sides alternate, and the medians over the samples are compared. Open MPI
// binds each rank to a core, as it does by default; MPICH does not. The machine
// must be idle.
//
// The exit code is 0 whether or not the figures are reached.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bench/figures.h"

namespace lockstep::bench {
namespace {

constexpr size_t kSizes[] = {8, 1024, 4096};

struct Length {
  const char* name;
  int warmup;
  int iterations;
};
constexpr Length kLengths[] = {{"cold", 3, 200}, {"warm", 200, 20'000}};

struct Side {
  const char* name;
  std::string command;  // up to the numbers
  bool is_mpi = false;
};

std::vector<Side> Sides() {
  const std::string folder =
      std::filesystem::read_symlink("/proc/self/exe").parent_path();
  std::vector<Side> sides = {
      {"arena", folder + "/lockstep-perf all_reduce --arena"},
      {"arena, bound",
       folder + "/lockstep-perf all_reduce --arena --bind core"},
      {"private", folder + "/lockstep-perf all_reduce"}};
  for (const auto& [name, launcher] :
       {std::pair{"mpich", "mpirun.mpich"},
        {"openmpi", "mpirun.openmpi --allow-run-as-root"}}) {
    const std::string program = folder + "/mpi_side_" + name;
    if (!std::filesystem::exists(program)) continue;
    sides.push_back({name, std::string(launcher) + " -n 2 " + program + " loop",
                     /*is_mpi=*/true});
  }
  return sides;
}

// The output of a command; empty if it failed.
std::string OutputOf(const std::string& command) {
  std::FILE* const pipe = popen((command + " 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return "";
  std::string output;
  char part[4096];
  while (const size_t read = std::fread(part, 1, sizeof part, pipe)) {
    output.append(part, read);
  }
  return pclose(pipe) == 0 ? output : "";
}

// Microseconds of one call; negative if the side failed.
double Measure(const Side& side, const Length& length, size_t bytes,
               const std::string& json) {
  const std::string size = std::to_string(bytes);
  if (side.is_mpi) {
    const std::string output =
        OutputOf(side.command + " " + std::to_string(length.warmup) + " " +
                 std::to_string(length.iterations) + " " + size);
    double seconds = -1;
    return std::sscanf(output.c_str(), "%*u %lf", &seconds) == 1 ? seconds * 1e6
                                                                 : -1;
  }
  const std::string output =
      OutputOf(side.command + " -b " + size + " -e " + size + " -w " +
               std::to_string(length.warmup) + " -n " +
               std::to_string(length.iterations) + " --json " + json);
  if (output.empty()) return -1;
  const auto rows = nlohmann::json::parse(std::ifstream(json)).at("rows");
  return rows.at(0).at("time_us").get<double>();
}

using Samples = std::map<std::string, std::vector<double>>;  // by side

Samples MeasureAll(const std::vector<Side>& sides, const Length& length,
                   size_t bytes, int pairs, const std::string& json) {
  Samples samples;
  for (int pair = 0; pair < pairs; ++pair) {
    for (const Side& side : sides) {
      const double sample = Measure(side, length, bytes, json);
      if (sample >= 0) samples[side.name].push_back(sample);
    }
  }
  return samples;
}

void PrintSamples(const std::vector<double>& samples) {
  if (samples.empty()) {
    std::printf(" %22s", "failed");
    return;
  }
  const auto [least, most] =
      std::minmax_element(samples.begin(), samples.end());
  std::printf(" %8.2f (%4.2f - %5.2f)", Median(samples), *least, *most);
}

// The median of the better MPI; 0 if none was measured.
double BetterMpi(const std::vector<Side>& sides, const Samples& samples) {
  double better = 0;
  for (const Side& side : sides) {
    if (!side.is_mpi || samples.count(side.name) == 0) continue;
    const double median = Median(samples.at(side.name));
    better = better == 0 ? median : std::min(better, median);
  }
  return better;
}

bool HasMpi(const std::vector<Side>& sides) {
  return std::any_of(sides.begin(), sides.end(),
                     [](const Side& side) { return side.is_mpi; });
}

int Main(int argc, char** argv) {
  const int pairs = argc > 1 ? std::atoi(argv[1]) : 15;
  if (pairs < 1) {
    std::fprintf(stderr, "small_messages_bench: '%s' is no number of pairs\n",
                 argv[1]);
    return 2;
  }
  const std::vector<Side> sides = Sides();
  if (!HasMpi(sides)) {
    std::printf("neither MPICH nor Open MPI is installed\n");
    return 77;
  }
  std::string json =
      std::filesystem::temp_directory_path() / "lockstep-small-XXXXXX";
  if (mkstemp(json.data()) < 0) {
    std::perror("mkstemp");
    return 1;
  }
  std::printf("us per call, median (least - most) of %d\n%-6s %6s", pairs, "",
              "bytes");
  for (const Side& side : sides) std::printf(" %22s", side.name);
  std::printf("\n");
  std::vector<Figure> figures;
  for (const Length& length : kLengths) {
    for (const size_t bytes : kSizes) {
      Samples samples = MeasureAll(sides, length, bytes, pairs, json);
      std::printf("%-6s %6zu", length.name, bytes);
      for (const Side& side : sides) PrintSamples(samples[side.name]);
      std::printf("\n");
      std::fflush(stdout);
      std::erase_if(samples,
                    [](const auto& side) { return side.second.empty(); });
      const double better = BetterMpi(sides, samples);
      if (better == 0 || samples.count("arena") == 0) continue;
      figures.push_back({std::string("arena / the better MPI, ") + length.name +
                             ", " + std::to_string(bytes) + " bytes",
                         1.5, Median(samples["arena"]) / better,
                         /*at_most=*/true});
    }
  }
  std::filesystem::remove(json);
  Print(figures);
  return 0;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) { return lockstep::bench::Main(argc, argv); }
