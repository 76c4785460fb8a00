// All-reduce through a Communicator over Gloo, compared to Gloo's own: two
// ranks, f32 sums in place, alternating in one run; medians of single calls.
//
//   bytes       ours   gloo's   ratio (above 1: ours is faster)

#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/hash_store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "client/transport/gloo/gloo.h"

namespace lockstep {
namespace {

constexpr int kRanks = 2;
using Floats = std::vector<float>;
using AllReduce = std::function<void(Floats&)>;

void OnEachRank(const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

// --- The two sides ----------------------------------------------------------

class Ours {
 public:
  Ours() {
    std::vector<std::unique_ptr<transport::PendingGroup>> pending;
    std::vector<std::string> handles;
    for (int rank = 0; rank < kRanks; ++rank) {
      transports_.push_back(*transport::MakeGlooTransport({}));
      pending.push_back(*transports_[rank]->Prepare(
          {.name = "bench", .rank = rank, .size = kRanks}));
      handles.push_back(pending[rank]->handle());
      streams_.push_back(std::make_unique<HostStream>());
    }
    comms_.resize(kRanks);
    OnEachRank([&](int rank) {
      comms_[rank] = *pending[rank]->Connect(handles, absl::Seconds(60));
    });
  }

  void Run(int rank, Floats& values) {
    Check(comms_[rank]
              ->AllReduce(values.data(), values.data(), values.size(),
                          DType::kF32, ReduceOp::kSum, *streams_[rank])
              .ok(),
          "our all-reduce was refused");
    Check(streams_[rank]->Synchronize().ok(), "our all-reduce failed");
  }

 private:
  std::vector<std::unique_ptr<transport::Transport>> transports_;
  std::vector<std::unique_ptr<HostStream>> streams_;
  std::vector<std::unique_ptr<Communicator>> comms_;
};

class Theirs {
 public:
  Theirs() {
    contexts_.resize(kRanks);
    OnEachRank([&](int rank) {
      auto device = gloo::transport::tcp::CreateDevice("127.0.0.1");
      auto context = std::make_shared<gloo::rendezvous::Context>(rank, kRanks);
      context->connectFullMesh(store_, device);
      contexts_[rank] = std::move(context);
    });
  }

  void Run(int rank, Floats& values) {
    gloo::AllreduceOptions options(contexts_[rank]);
    options.setOutput(values.data(), values.size());
    options.setReduceFunction(
        [](void* out, const void* a, const void* b, size_t count) {
          gloo::sum<float>(out, a, b, count);
        });
    gloo::allreduce(options);
  }

 private:
  gloo::rendezvous::HashStore store_;
  std::vector<std::shared_ptr<gloo::rendezvous::Context>> contexts_;
};

// --- The comparison ---------------------------------------------------------

double SecondsOf(const AllReduce& all_reduce, Floats& values) {
  const auto begin = std::chrono::steady_clock::now();
  all_reduce(values);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2,
                   values.end());
  return values[values.size() / 2];
}

void Compare(Ours& ours, Theirs& theirs, size_t bytes, int rounds) {
  std::vector<double> our_seconds, their_seconds;
  OnEachRank([&](int rank) {
    Floats values(bytes / sizeof(float));
    const AllReduce our = [&](Floats& v) { ours.Run(rank, v); };
    const AllReduce their = [&](Floats& v) { theirs.Run(rank, v); };
    for (int round = -2; round < rounds; ++round) {
      const double our_time = SecondsOf(our, values);
      const double their_time = SecondsOf(their, values);
      if (round < 0 || rank != 0) continue;  // warm-up; rank 0 measures
      our_seconds.push_back(our_time);
      their_seconds.push_back(their_time);
    }
  });
  const double our = Median(our_seconds);
  const double their = Median(their_seconds);
  std::printf("%10zu  %9.1f us  %9.1f us  %6.2f\n", bytes, our * 1e6,
              their * 1e6, their / our);
}

}  // namespace
}  // namespace lockstep

int main() {
  lockstep::Ours ours;
  lockstep::Theirs theirs;
  std::printf("%10s  %12s  %12s  %6s\n", "bytes", "ours", "gloo's", "ratio");
  for (auto [bytes, rounds] : {std::pair<size_t, int>{4 << 10, 500},
                               {64 << 10, 300},
                               {256 << 10, 200},
                               {1 << 20, 100},
                               {8 << 20, 30},
                               {64 << 20, 9}}) {
    lockstep::Compare(ours, theirs, bytes, rounds);
  }
}
