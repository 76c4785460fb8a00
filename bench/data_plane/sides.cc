// The sides that run in this program: the limit, this library, and Gloo.

#include <fcntl.h>
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/file_descriptor.h"
#include "bench/data_plane/sweep.h"
#include "client/transport/gloo/gloo.h"
#include "client/transport/hierarchical/auto.h"
#include "client/transport/shm/shm.h"
#include "kernels/reduce.h"

namespace lockstep::bench {
namespace {

// This rank's slice of its own buffer and of another: reads both, adds, writes
// both. No other rank accesses either.
class LimitSide final : public Side {
 public:
  explicit LimitSide(int ranks) : ranks_(ranks) {}

  float* Prepare(size_t bytes) override {
    memory_ = *arena_->Allocate(bytes);
    return memory_.as<float>().data();
  }
  void Run() override {
    float* const data = memory_.as<float>().data();
    const size_t slice = memory_.as<float>().size() / ranks_;
    std::vector<const void*> rows;
    std::vector<void*> results;
    for (int row = 0; row < ranks_; ++row) {
      rows.push_back(data + row * slice);
      results.push_back(data + row * slice);
    }
    kernels::ReduceRanksToAll(rows, results, slice, DType::kF32,
                              ReduceOp::kSum);
  }

 private:
  const int ranks_;
  const std::unique_ptr<Arena> arena_ = MakePlainArena();
  ArenaBuffer memory_;
};

// The in-arena reduction without a library: each rank's slice of all buffers,
// which their owners have just written. The difference to the limit is the cost
// of moving the cache lines between cores. `buffers`: the number of buffers of
// each rank, equal parts of the whole; the rank reduces a slice for each, as if
// it were that many ranks.
class HandoverSide final : public Side {
 public:
  HandoverSide(int rank, int ranks, int buffers, const Exchange& exchange)
      : rank_(rank), buffers_(buffers), file_(memfd_create("handover", 0)) {
    Check(ftruncate(file_.get(), kBytesMax) == 0, "no memory file");
    const std::string path =
        absl::StrCat("/proc/", getpid(), "/fd/", file_.get());
    for (const std::string& other : exchange(path)) {
      const FileDescriptor file(open(other.c_str(), O_RDWR));
      void* const mapped = mmap(nullptr, kBytesMax, PROT_READ | PROT_WRITE,
                                MAP_SHARED, file.get(), 0);
      Check(mapped != MAP_FAILED, "no shared memory");
      rows_.push_back(static_cast<float*>(mapped));
    }
    exchange("mapped");  // files stay open until all ranks have mapped them
    Check(static_cast<int>(rows_.size()) == ranks, "a rank is missing");
  }

  float* Prepare(size_t bytes) override {
    count_ = bytes / sizeof(float);
    return rows_[rank_];
  }
  void Run() override {
    for (int one = rank_ * buffers_; one < (rank_ + 1) * buffers_; ++one)
      Reduce(one);
  }

 private:
  void Reduce(int one) {
    const size_t buffer = count_ / buffers_;
    const size_t slice = buffer / (rows_.size() * buffers_);
    std::vector<const void*> inputs;
    std::vector<void*> outs;
    for (float* row : rows_) {
      for (int of = 0; of < buffers_; ++of) {
        outs.push_back(row + of * (buffer + kColour) + one * slice);
        inputs.push_back(outs.back());
      }
    }
    kernels::ReduceRanksToAll(inputs, outs, slice, DType::kF32, ReduceOp::kSum);
  }

  // Not a power of two: see the page offsets in segment.h.
  static constexpr size_t kBytesMax = (256 << 20) + (64 << 10);
  static constexpr size_t kColour = (4 << 10) / sizeof(float) + 64;
  const int rank_;
  const int buffers_;
  const FileDescriptor file_;
  std::vector<float*> rows_;
  size_t count_ = 0;
};

class CopySide final : public Side {
 public:
  float* Prepare(size_t bytes) override {
    from_.assign(bytes / sizeof(float), 0);
    to_ = from_;
    return from_.data();
  }
  void Run() override {
    std::memcpy(to_.data(), from_.data(), from_.size() * sizeof(float));
  }

 private:
  std::vector<float> from_, to_;
};

// This library, over a transport.
class OurSide final : public Side {
 public:
  OurSide(std::unique_ptr<transport::Transport> transport, bool in_arena,
          int rank, int ranks, const Exchange& exchange)
      : transport_(std::move(transport)),
        arena_(in_arena ? transport_->MakeArena() : MakePlainArena()) {
    auto pending =
        *transport_->Prepare({.name = "bench", .rank = rank, .size = ranks});
    comm_ = *pending->Connect(exchange(pending->handle()), absl::Seconds(60));
  }

  float* Prepare(size_t bytes) override {
    memory_ = *arena_->Allocate(bytes);
    return memory_.as<float>().data();
  }
  void Run() override {
    const absl::Span<float> all = memory_.as<float>();
    Check(comm_
              ->AllReduce(all.data(), all.data(), all.size(), DType::kF32,
                          ReduceOp::kSum, stream_)
              .ok(),
          "our all-reduce was refused");
    Check(stream_.Synchronize().ok(), "our all-reduce failed");
  }

 private:
  const std::unique_ptr<transport::Transport> transport_;
  const std::unique_ptr<Arena> arena_;
  ArenaBuffer memory_;
  std::unique_ptr<Communicator> comm_;
  HostStream stream_{"bench", HostStream::Execution::kInline};
};

// The folder in which Gloo's ranks exchange addresses; rank 0 creates and
// removes it.
class ExchangeFolder {
 public:
  ExchangeFolder(int rank, const Exchange& exchange) : rank_(rank) {
    std::string made =
        std::filesystem::temp_directory_path() / "gloo-bench-XXXXXX";
    if (rank == 0) Check(mkdtemp(made.data()) != nullptr, "no folder");
    path_ = exchange(made)[0];
  }
  ~ExchangeFolder() {
    std::error_code ignored;
    if (rank_ == 0) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  const int rank_;
  std::string path_;
};

class GlooSide final : public Side {
 public:
  GlooSide(int rank, int ranks, const Exchange& exchange)
      : folder_(rank, exchange), store_(folder_.path()) {
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
    auto device = gloo::transport::tcp::CreateDevice("127.0.0.1");
    context->connectFullMesh(store_, device);
    context_ = std::move(context);
  }

  float* Prepare(size_t bytes) override {
    values_.assign(bytes / sizeof(float), 0);
    return values_.data();
  }
  void Run() override {
    gloo::AllreduceOptions options(context_);
    options.setOutput(values_.data(), values_.size());
    options.setReduceFunction(
        [](void* out, const void* a, const void* b, size_t count) {
          gloo::sum<float>(out, a, b, count);
        });
    gloo::allreduce(options);
  }

 private:
  const ExchangeFolder folder_;
  gloo::rendezvous::FileStore store_;
  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::vector<float> values_;
};

}  // namespace

MakeSide Limit() {
  return [](int, int ranks, const Exchange&) {
    return std::make_unique<LimitSide>(ranks);
  };
}

MakeSide Handover(int buffers) {
  return [buffers](int rank, int ranks, const Exchange& exchange) {
    return std::make_unique<HandoverSide>(rank, ranks, buffers, exchange);
  };
}

MakeSide Copy() {
  return [](int, int, const Exchange&) { return std::make_unique<CopySide>(); };
}

MakeSide Shared(bool in_arena) {
  return [in_arena](int rank, int ranks, const Exchange& exchange) {
    return std::make_unique<OurSide>(transport::MakeShmTransport(), in_arena,
                                     rank, ranks, exchange);
  };
}

MakeSide OverGloo() {
  return [](int rank, int ranks, const Exchange& exchange) {
    return std::make_unique<OurSide>(*transport::MakeGlooTransport({}),
                                     /*in_arena=*/false, rank, ranks, exchange);
  };
}

MakeSide OverHosts(int hosts, bool in_arena) {
  return [=](int rank, int ranks, const Exchange& exchange) {
    const std::string host = std::to_string(rank * hosts / ranks);
    return std::make_unique<OurSide>(
        transport::MakeAutoTransport(*transport::MakeGlooLinks({}),
                                     {.pretended_host = host}),
        in_arena, rank, ranks, exchange);
  };
}

MakeSide GlooItself() {
  return [](int rank, int ranks, const Exchange& exchange) {
    return std::make_unique<GlooSide>(rank, ranks, exchange);
  };
}

}  // namespace lockstep::bench
