#include "bench/data_plane/sweep.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <sstream>

#include "bench/figures.h"
#include "bench/shared_memory.h"
#include "tools/perf/processes.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kIterationsMin = 7;
constexpr int kIterationsMax = 2000;
constexpr size_t kTimesMax = 64;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Memory that the ranks share in addition to that of the side under test.
struct Common : Barrier {
  std::atomic<int> iterations{0};
  size_t bytes[kTimesMax] = {};
  double seconds[kTimesMax] = {};
  size_t times = 0;
};

void PinTo(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  sched_setaffinity(0, sizeof set, &set);
}

class RankSweep {
 public:
  RankSweep(int rank, const SweepOptions& options, Common& common, Side& side)
      : rank_(rank), options_(options), common_(common), side_(side) {}

  void Run() {
    for (size_t bytes : options_.sizes) {
      const double seconds = TimeOf(bytes);
      if (rank_ != 0) continue;
      common_.bytes[common_.times] = bytes;
      common_.seconds[common_.times++] = seconds;
    }
  }

 private:
  double TimeOf(size_t bytes) {
    data_ = side_.Prepare(bytes);
    count_ = bytes / sizeof(float);
    for (int i = 0; i < 2; ++i) Once();
    // Rank 0 determines the number of further iterations for all ranks.
    const double one = Once();
    if (rank_ == 0) {
      common_.iterations =
          std::clamp(static_cast<int>(options_.seconds / (one + 1e-9)),
                     kIterationsMin, kIterationsMax);
    }
    common_.Wait(options_.ranks);
    const int iterations = common_.iterations;
    std::vector<double> seconds;
    for (int i = 0; i < iterations; ++i) seconds.push_back(Once());
    return Median(seconds);
  }

  double Once() {
    std::fill_n(data_, count_, 1.0f + static_cast<float>(rank_));
    common_.Wait(options_.ranks);
    const auto begin = Clock::now();
    side_.Run();
    const double seconds = SecondsSince(begin);
    common_.Wait(options_.ranks);
    return seconds;
  }

  const int rank_;
  const SweepOptions& options_;
  Common& common_;
  Side& side_;
  float* data_ = nullptr;
  size_t count_ = 0;
};

}  // namespace

Times Sweep(const MakeSide& make, const SweepOptions& options) {
  const SharedMemory<Common> common;
  const int failed =
      perf::RunRanks(options.ranks, [&](int rank, perf::HandlePipes& exchange) {
        if (options.pinned) PinTo(rank % 2);
        const auto side =
            make(rank, options.ranks, [&](const std::string& own) {
              return *exchange.Exchange(own, options.ranks);
            });
        RankSweep(rank, options, *common, *side).Run();
        return 0;
      });
  Times times;
  for (size_t i = 0; failed == 0 && i < common->times; ++i) {
    times[common->bytes[i]] = common->seconds[i];
  }
  return times;
}

Times SweepOfMpi(const std::string& launcher, const std::string& program,
                 const SweepOptions& options) {
  std::ostringstream command;
  command << launcher << " -n " << options.ranks << " " << program << " "
          << options.seconds;
  for (size_t bytes : options.sizes) command << " " << bytes;
  command << " 2>/dev/null";
  std::FILE* const pipe = popen(command.str().c_str(), "r");
  Times times;
  if (pipe == nullptr) return times;
  size_t bytes = 0;
  double seconds = 0;
  while (std::fscanf(pipe, "%zu %lf", &bytes, &seconds) == 2) {
    times[bytes] = seconds;
  }
  return pclose(pipe) == 0 ? times : Times();
}

// --- Round trips
// --------------------------------------------------------------

namespace {

// Returns the median duration of `trip` on rank 0.
double RoundTrip(bool pinned, int trips, const std::function<void(int)>& trip) {
  const SharedMemory<Common> common;
  perf::RunRanks(2, [&](int rank, perf::HandlePipes&) {
    if (pinned) PinTo(rank);
    common->Wait(2);
    std::vector<double> seconds;
    for (int i = 0; i < trips; ++i) {
      const auto begin = Clock::now();
      trip(rank);
      seconds.push_back(SecondsSince(begin));
    }
    if (rank == 0) common->seconds[0] = Median(seconds);
    return 0;
  });
  return common->seconds[0];
}

}  // namespace

double CacheLineRoundTrip() {
  struct Lines {
    alignas(128) std::atomic<int> there{0};
    alignas(128) std::atomic<int> back{0};
  };
  void* const memory = mmap(nullptr, sizeof(Lines), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Lines& lines = *new (memory) Lines;
  // In batches, because reading the clock costs a large part of one iteration.
  constexpr int kBatch = 100;
  return RoundTrip(/*pinned=*/true, 500,
                   [&, next = 0](int rank) mutable {
                     for (int i = 0; i < kBatch; ++i) {
                       ++next;
                       if (rank == 0) {
                         lines.there = next;
                         while (lines.back.load() != next) continue;
                       } else {
                         while (lines.there.load() != next) continue;
                         lines.back = next;
                       }
                     }
                   }) /
         kBatch;
}

double PipeRoundTrip() {
  int there[2];
  int back[2];
  if (pipe(there) != 0 || pipe(back) != 0) std::abort();
  return RoundTrip(/*pinned=*/false, 2000, [&](int rank) {
    char c = 0;
    const bool first = rank == 0;
    const auto moved = first ? write(there[1], &c, 1) + read(back[0], &c, 1)
                             : read(there[0], &c, 1) + write(back[1], &c, 1);
    if (moved != 2) std::abort();
  });
}

}  // namespace lockstep::bench
