// The data plane compared to other libraries, in one run:
// `./run bench data-plane`.
//
//   data_plane_bench [ROUNDS [MAX_MIB [SIDE ...]]]
//
// Default: 7 rounds, up to 256 MiB, all sides. With SIDEs, for tuning, only
// those run, and no file is written. `oversubscribed` measures the smallest
// sizes and more ranks than cores, `hosts` groups over two hosts.
//
// Sides that use memory only have ranks pinned to cores; sides that use the
// kernel or a launcher are not pinned. Each round runs the whole sweep of every
// side in turn, in separate processes, so that changes of the machine affect
// all sides. The exit code is 0 whether or not figures are reached; the output
// states it.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "bench/data_plane/hosts.h"
#include "bench/data_plane/oversubscribed.h"
#include "bench/data_plane/report.h"
#include "bench/data_plane/sweep.h"

namespace lockstep::bench {
namespace {

constexpr size_t kKiB = 1 << 10;
constexpr size_t kMiB = 1 << 20;

std::string OwnFolder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

// The median over the rounds.
class Rounds {
 public:
  void Add(const std::string& side, const Times& times) {
    for (auto [bytes, seconds] : times) all_[side][bytes].push_back(seconds);
  }
  Times Medians(const std::string& side) const {
    Times medians;
    const auto at = all_.find(side);
    if (at == all_.end()) return medians;
    for (const auto& [bytes, seconds] : at->second) {
      medians[bytes] = Median(seconds);
    }
    return medians;
  }

 private:
  std::map<std::string, std::map<size_t, std::vector<double>>> all_;
};

struct NamedSide {
  std::string name;
  std::function<Times(const SweepOptions&)> sweep;
};

std::vector<NamedSide> Sides() {
  const auto own = [](const MakeSide& make, bool pinned) {
    return [make, pinned](SweepOptions options) {
      options.pinned = pinned;
      return Sweep(make, options);
    };
  };
  const auto mpi = [](const std::string& name, const std::string& flags) {
    const std::string program = OwnFolder() + "/mpi_side_" + name;
    return [=](const SweepOptions& options) {
      if (!std::filesystem::exists(program)) return Times();
      return SweepOfMpi("mpirun." + name + flags, program, options);
    };
  };
  return {{"limit", own(Limit(), true)},
          {"handover", own(Handover(/*buffers=*/1), true)},
          {"memcpy", own(Copy(), true)},
          {"arena", own(Shared(/*in_arena=*/true), true)},
          {"private", own(Shared(/*in_arena=*/false), true)},
          {"gloo", own(GlooItself(), false)},
          {"over gloo", own(OverGloo(), false)},
          {"mpich", mpi("mpich", "")},
          {"openmpi", mpi("openmpi", " --allow-run-as-root --bind-to none")}};
}

// The speedup of `ours` over `theirs` at the worst size in [from, to].
double WorstRatio(const Times& ours, const Times& theirs, size_t from,
                  size_t to) {
  double worst = 1e9;
  for (auto [bytes, seconds] : ours) {
    const auto at = theirs.find(bytes);
    if (bytes < from || bytes > to || at == theirs.end()) continue;
    worst = std::min(worst, at->second / seconds);
  }
  return worst == 1e9 ? 0 : worst;
}

Times Faster(const Times& a, const Times& b) {
  Times faster = a;
  for (auto [bytes, seconds] : b) {
    auto [at, first] = faster.try_emplace(bytes, seconds);
    at->second = std::min(at->second, seconds);
  }
  return faster;
}

void AddFigures(Report& report) {
  const auto side = [&](const char* name) { return report.sides.at(name); };
  const Times limit = side("limit"), arena = side("arena"),
              own = side("private"), gloo = side("gloo");
  const Times mpi = Faster(side("mpich"), side("openmpi"));
  const auto add = [&](const char* what, double promised, const Times& ours,
                       const Times& theirs, size_t from, size_t to) {
    report.figures.push_back(
        {what, promised, WorstRatio(ours, theirs, from, to)});
  };
  const size_t all = SIZE_MAX;
  add("arena / limit, 4-256 MiB", 0.85, arena, limit, 4 * kMiB, all);
  add("arena / limit, 1 MiB", 0.60, arena, limit, kMiB, kMiB);
  add("arena / Gloo, 1-64 MiB", 15, arena, gloo, kMiB, 64 * kMiB);
  add("arena / Gloo, 256 MiB", 10, arena, gloo, 256 * kMiB, all);
  add("  what the limit allows: limit / Gloo, 1-64 MiB", 0, limit, gloo, kMiB,
      64 * kMiB);
  add("  what the limit allows: limit / Gloo, 256 MiB", 0, limit, gloo,
      256 * kMiB, all);
  add("arena / Gloo, up to 64 KiB", 30, arena, gloo, 0, 64 * kKiB);
  add("arena / the better MPI, from 1 MiB", 4, arena, mpi, kMiB, all);
  add("private / Gloo, from 16 MiB", 4, own, gloo, 16 * kMiB, all);
  add("private / the better MPI, from 16 MiB", 1.5, own, mpi, 16 * kMiB, all);
  add("private / the better MPI, from 256 KiB", 1, own, mpi, 256 * kKiB, all);
  add("Communicator over Gloo / Gloo, from 1 MiB", 0.97, side("over gloo"),
      gloo, kMiB, all);
}

int Main(int argc, char** argv) {
  Report report{.rounds = argc > 1 ? std::atoi(argv[1]) : 7};
  const size_t most = (argc > 2 ? std::atoi(argv[2]) : 256) * kMiB;
  SweepOptions options;
  for (size_t bytes = kKiB; bytes <= most; bytes *= 4) {
    options.sizes.push_back(bytes);
  }
  Rounds rounds;
  const std::vector<std::string> wanted(argv + std::min(argc, 3), argv + argc);
  const auto wants = [&](const std::string& name) {
    return wanted.empty() ||
           std::find(wanted.begin(), wanted.end(), name) != wanted.end();
  };
  std::vector<NamedSide> sides = Sides();
  std::erase_if(sides,
                [&](const NamedSide& side) { return !wants(side.name); });
  for (int round = 0; round < report.rounds; ++round) {
    for (const NamedSide& side : sides) {
      std::printf("\rround %d of %d: %-12s", round + 1, report.rounds,
                  side.name.c_str());
      std::fflush(stdout);
      rounds.Add(side.name, side.sweep(options));
    }
  }
  for (const NamedSide& side : sides) {
    report.order.push_back(side.name);
    report.sides[side.name] = rounds.Medians(side.name);
  }
  if (wanted.empty()) AddFigures(report);
  if (wants("oversubscribed")) MeasureOversubscribed(report.rounds, report);
  if (wants("hosts")) MeasureHosts(report.rounds, report);
  Print(report);
  if (!wanted.empty()) return 0;
  const std::string path = "bench/results/data_plane";
  if (!std::filesystem::exists("bench")) return 0;  // not in the repository
  std::filesystem::create_directories("bench/results");
  if (!Write(report, path)) {
    std::fprintf(stderr, "cannot write %s.json\n", path.c_str());
    return 1;
  }
  std::printf("\nwritten: %s.json, %s.svg\n", path.c_str(), path.c_str());
  return 0;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) { return lockstep::bench::Main(argc, argv); }
