#include "bench/data_plane/hosts.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::bench {
namespace {

constexpr size_t kKiB = 1 << 10;
constexpr size_t kMiB = 1 << 20;
const std::vector<std::pair<size_t, std::string>> kSizes = {
    {4 * kKiB, "4 KiB"},
    {256 * kKiB, "256 KiB"},
    {4 * kMiB, "4 MiB"},
    {64 * kMiB, "64 MiB"}};

const char kGloo[] = "4 ranks, Gloo";
const char kFlat[] = "4 ranks, our Gloo";
const char kPrivate[] = "2 hosts x 2 ranks";
const char kArena[] = "2 hosts x 2 ranks, in arena";

// Seconds of each round, by side and size.
using Rounds = std::map<std::string, std::map<size_t, std::vector<double>>>;

void MeasureRound(Rounds& rounds) {
  SweepOptions options{.ranks = kRanksOnHosts};
  for (const auto& [bytes, name] : kSizes) options.sizes.push_back(bytes);
  const std::vector<std::pair<std::string, MakeSide>> sides = {
      {kGloo, GlooItself()},
      {kFlat, OverGloo()},
      {kPrivate, OverHosts(kHosts, /*in_arena=*/false)},
      {kArena, OverHosts(kHosts, /*in_arena=*/true)}};
  for (const auto& [name, make] : sides) {
    for (auto [bytes, seconds] : Sweep(make, options)) {
      rounds[name][bytes].push_back(seconds);
    }
  }
}

double Ratio(Rounds& rounds, const char* ours, const char* theirs,
             size_t bytes) {
  return Median(rounds[theirs][bytes]) / Median(rounds[ours][bytes]);
}

}  // namespace

void MeasureHosts(int rounds, Report& report) {
  Rounds all;
  for (int round = 0; round < rounds; ++round) MeasureRound(all);
  for (const auto& [side, times] : all) {
    for (const auto& [bytes, name] : kSizes) {
      report.single[name + ", " + side] = Median(times.at(bytes));
    }
  }
  for (const auto& [bytes, name] : kSizes) {
    for (const char* ours : {kPrivate, kArena}) {
      report.figures.push_back({std::string(ours) + " / flat Gloo, " + name,
                                1.5, Ratio(all, ours, kGloo, bytes)});
    }
  }
}

}  // namespace lockstep::bench
