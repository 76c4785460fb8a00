// What makes fake devices mean (docs/fake-gpus.md): each case shows that the
// fake does it, and that it can be switched off.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/transport/nccl/device_scope.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_gpu.h"

namespace lockstep::fake {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using transport::nccl::CudaEventHandle;
using transport::nccl::CudaGraphExecHandle;
using transport::nccl::CudaGraphHandle;
using transport::nccl::CudaResult;
using transport::nccl::CudaStreamHandle;
using transport::nccl::DeviceScope;
using transport::nccl::NcclComm;
using transport::nccl::NcclConfig;
using transport::nccl::NcclDType;
using transport::nccl::NcclOp;
using transport::nccl::NcclResult;
using transport::nccl::NcclUniqueId;
using transport::nccl::Tables;

// The calls of the test alone turn its devices: it counts them, and work that
// never runs refers to variables of the test.
Meanness RunAsked(Meanness mean = {}) {
  mean.runs_unasked = false;
  return mean;
}

// One device, called directly.
class Gpu {
 public:
  Gpu(FakeGpus* gpus, int device)
      : gpus_(*gpus), tables_(gpus->TablesOf(device)), scope_(cuda()) {}

  transport::nccl::CudaApi& cuda() { return *tables_.cuda; }
  transport::nccl::NcclApi& nccl() { return *tables_.nccl; }
  const Tables& tables() const { return tables_; }

  CudaStreamHandle Stream() {
    CudaStreamHandle stream = nullptr;
    EXPECT_EQ(cuda().StreamCreateWithPriority(&stream, 1, 0),
              CudaResult::kSuccess);
    return stream;
  }
  CudaEventHandle Record(CudaStreamHandle stream) {
    CudaEventHandle event = nullptr;
    EXPECT_EQ(cuda().EventCreateWithFlags(&event, 0), CudaResult::kSuccess);
    EXPECT_EQ(cuda().EventRecord(event, stream), CudaResult::kSuccess);
    return event;
  }
  // How often an event must be queried until it has completed.
  int Queries(CudaEventHandle event) {
    int queries = 1;
    while (cuda().EventQuery(event) == CudaResult::kNotReady) ++queries;
    return queries;
  }
  void Run(CudaStreamHandle stream) { (void)Queries(Record(stream)); }

 private:
  FakeGpus& gpus_;
  const Tables tables_;
  const DeviceScope scope_;
};

// Runs `call` on a thread; whether it returns before `open`, which lets the
// device go on, is in `waited`.
class Beside {
 public:
  explicit Beside(std::function<void()> call)
      : thread_([this, call = std::move(call)] {
          call();
          over_ = true;
        }) {}
  ~Beside() { thread_.join(); }
  // Whether the call has returned; waits long for one that is expected to.
  bool over(bool expected) const {
    for (int i = 0; i < (expected ? 10000 : 20) && !over_; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return over_;
  }

 private:
  std::atomic<bool> over_{false};
  std::thread thread_;
};

// --- Functions on the host ---

struct Gate {
  std::atomic<bool> open{false}, first{false}, second{false};
};

// Two streams have a function each; the first waits for `open`.
void CallTwice(Gpu* gpu, Gate* gate) {
  gpu->cuda().LaunchHostFunc(
      gpu->Stream(),
      [](void* at) {
        auto* const it = static_cast<Gate*>(at);
        it->first = true;
        while (!it->open) std::this_thread::yield();
      },
      gate);
  const CudaStreamHandle other = gpu->Stream();
  const CudaEventHandle begun = gpu->Record(other);
  while (!gate->first) (void)gpu->cuda().EventQuery(begun);
  gpu->cuda().LaunchHostFunc(
      other, [](void* at) { static_cast<Gate*>(at)->second = true; }, gate);
  const CudaEventHandle after = gpu->Record(other);
  for (int i = 0; i < 2000 && !gate->second; ++i) {
    (void)gpu->cuda().EventQuery(after);
  }
}

TEST(FakeMeanTest, AFunctionThatWaitsHoldsUpThoseOfAllStreams) {
  for (const bool one : {true, false}) {
    FakeGpus gpus({.mean = RunAsked({.one_host_thread = one})});
    Gpu gpu(&gpus, 0);
    Gate gate;
    CallTwice(&gpu, &gate);
    if (!one) {
      while (!gate.second) gpu.Run(gpu.Stream());
    }
    EXPECT_EQ(gate.second, !one);
    gate.open = true;
    while (!gate.second) gpu.Run(gpu.Stream());
  }
}

TEST(FakeMeanTest, AFunctionThatCallsCudaIsAViolation) {
  FakeGpus gpus({.mean = RunAsked()});
  Gpu gpu(&gpus, 0);
  struct Both {
    Gpu* gpu;
    CudaStreamHandle stream;
  } both{&gpu, gpu.Stream()};
  gpu.cuda().LaunchHostFunc(
      both.stream,
      [](void* at) {
        auto* const it = static_cast<Both*>(at);
        const DeviceScope scope(it->gpu->cuda());
        it->gpu->Record(it->stream);
      },
      &both);
  gpu.Run(both.stream);
  EXPECT_THAT(gpus.violations(), Contains(HasSubstr("function on the host")));
}

// --- Queries that fail ---

TEST(FakeMeanTest, ADeviceFailsInTheQueryThatATestChooses) {
  FakeGpus gpus({.mean = RunAsked()});
  Gpu gpu(&gpus, 0);
  const CudaStreamHandle stream = gpu.Stream();
  gpus.StallUntil(stream, [] { return false; });
  const CudaEventHandle event = gpu.Record(stream);
  gpus.BreakDeviceAtQuery(0, 3);
  EXPECT_EQ(gpu.cuda().EventQuery(event), CudaResult::kNotReady);
  EXPECT_EQ(gpu.cuda().EventQuery(event), CudaResult::kNotReady);
  EXPECT_EQ(gpu.cuda().EventQuery(event), CudaResult::kIllegalAddress);
  void* memory = nullptr;  // sticky
  EXPECT_EQ(gpu.cuda().Malloc(&memory, 1), CudaResult::kIllegalAddress);
}

TEST(FakeMeanTest, ALostDeviceDestroysItsGraphsWithItsError) {
  FakeGpus gpus({.mean = RunAsked()});
  Gpu gpu(&gpus, 0);
  CudaStreamHandle stream = nullptr;
  CudaGraphHandle graph = nullptr;
  CudaGraphExecHandle exec = nullptr;
  bool released = false;
  gpu.cuda().StreamCreateWithPriority(&stream, 1, 0);
  gpu.cuda().StreamBeginCapture(stream);
  gpu.cuda().CaptureOnRelease(
      stream, [](void* at) { *static_cast<bool*>(at) = true; }, &released);
  gpu.cuda().StreamEndCapture(stream, &graph);
  gpu.cuda().GraphInstantiate(&exec, graph);
  gpus.BreakDevice(0);
  EXPECT_EQ(gpu.cuda().GraphExecDestroy(exec), CudaResult::kIllegalAddress);
  EXPECT_EQ(gpu.cuda().GraphDestroy(graph), CudaResult::kIllegalAddress);
  for (int i = 0; i < 1000 && !released; ++i) {
    absl::SleepFor(absl::Milliseconds(1));  // another thread of CUDA tells
  }
  EXPECT_TRUE(released);
}

TEST(FakeMeanTest, AForeignCaptureFailsAQueryAndBecomesInvalid) {
  FakeGpus gpus({.mean = RunAsked()});
  const Tables tables = gpus.TablesOf(0);
  gpus.SetCallingThread({.device = 0});  // not in relaxed mode
  CudaStreamHandle stream = nullptr;
  CudaEventHandle event = nullptr;
  tables.cuda->StreamCreateWithPriority(&stream, 1, 0);
  tables.cuda->EventCreateWithFlags(&event, 0);
  tables.cuda->EventRecord(event, stream);
  gpus.BeginForeignCapture();
  EXPECT_EQ(tables.cuda->EventQuery(event), CudaResult::kCaptureUnsupported);
  EXPECT_FALSE(gpus.EndForeignCapture());
  gpus.SetCallingThread({});
}

TEST(FakeMeanTest, AnInvalidCaptureRefusesCalls) {
  FakeGpus gpus({.mean = RunAsked()});
  Gpu gpu(&gpus, 0);
  CudaStreamHandle stream = nullptr;
  transport::nccl::CudaCaptureId id = 0;
  transport::nccl::CudaGraphHandle graph = nullptr;
  char bytes[2] = {};
  gpu.cuda().StreamCreateWithPriority(&stream, 1, 0);
  gpu.cuda().StreamBeginCapture(stream);
  gpus.InvalidateCaptureAt(0, 2);
  const auto call = [&] {
    return gpu.cuda().MemsetAsync(bytes, 0, sizeof bytes, stream);
  };
  EXPECT_EQ(call(), CudaResult::kSuccess);
  EXPECT_EQ(gpu.cuda().StreamGetCaptureInfo(stream, &id), CudaResult::kSuccess);
  EXPECT_NE(id, 0u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(call(), CudaResult::kCaptureInvalidated);
    EXPECT_EQ(gpu.cuda().StreamGetCaptureInfo(stream, &id),
              CudaResult::kCaptureInvalidated);
    EXPECT_EQ(id, 0u);
  }
  EXPECT_EQ(gpus.CaptureCallsLeft(0), 0);
  EXPECT_EQ(gpu.cuda().StreamEndCapture(stream, &graph),
            CudaResult::kCaptureInvalidated);
  EXPECT_EQ(call(), CudaResult::kSuccess);
}

TEST(FakeMeanTest, AThreadOnAnotherDeviceIsAViolation) {
  FakeGpus gpus({.devices = 2, .mean = RunAsked()});
  const Tables other = gpus.TablesOf(1);
  Gpu gpu(&gpus, 0);
  CudaStreamHandle stream = nullptr;
  EXPECT_THAT(gpus.violations(), IsEmpty());
  other.cuda->StreamCreateWithPriority(&stream, 1, 0);
  EXPECT_THAT(gpus.violations(), Contains(HasSubstr("whose device is 0")));
}

// --- Calls that wait for the device ---

TEST(FakeMeanTest, MemoryIsTakenAndFreedOnceTheDeviceHasNoWork) {
  for (const bool waits : {true, false}) {
    FakeGpus gpus({.mean = RunAsked({.calls_wait = waits})});
    Gpu gpu(&gpus, 0);
    void* memory[4];
    gpu.cuda().Malloc(&memory[0], 16);
    gpu.cuda().HostAlloc(&memory[1], 16);
    gpu.nccl().MemAlloc(&memory[2], 16);
    const std::vector<std::function<void()>> calls = {
        [&] { gpu.cuda().Malloc(&memory[3], 16); },
        [&] { gpu.cuda().Free(memory[0]); },
        [&] { gpu.cuda().HostAlloc(&memory[0], 16); },
        [&] { gpu.cuda().FreeHost(memory[1]); },
        [&] { gpu.nccl().MemAlloc(&memory[1], 16); },
        [&] { gpu.nccl().MemFree(memory[2]); },
    };
    for (size_t i = 0; i < calls.size(); ++i) {
      std::atomic<bool> open{false};
      gpus.StallUntil(gpu.Stream(), [&] { return open.load(); });
      Beside call([&] {
        const DeviceScope scope(gpu.cuda());
        calls[i]();
      });
      EXPECT_EQ(call.over(!waits), !waits) << "call " << i;
      open = true;
    }
    EXPECT_THAT(gpus.violations(), IsEmpty());
    gpu.cuda().Free(memory[3]);
    gpu.cuda().FreeHost(memory[0]);
    gpu.nccl().MemFree(memory[1]);
  }
}

// --- Streams ---

TEST(FakeMeanTest, AFullStreamMakesItsCallerWait) {
  FakeGpus gpus({.mean = RunAsked({.queue_depth = 8})});
  Gpu gpu(&gpus, 0);
  const CudaStreamHandle stream = gpu.Stream();
  std::atomic<bool> open{false};
  gpus.StallUntil(stream, [&] { return open.load(); });
  for (int i = 1; i < 8; ++i) (void)gpu.Record(stream);
  Beside call([&] {
    const DeviceScope scope(gpu.cuda());
    (void)gpu.Record(stream);
  });
  EXPECT_FALSE(call.over(false));
  open = true;
}

TEST(FakeMeanTest, WorkReachesTheDeviceLate) {
  for (const int latency : {0, 50}) {
    int most = 0;
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      FakeGpus gpus({.seed = seed, .mean = RunAsked({.latency_max = latency})});
      Gpu gpu(&gpus, 0);
      most = std::max(most, gpu.Queries(gpu.Record(gpu.Stream())));
    }
    EXPECT_EQ(most > 2, latency > 0) << most;
  }
}

TEST(FakeMeanTest, ADeviceRunsWhileNobodyCallsIt) {
  for (const bool runs : {true, false}) {
    FakeGpus gpus({.mean = {.runs_unasked = runs}});
    Gpu gpu(&gpus, 0);
    std::atomic<bool> ran{false};
    gpus.LaunchKernel(gpu.Stream(), [&] { ran = true; });
    for (int i = 0; i < (runs ? 10000 : 20) && !ran; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(ran, runs);
  }
}

// --- NCCL ---

// Two connected ranks, called directly: a device and a communicator each.
class Pair {
 public:
  explicit Pair(const Meanness& mean, uint64_t seed = 1)
      : gpus_({.seed = seed,
               .polls_max = 2,
               .residents_max = 4,
               .mean = RunAsked(mean)}) {
    NcclUniqueId id;
    for (int rank : {0, 1}) {
      tables_.push_back(gpus_.TablesOf(rank));
      const DeviceScope scope(cuda(rank));
      cuda(rank).StreamCreateWithPriority(&streams_[rank], 1, 0);
    }
    {
      const DeviceScope scope(cuda(0));
      nccl(0).GetUniqueId(&id);
    }
    std::thread other([&] { Connect(1, id); });
    Connect(0, id);
    other.join();
  }

  FakeGpus& gpus() { return gpus_; }
  transport::nccl::CudaApi& cuda(int rank) { return *tables_[rank].cuda; }
  transport::nccl::NcclApi& nccl(int rank) { return *tables_[rank].nccl; }
  CudaStreamHandle stream(int rank) { return streams_[rank]; }
  NcclComm comm(int rank) { return comms_[rank]; }

  void Reduce(int rank, float* value, size_t count = 1) {
    const DeviceScope scope(cuda(rank));
    nccl(rank).AllReduce(value, value, count, NcclDType::kFloat32, NcclOp::kSum,
                         comms_[rank], streams_[rank]);
  }
  bool HasNoError(int rank) {
    const DeviceScope scope(cuda(rank));
    NcclResult result = NcclResult::kSuccess;
    nccl(rank).CommGetAsyncError(comms_[rank], &result);
    return result == NcclResult::kSuccess;
  }
  // Whether the rank's stream ends.
  bool Ends(int rank) {
    const DeviceScope scope(cuda(rank));
    CudaEventHandle event = nullptr;
    cuda(rank).EventCreateWithFlags(&event, 0);
    cuda(rank).EventRecord(event, streams_[rank]);
    for (int i = 0; i < 400; ++i) {
      if (cuda(rank).EventQuery(event) == CudaResult::kSuccess) return true;
    }
    return false;
  }
  void Abort(int rank) {
    const DeviceScope scope(cuda(rank));
    nccl(rank).GroupStart();
    nccl(rank).CommAbort(comms_[rank]);
    nccl(rank).GroupEnd();
  }

 private:
  void Connect(int rank, const NcclUniqueId& id) {
    const DeviceScope scope(cuda(rank));
    NcclConfig config;
    config.blocking = 1;
    nccl(rank).GroupStart();
    nccl(rank).CommInitRankConfig(&comms_[rank], 2, id, rank, &config);
    nccl(rank).GroupEnd();
  }

  FakeGpus gpus_;
  std::vector<Tables> tables_;
  CudaStreamHandle streams_[2];
  NcclComm comms_[2];
};

TEST(FakeMeanTest, TheFirstOfEachAlgorithmWaitsForItsPeers) {
  Pair pair({.first_use_connects = true});
  std::vector<float> values[2] = {std::vector<float>(8192, 1.0f),
                                  std::vector<float>(8192, 2.0f)};
  for (const size_t count : {size_t{1}, size_t{8192}}) {
    std::atomic<bool> returned{false};
    std::thread first([&] {
      pair.Reduce(0, values[0].data(), count);
      returned = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(returned) << count;
    pair.Reduce(1, values[1].data(), count);
    first.join();
    EXPECT_TRUE(pair.Ends(0) && pair.Ends(1));
    // No more.
    for (int rank : {0, 1}) pair.Reduce(rank, values[rank].data(), count);
    EXPECT_TRUE(pair.Ends(0) && pair.Ends(1));
  }
  EXPECT_EQ(pair.gpus().FirstUsesOf(0), 2);
}

TEST(FakeMeanTest, AnAbortWaitsForTheDevice) {
  for (const bool waits : {true, false}) {
    Pair pair({.calls_wait = waits});
    CudaStreamHandle other = nullptr;
    {
      const DeviceScope scope(pair.cuda(0));
      pair.cuda(0).StreamCreateWithPriority(&other, 1, 0);
    }
    std::atomic<bool> open{false};
    pair.gpus().StallUntil(other, [&] { return open.load(); });
    Beside call([&] { pair.Abort(0); });
    EXPECT_EQ(call.over(!waits), !waits);
    open = true;
  }
}

// The call sets the flag before it waits.
TEST(FakeMeanTest, AnAbortThatWaitsHasEndedItsOwnKernels) {
  Pair pair({.first_use_connects = false});
  float value = 1;
  pair.Reduce(0, &value);
  pair.Abort(0);
  EXPECT_TRUE(pair.Ends(0));
}

TEST(FakeMeanTest, DestroyingWaitsForTheDevice) {
  for (const bool waits : {true, false}) {
    Pair pair({.calls_wait = waits});
    for (int rank : {0, 1}) {
      const DeviceScope scope(pair.cuda(rank));
      pair.nccl(rank).CommFinalize(pair.comm(rank));
    }
    CudaStreamHandle other = nullptr;
    {
      const DeviceScope scope(pair.cuda(0));
      pair.cuda(0).StreamCreateWithPriority(&other, 1, 0);
    }
    std::atomic<bool> open{false};
    pair.gpus().StallUntil(other, [&] { return open.load(); });
    Beside call([&] {
      const DeviceScope scope(pair.cuda(0));
      pair.nccl(0).CommDestroy(pair.comm(0));
    });
    EXPECT_EQ(call.over(!waits), !waits);
    open = true;
  }
}

struct Aborted {
  int ended = 0;           // peers that ended, without an error
  int with_garbage = 0;    // of these
  int with_own_input = 0;  // of these
};

// Rank 0 is aborted in an all-reduce, before its peer has begun or after.
Aborted AbortBeside(Meanness::Garbage garbage) {
  Aborted said;
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    Pair pair({.first_use_connects = false, .garbage = garbage}, seed);
    float values[2] = {1, 2};
    pair.Reduce(0, &values[0]);
    EXPECT_FALSE(pair.Ends(0));
    pair.Abort(0);
    pair.Reduce(1, &values[1]);
    if (pair.Ends(1)) {
      said.ended += pair.HasNoError(1);
      said.with_garbage += std::isnan(values[1]);
      said.with_own_input += values[1] == 2;
    }
    pair.Abort(1);
  }
  return said;
}

TEST(FakeMeanTest, PeersOfAnAbortedKernelEndWithGarbage) {
  const Aborted poison = AbortBeside(Meanness::Garbage::kPoison);
  EXPECT_GT(poison.ended, 3);
  EXPECT_LT(poison.ended, 21);
  EXPECT_EQ(poison.with_garbage, poison.ended);
  const Aborted own = AbortBeside(Meanness::Garbage::kOwnInput);
  EXPECT_GT(own.ended, 3);
  EXPECT_EQ(own.with_own_input, own.ended);
  EXPECT_EQ(AbortBeside(Meanness::Garbage::kNothing).ended, 0);
}

// The operation of a graph passes the thread for functions on the host.
TEST(FakeMeanTest, NcclPassesTheHostsThreadWhereAGraphHoldsIt) {
  for (const bool passes : {true, false}) {
    Pair pair({.nccl_on_host_thread = passes, .first_use_connects = false});
    float values[2] = {1, 2};
    CudaGraphHandle graphs[2];
    CudaGraphExecHandle execs[2];
    for (int rank : {0, 1}) {
      const DeviceScope scope(pair.cuda(rank));
      pair.cuda(rank).StreamBeginCapture(pair.stream(rank));
      pair.Reduce(rank, &values[rank]);
      pair.cuda(rank).StreamEndCapture(pair.stream(rank), &graphs[rank]);
      pair.cuda(rank).GraphInstantiate(&execs[rank], graphs[rank]);
    }
    // Another function waits there.
    Gate gate;
    CudaStreamHandle other = nullptr;
    {
      const DeviceScope scope(pair.cuda(0));
      pair.cuda(0).StreamCreateWithPriority(&other, 1, 0);
      pair.cuda(0).LaunchHostFunc(
          other,
          [](void* at) {
            auto* const it = static_cast<Gate*>(at);
            it->first = true;
            while (!it->open) std::this_thread::yield();
          },
          &gate);
    }
    while (!gate.first) (void)pair.HasNoError(0);
    for (int rank : {0, 1}) {
      const DeviceScope scope(pair.cuda(rank));
      pair.cuda(rank).GraphLaunch(execs[rank], pair.stream(rank));
    }
    EXPECT_EQ(pair.Ends(0), !passes);
    gate.open = true;
    while (!pair.Ends(0)) {
    }
    EXPECT_EQ(values[0], 3);
  }
}

}  // namespace
}  // namespace lockstep::fake
