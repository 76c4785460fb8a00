#include "bench/data_plane/oversubscribed.h"

#include <map>
#include <string>
#include <vector>

namespace lockstep::bench {
namespace {

constexpr size_t kKiB = 1 << 10;
constexpr size_t kMiB = 1 << 20;

struct Size {
  size_t bytes;
  std::string name;
};
const Size kSizes[] = {{64 * kKiB, "64 KiB"},
                       {kMiB, "1 MiB"},
                       {16 * kMiB, "16 MiB"},
                       {64 * kMiB, "64 MiB"}};

// The measurements of each round, by name.
class Rounds {
 public:
  void Add(const std::string& what, double seconds) {
    all_[what].push_back(seconds);
  }
  double Middle(const std::string& what) const { return Median(all_.at(what)); }
  void AddTo(Report& report) const {
    for (const auto& [what, seconds] : all_) {
      report.single[what] = Median(seconds);
    }
  }

 private:
  std::map<std::string, std::vector<double>> all_;
};

Times InArena(int ranks, bool pinned, std::vector<size_t> sizes) {
  return Sweep(Shared(/*in_arena=*/true),
               {.ranks = ranks, .pinned = pinned, .sizes = std::move(sizes)});
}

const char kLine[] = "cache line, round trip";
const char kPipe[] = "pipe, round trip";
const char kPinned[] = "8 bytes, 2 pinned ranks";

std::string ManyRanks(const std::string& size) {
  return size + ", " + std::to_string(kManyRanks) + " ranks";
}

std::string OnThreads(const std::string& size) {
  return size + ", " + std::to_string(kManyRanks) +
         " ranks' loops on 2 threads";
}

// The same loops of many ranks without synchronisation: bounded by caches and
// memory.
constexpr int kEach = kManyRanks / 2;
Times OnTwoThreads() {
  std::vector<size_t> sizes;
  for (const Size& size : kSizes) sizes.push_back(kEach * size.bytes);
  return Sweep(Handover(kEach),
               {.ranks = 2, .pinned = true, .sizes = std::move(sizes)});
}

void MeasureRound(Rounds& rounds) {
  rounds.Add(kLine, CacheLineRoundTrip());
  rounds.Add(kPinned, InArena(2, /*pinned=*/true, {8})[8]);
  rounds.Add(kPipe, PipeRoundTrip());
  std::vector<size_t> sizes = {8};
  for (const Size& size : kSizes) sizes.push_back(size.bytes);
  Times two = InArena(2, /*pinned=*/false, sizes);
  Times many = InArena(kManyRanks, /*pinned=*/false, sizes);
  Times nobody_waits = OnTwoThreads();
  rounds.Add(ManyRanks("8 bytes"), many[8]);
  for (const Size& size : kSizes) {
    rounds.Add(size.name + ", 2 ranks", two[size.bytes]);
    rounds.Add(ManyRanks(size.name), many[size.bytes]);
    rounds.Add(OnThreads(size.name), nobody_waits[kEach * size.bytes]);
  }
}

}  // namespace

void MeasureOversubscribed(int rounds, Report& report) {
  Rounds all;
  for (int round = 0; round < rounds; ++round) MeasureRound(all);
  all.AddTo(report);
  report.figures.push_back({"8 bytes, 2 pinned ranks, in cache line trips", 5,
                            all.Middle(kPinned) / all.Middle(kLine), true});
  report.figures.push_back(
      {"8 bytes, 8 ranks, in pipe round trips", 6,
       all.Middle(ManyRanks("8 bytes")) / all.Middle(kPipe), true});
  for (const Size& size : kSizes) {
    const double two = all.Middle(size.name + ", 2 ranks");
    report.figures.push_back(
        {"ranks x bytes a second, 8 ranks / 2, " + size.name, 0.8,
         kManyRanks * two / (2 * all.Middle(ManyRanks(size.name)))});
    report.figures.push_back(
        {"  what memory allows: their loops on 2 threads, " + size.name, 0,
         kManyRanks * two / (2 * all.Middle(OnThreads(size.name)))});
  }
}

}  // namespace lockstep::bench
