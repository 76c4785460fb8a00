// Halo exchanges of two pinned ranks on one host: `./run bench halo`.
//
//   halo_bench [SAMPLES]      (default 15)
//
// Rows: each rank writes the edge rows of its block, in the arena, and gets
// those of the other one: once by a HaloExchange in place, once by a loop
// written by hand over the same memory layout: raise a flag, wait for the other
// one's, copy its rows, and wait until it has copied ours. Samples alternate;
// ratios are of medians.
//
// Overlap: rank 1 begins late, by half the time of the interior. What rank 0
// waits after an interior that it computed between Start and Wait is compared
// with what a Forward before the interior waits.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/cpu_affinity.h"
#include "bench/figures.h"
#include "bench/shared_memory.h"
#include "client/halo/halo_exchange_impl.h"
#include "client/transport/shm/shm.h"
#include "tools/perf/processes.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRanks = 2;
constexpr int kSamplesMax = 101;
constexpr size_t kHaloBytes[] = {4 << 10, 64 << 10, 256 << 10, 1 << 20};
constexpr int kSizes = std::size(kHaloBytes);
constexpr size_t kHaloBytesMax = 1 << 20;
constexpr int64_t kRows = 4;  // of a block; a halo is one row
constexpr double kInteriorSeconds = 4e-3;
constexpr int kOverlapRounds = 40;

struct alignas(64) Flag {
  std::atomic<uint64_t> reached{0};
};

// What a hand-written program would share: the edge row of each rank.
struct Shared {
  Barrier barrier;
  Flag written[kRanks], copied[kRanks];
  alignas(4096) std::byte rows[kRanks][kHaloBytesMax];
  double ours[kSizes][kSamplesMax], by_hand[kSizes][kSamplesMax];
  double blocking_wait, overlapped_wait;
};

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void SpinUntil(const Flag& flag, uint64_t value) {
  while (flag.reached.load(std::memory_order_acquire) < value) {
  }
}

void Compute(double seconds) {
  const auto begin = Clock::now();
  while (SecondsSince(begin) < seconds) {
  }
}

absl::Status Pin(int rank) {
  const std::optional<cpu_set_t> cores = AllowedCores();
  const bool bound = cores && RunOn(ShareOfCores(*cores, rank, kRanks));
  return bound ? absl::OkStatus()
               : absl::UnavailableError("the rank cannot be bound to a core");
}

class BenchRank {
 public:
  BenchRank(int rank, Shared& shared) : rank_(rank), shared_(shared) {}

  absl::Status Connect(perf::HandlePipes& pipes) {
    if (absl::Status pinned = Pin(rank_); !pinned.ok()) return pinned;
    transport_ = transport::MakeShmTransport();
    arena_ = transport_->MakeArena();
    auto pending =
        transport_->Prepare({.name = "halo", .rank = rank_, .size = kRanks});
    if (!pending.ok()) return pending.status();
    const auto handles = pipes.Exchange((*pending)->handle(), kRanks);
    if (!handles.ok()) return handles.status();
    auto communicator = (*pending)->Connect(*handles, absl::Seconds(60));
    if (!communicator.ok()) return communicator.status();
    communicator_ = *std::move(communicator);
    return absl::OkStatus();
  }

  // Rows of `bytes`, of which each rank needs one of the other.
  absl::Status MakeField(size_t bytes) {
    const HaloSpec spec{
        .name = "bench",
        .tensors = {{.dtype = DType::kU8,
                     .shape = {kRows, static_cast<int64_t>(bytes)},
                     .dims = {{.dim = 0,
                               .axis = "y",
                               .low = 1,
                               .high = 1,
                               .edge = HaloEdge::kNone}}}}};
    auto exchange = halo::MakeExchange(
        {{{"y", kRanks}}}, {spec, spec}, *communicator_,
        transport::MakeHostDeviceContext(),
        [this](size_t size) { return arena_->Allocate(size); });
    if (!exchange.ok()) return exchange.status();
    exchange_ = *std::move(exchange);
    auto padded = arena_->Allocate((kRows + 1) * bytes);
    if (!padded.ok()) return padded.status();
    padded_ = *std::move(padded);
    row_bytes_ = bytes;
    return absl::OkStatus();
  }

  // Seconds of one exchange, after the own edge row is written.
  absl::StatusOr<double> Ours(int turns) {
    // Rank 0 has the halo below its block, rank 1 above.
    std::byte* const edge =
        padded_.data() + (rank_ == 0 ? kRows - 1 : 1) * row_bytes_;
    shared_.barrier.Wait(kRanks);
    double seconds = 0;
    for (int turn = 0; turn < turns; ++turn) {
      std::memset(edge, turn, row_bytes_);
      const auto begin = Clock::now();
      absl::Status done = exchange_->RunAndWait(
          plan::HaloPass::kForward,
          {.padded = {padded_.data()}, .blocks = {nullptr}});
      seconds += SecondsSince(begin);
      if (!done.ok()) return done;
      const std::byte* const halo =
          padded_.data() + (rank_ == 0 ? kRows : 0) * row_bytes_;
      if (halo[0] != std::byte(turn) || halo[row_bytes_ - 1] != halo[0]) {
        return absl::DataLossError("a halo has the wrong cells");
      }
    }
    return seconds / turns;
  }

  double ByHand(int turns) {
    const int other = 1 - rank_;
    std::byte* const halo =
        padded_.data() + (rank_ == 0 ? kRows : 0) * row_bytes_;
    shared_.barrier.Wait(kRanks);
    double seconds = 0;
    for (int turn = 0; turn < turns; ++turn) {
      std::memset(shared_.rows[rank_], turn, row_bytes_);
      const auto begin = Clock::now();
      const uint64_t number = ++turn_;
      shared_.written[rank_].reached.store(number, std::memory_order_release);
      SpinUntil(shared_.written[other], number);
      std::memcpy(halo, shared_.rows[other], row_bytes_);
      shared_.copied[rank_].reached.store(number, std::memory_order_release);
      SpinUntil(shared_.copied[other], number);
      seconds += SecondsSince(begin);
    }
    return seconds / turns;
  }

  // The mean wait of rank 0 while rank 1 is late by half the interior.
  absl::StatusOr<double> WaitOf(bool overlapped) {
    double waited = 0;
    for (int round = 0; round < kOverlapRounds; ++round) {
      shared_.barrier.Wait(kRanks);
      if (rank_ == 1) Compute(kInteriorSeconds / 2);
      const HaloExchange::Impl::PassMemory memory{.padded = {padded_.data()},
                                                  .blocks = {nullptr}};
      auto begin = Clock::now();
      if (overlapped) {
        auto pending = exchange_->Start(plan::HaloPass::kForward, memory, {});
        if (!pending.ok()) return pending.status();
        Compute(kInteriorSeconds);
        begin = Clock::now();
        if (absl::Status done = pending->Wait(); !done.ok()) return done;
        waited += SecondsSince(begin);
      } else {
        absl::Status done =
            exchange_->RunAndWait(plan::HaloPass::kForward, memory);
        waited += SecondsSince(begin);
        if (!done.ok()) return done;
        Compute(kInteriorSeconds);
      }
    }
    return waited / kOverlapRounds;
  }

 private:
  const int rank_;
  Shared& shared_;
  std::unique_ptr<transport::Transport> transport_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Communicator> communicator_;
  std::shared_ptr<HaloExchange::Impl> exchange_;
  ArenaBuffer padded_;
  size_t row_bytes_ = 0;
  uint64_t turn_ = 0;
};

absl::Status RunBench(int rank, perf::HandlePipes& pipes, int samples,
                      Shared& shared) {
  BenchRank self(rank, shared);
  absl::Status status = self.Connect(pipes);
  for (int size = 0; status.ok() && size < kSizes; ++size) {
    status = self.MakeField(kHaloBytes[size]);
    const int turns = static_cast<int>(
        std::clamp<size_t>((8 << 20) / kHaloBytes[size], 50, 1000));
    for (int sample = -2; status.ok() && sample < samples; ++sample) {
      const double by_hand = self.ByHand(turns);
      const auto ours = self.Ours(turns);
      if (!ours.ok()) return ours.status();
      if (rank != 0 || sample < 0) continue;
      shared.by_hand[size][sample] = by_hand;
      shared.ours[size][sample] = *ours;
    }
  }
  if (!status.ok()) return status;
  status = self.MakeField(kHaloBytes[1]);
  if (!status.ok()) return status;
  const auto blocking = self.WaitOf(/*overlapped=*/false);
  if (!blocking.ok()) return blocking.status();
  const auto overlapped = self.WaitOf(/*overlapped=*/true);
  if (!overlapped.ok()) return overlapped.status();
  if (rank == 0) shared.blocking_wait = *blocking;
  if (rank == 0) shared.overlapped_wait = *overlapped;
  return absl::OkStatus();
}

double MedianOf(const double* values, int samples) {
  return Median({values, values + samples});
}

void PrintFigures(const Shared& shared, int samples) {
  std::vector<Figure> figures;
  for (int size = 0; size < kSizes; ++size) {
    const double ours = MedianOf(shared.ours[size], samples);
    const double by_hand = MedianOf(shared.by_hand[size], samples);
    const std::string what =
        std::to_string(kHaloBytes[size] >> 10) + " KiB rows in the arena";
    const bool is_small = kHaloBytes[size] < (64 << 10);
    figures.push_back({what + ", us a side", is_small ? 3.0 : 0, ours * 1e6,
                       /*at_most=*/true});
    figures.push_back({what + " / by hand", is_small ? 0 : 1.5, ours / by_hand,
                       /*at_most=*/true});
  }
  figures.push_back({"share of a late rank's wait that is hidden", 0.9,
                     1 - shared.overlapped_wait / shared.blocking_wait});
  figures.push_back(
      {"  the wait without overlap, us", 0, shared.blocking_wait * 1e6});
  Print(figures);
}

int Main(int argc, char** argv) {
  const int samples = argc > 1 ? std::atoi(argv[1]) : 15;
  if (argc > 2 || samples < 1 || samples > kSamplesMax) {
    std::fprintf(stderr, "usage: halo_bench [SAMPLES, 1 to %d]\n", kSamplesMax);
    return 2;
  }
  const SharedMemory<Shared> shared;
  const int failed =
      perf::RunRanks(kRanks, [&](int rank, perf::HandlePipes& pipes) {
        const absl::Status ran = RunBench(rank, pipes, samples, *shared);
        if (!ran.ok()) {
          std::fprintf(stderr, "halo_bench: rank %d: %s\n", rank,
                       ran.ToString().c_str());
        }
        return ran.ok() ? 0 : 1;
      });
  if (failed == 0) PrintFigures(*shared, samples);
  return failed;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) { return lockstep::bench::Main(argc, argv); }
