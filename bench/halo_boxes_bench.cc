// Halos that are not contiguous, of two pinned ranks on one host, in the arena:
// `./run bench halo-boxes`.
//
//   halo_boxes_bench [SAMPLES]      (default 15)
//
// Each rank writes the cells that the other one needs, and exchanges in place:
// once with the transport's boxes, once with a communicator that moves none, so
// that the ranks pack, copy the message and unpack it. Samples alternate;
// figures are medians.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/cpu_affinity.h"
#include "bench/figures.h"
#include "bench/shared_memory.h"
#include "client/halo/halo_exchange_impl.h"
#include "client/transport/shm/shm.h"
#include "kernels/constant.h"
#include "kernels/strided_box.h"
#include "tests/support/forwarding_communicator.h"
#include "tools/perf/processes.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRanks = 2;
constexpr int kSamplesMax = 101;

struct Case {
  const char* what;
  std::vector<int64_t> block;
  int cut;  // dimension
  int64_t width;
  double promised;
  plan::HaloPass pass = plan::HaloPass::kForward;
};

// f32. The runs: what is contiguous in the sender's tensor. Short ones are
// packed in both ways, but unpacked from the sender's buffer in one of them.
const std::vector<Case>& Cases() {
  static const auto* const cases = new std::vector<Case>{
      {"[64,64], 2 columns (runs of 8 B)", {64, 64}, 1, 2, 0.9},
      {"[1024,1024], 1 column (4 B)", {1024, 1024}, 1, 1, 0.9},
      {"[1024,1024], 4 columns (16 B)", {1024, 1024}, 1, 4, 0.9},
      {"[1024,1024], 12 columns (48 B)", {1024, 1024}, 1, 12, 0.9},
      {"[1024,1024], 16 columns (64 B)", {1024, 1024}, 1, 16, 1.5},
      {"[1024,1024], 64 columns (256 B)", {1024, 1024}, 1, 64, 1.5},
      {"[8,16,64,64], 1 row (256 B)", {8, 16, 64, 64}, 2, 1, 1.5},
      {"[2,16,256,256], 1 row (1 KiB)", {2, 16, 256, 256}, 2, 1, 1.5},
      {"[8,32,64,256], 2 rows (2 KiB)", {8, 32, 64, 256}, 2, 2, 1.5},
      {"[1,3,1024,1024], 4 rows (16 KiB)", {1, 3, 1024, 1024}, 2, 4, 1.5},
      {"[8,32,64,256], gradients of 2 rows",
       {8, 32, 64, 256},
       2,
       2,
       1.0,
       plan::HaloPass::kAdjoint},
  };
  return *cases;
}
constexpr int kCasesMax = 16;

struct Shared {
  Barrier barrier;
  double boxes[kCasesMax][kSamplesMax], packed[kCasesMax][kSamplesMax];
};

class NoBoxes final : public ForwardingCommunicator {
 public:
  explicit NoBoxes(std::shared_ptr<Communicator> inner)
      : ForwardingCommunicator(std::move(inner)) {}
  bool MovesBoxes() const override { return false; }
};

int64_t Product(const std::vector<int64_t>& extents) {
  int64_t product = 1;
  for (const int64_t extent : extents) product *= extent;
  return product;
}

class BenchRank {
 public:
  BenchRank(int rank, Shared& shared) : rank_(rank), shared_(shared) {}

  absl::Status Connect(perf::HandlePipes& pipes) {
    const std::optional<cpu_set_t> cores = AllowedCores();
    if (!cores || !RunOn(ShareOfCores(*cores, rank_, kRanks))) {
      return absl::UnavailableError("the rank cannot be bound to a core");
    }
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
    packing_ = std::make_unique<NoBoxes>(communicator_);
    return absl::OkStatus();
  }

  // Rank 0 has its halo behind the block, rank 1 before it.
  absl::Status MakeField(const Case& field) {
    const HaloSpec spec{.name = "bench",
                        .tensors = {{.dtype = DType::kF32,
                                     .shape = field.block,
                                     .dims = {{.dim = field.cut,
                                               .axis = "y",
                                               .low = field.width,
                                               .high = field.width,
                                               .edge = HaloEdge::kNone}}}}};
    for (const bool boxes : {false, true}) {
      auto exchange = halo::MakeExchange(
          {{{"y", kRanks}}}, {spec, spec}, boxes ? *communicator_ : *packing_,
          transport::MakeHostDeviceContext(),
          [this](size_t size) { return arena_->Allocate(size); });
      if (!exchange.ok()) return exchange.status();
      exchanges_[boxes] = *std::move(exchange);
    }
    std::vector<int64_t> shape = field.block;
    shape[field.cut] += field.width;
    auto padded =
        arena_->Allocate(static_cast<size_t>(Product(shape)) * sizeof(float));
    if (!padded.ok()) return padded.status();
    padded_ = *std::move(padded);
    pass_ = field.pass;
    edge_ = StripAt(
        field, shape,
        rank_ == 0 ? field.block[field.cut] - field.width : field.width);
    halo_ = StripAt(field, shape, rank_ == 0 ? field.block[field.cut] : 0);
    return absl::OkStatus();
  }

  // Seconds of one exchange, after the cells that the other rank needs are
  // written.
  absl::StatusOr<double> Exchange(bool boxes, int turns) {
    shared_.barrier.Wait(kRanks);
    double seconds = 0;
    for (int turn = 0; turn < turns; ++turn) {
      const bool forward = pass_ == plan::HaloPass::kForward;
      kernels::BoxFill& sent = forward ? edge_ : halo_;
      kernels::WriteConstant(turn, DType::kF32, sent.value);
      void* const memory[] = {padded_.data()};
      kernels::FillBoxes({&sent, 1}, memory);
      const auto begin = Clock::now();
      absl::Status done = exchanges_[boxes]->RunAndWait(
          pass_, {.padded = {padded_.data()}, .blocks = {nullptr}});
      seconds += std::chrono::duration<double>(Clock::now() - begin).count();
      if (!done.ok()) return done;
      if (!forward) continue;  // sums grow
      const float got =
          *reinterpret_cast<const float*>(padded_.data() + halo_.out_offset);
      if (got != static_cast<float>(turn)) {
        return absl::DataLossError("a halo has the wrong cells");
      }
    }
    return seconds / turns;
  }

 private:
  static kernels::BoxFill StripAt(const Case& field,
                                  const std::vector<int64_t>& shape,
                                  int64_t begin) {
    kernels::BoxFill strip{.dtype = DType::kF32,
                           .dims = static_cast<int>(shape.size())};
    int64_t stride = 1;
    for (int d = strip.dims; d-- > 0;) {
      strip.counts[d] = d == field.cut ? field.width : shape[d];
      strip.out_strides[d] = stride;
      if (d == field.cut) {
        strip.out_offset = begin * stride * int64_t{sizeof(float)};
      }
      stride *= shape[d];
    }
    return strip;
  }

  const int rank_;
  Shared& shared_;
  std::unique_ptr<transport::Transport> transport_;
  std::unique_ptr<Arena> arena_;
  std::shared_ptr<Communicator> communicator_;
  std::unique_ptr<NoBoxes> packing_;
  std::shared_ptr<HaloExchange::Impl> exchanges_[2];
  ArenaBuffer padded_;
  plan::HaloPass pass_ = plan::HaloPass::kForward;
  kernels::BoxFill edge_, halo_;
};

absl::Status RunBench(int rank, perf::HandlePipes& pipes, int samples,
                      Shared& shared) {
  BenchRank self(rank, shared);
  absl::Status status = self.Connect(pipes);
  for (size_t c = 0; status.ok() && c < Cases().size(); ++c) {
    status = self.MakeField(Cases()[c]);
    for (int sample = -2; status.ok() && sample < samples; ++sample) {
      for (const bool boxes : {false, true}) {
        const auto seconds = self.Exchange(boxes, /*turns=*/100);
        if (!seconds.ok()) return seconds.status();
        if (rank != 0 || sample < 0) continue;
        (boxes ? shared.boxes : shared.packed)[c][sample] = *seconds;
      }
    }
  }
  return status;
}

double MedianOf(const double* values, int samples) {
  return Median({values, values + samples});
}

void PrintFigures(const Shared& shared, int samples) {
  std::vector<Figure> figures;
  for (size_t c = 0; c < Cases().size(); ++c) {
    const Case& field = Cases()[c];
    const double boxes = MedianOf(shared.boxes[c], samples);
    const double packed = MedianOf(shared.packed[c], samples);
    const int64_t bytes = Product(field.block) / field.block[field.cut] *
                          field.width * int64_t{sizeof(float)};
    figures.push_back({std::string(field.what) + ": packing / boxes",
                       field.promised, packed / boxes});
    figures.push_back({"  us with boxes, of " + std::to_string(bytes) + " B", 0,
                       boxes * 1e6});
  }
  Print(figures);
}

int Main(int argc, char** argv) {
  const int samples = argc > 1 ? std::atoi(argv[1]) : 15;
  if (argc > 2 || samples < 1 || samples > kSamplesMax) {
    std::fprintf(stderr, "usage: halo_boxes_bench [SAMPLES, 1 to %d]\n",
                 kSamplesMax);
    return 2;
  }
  const SharedMemory<Shared> shared;
  const int failed =
      perf::RunRanks(kRanks, [&](int rank, perf::HandlePipes& pipes) {
        const absl::Status ran = RunBench(rank, pipes, samples, *shared);
        if (!ran.ok()) {
          std::fprintf(stderr, "halo_boxes_bench: rank %d: %s\n", rank,
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
