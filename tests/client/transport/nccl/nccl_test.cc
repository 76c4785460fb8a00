// The NCCL transport's errors and facts before it connects, while it connects,
// and about its host.

#include "client/transport/nccl/nccl.h"

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/transport/failed_peer.h"
#include "client/transport/nccl/gpu.h"
#include "client/transport/nccl/nccl_handle.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/transport/nccl/fake_world.h"
#include "tests/support/forwarding_tables.h"
#include "tests/support/temp_path.h"

namespace lockstep {
namespace {

using fake::FakeGpus;
using fake::FakeGpuWorld;
using fake::GpuOptions;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using transport::GroupSpec;
using transport::PendingGroup;
using transport::nccl::CheckGpu;
using transport::nccl::CheckRestart;
using transport::nccl::CheckVersion;
using transport::nccl::CudaStream;
using transport::nccl::FormatHandle;
using transport::nccl::NcclUniqueId;
using transport::nccl::ParseHandles;

std::string WhyNoGpu(const GpuOptions& options) {
  FakeGpus gpus(options);
  const absl::Status checked = CheckGpu(*gpus.TablesOf(0).cuda);
  EXPECT_TRUE(absl::IsFailedPrecondition(checked)) << checked;
  return std::string(checked.message());
}

TEST(NcclGpuTest, SaysWhichOfTheReasonsThereIsNoGpuFor) {
  EXPECT_THAT(WhyNoGpu({.cuda_driver = 0}), HasSubstr("no NVIDIA driver"));
  EXPECT_THAT(WhyNoGpu({.cuda_driver = 12020}),
              testing::AllOf(HasSubstr("too old"), HasSubstr("12.2"),
                             HasSubstr("13.0")));
  EXPECT_THAT(WhyNoGpu({.devices = 0}), HasSubstr("no device"));
  FakeGpus there;
  EXPECT_TRUE(CheckGpu(*there.TablesOf(0).cuda).ok());
}

TEST(NcclGpuTest, TheRealTablesAreThereOrSayWhatThisHostLacks) {
  const auto made = transport::nccl::MakeGpuTransport(
      [](const std::string&) { return std::string(); }, -1);
  EXPECT_TRUE(made.ok() || absl::IsFailedPrecondition(made.status()))
      << made.status();
}

class ChooseDeviceTest : public testing::Test {
 protected:
  // On a machine with `devices` devices, by a thread whose device is `current`.
  static absl::StatusOr<int> Choose(int wanted, const std::string& local_rank,
                                    int devices = 4, int current = 2) {
    FakeGpus gpus({.devices = devices});
    gpus.SetCallingThread({.device = current});
    auto chosen = transport::nccl::ChooseDevice(
        wanted,
        [&](const std::string& name) {
          return name == "LOCAL_RANK" ? local_rank : "";
        },
        *gpus.TablesOf(0).cuda);
    EXPECT_EQ(gpus.CallingThread().device, current);
    EXPECT_THAT(gpus.violations(), IsEmpty());
    return chosen;
  }
};

TEST_F(ChooseDeviceTest, TheOptionThenTheLocalRankThenTheCurrentOne) {
  EXPECT_EQ(*Choose(1, "3"), 1);
  EXPECT_EQ(*Choose(0, "3"), 0);
  EXPECT_EQ(*Choose(-1, "3"), 3);
  EXPECT_EQ(*Choose(-1, ""), 2);
  EXPECT_EQ(*Choose(-1, "", 4, fake::FakeThread::kNoDevice), 0);
}

// A launcher that shows each process only its own device numbers it 0.
TEST_F(ChooseDeviceTest, TheOnlyOneWhateverTheLocalRank) {
  EXPECT_EQ(*Choose(-1, "3", 1, 0), 0);
}

TEST_F(ChooseDeviceTest, RefusesADeviceThatIsNotThere) {
  for (const auto& [wanted, local_rank] :
       std::vector<std::pair<int, std::string>>{
           {4, ""}, {-1, "4"}, {-1, "-1"}, {-1, "first"}}) {
    const auto refused = Choose(wanted, local_rank);
    EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << refused.status();
  }
  EXPECT_TRUE(absl::IsInvalidArgument(Choose(1, "", 1, 0).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(Choose(-1, "", 0, 0).status()));
}

TEST(NcclVersionTest, RefusesWhatIsTooOldAndWhatCannotBeginAgain) {
  EXPECT_FALSE(CheckVersion(21703).ok());
  EXPECT_TRUE(CheckVersion(22203).ok());
  EXPECT_FALSE(CheckVersion(22105).ok());
  for (int version : {22802, 22809, 22900}) {
    EXPECT_TRUE(CheckRestart(version).ok()) << version;
  }
  for (int version : {22803, 22805, 22808}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(CheckRestart(version))) << version;
  }
  EXPECT_EQ(transport::nccl::VersionName(22809), "2.28.9");
}

TEST(NcclVersionTest, RefusesToBeginAgainOnlyAfterAnAbort) {
  for (int version : {22805, 22809}) {
    FakeGpuWorld world({.nccl_version = version});
    auto first = conformance::Connect(world, 1, "first");
    ASSERT_EQ(first.size(), 1u);
    auto second = conformance::Connect(world, 1, "second");
    ASSERT_EQ(second.size(), 1u);
    first[0]->Abort("over");
    first.clear();  // waits for the abort
    const auto again = world.at(0).Prepare({.name = "again"});
    EXPECT_EQ(again.ok(), version == 22809) << again.status();
  }
}

TEST(NcclHandleTest, IsReadAsItWasWritten) {
  NcclUniqueId id;
  for (size_t i = 0; i < sizeof id.bytes; ++i) {
    id.bytes[i] = static_cast<char>(37 * i);
  }
  std::vector<std::string> handles;
  for (int rank = 0; rank < 3; ++rank) {
    handles.push_back(FormatHandle({.name = "g", .rank = rank, .size = 3},
                                   rank == 0 ? &id : nullptr));
  }
  const GroupSpec group{.name = "g", .rank = 1, .size = 3};
  const auto read = ParseHandles(group, handles);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(std::string(read->bytes, sizeof read->bytes),
            std::string(id.bytes, sizeof id.bytes));

  for (int rank = 0; rank < 3; ++rank) {
    for (const std::string& wrong :
         {std::string(), handles[(rank + 1) % 3], handles[rank] + "0",
          std::string("nccl 0/3 00")}) {
      std::vector<std::string> changed = handles;
      changed[rank] = wrong;
      const auto refused = ParseHandles(group, changed);
      EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << wrong;
      EXPECT_EQ(transport::FailedPeer(refused.status()), rank) << wrong;
    }
  }
}

class NcclConnectTest : public testing::Test {
 protected:
  // Pending groups of ranks 0 and 1, of which only some connect.
  void SetUp() override {
    for (int rank : {0, 1}) {
      auto made =
          world_.at(rank).Prepare({.name = "g", .rank = rank, .size = 2});
      ASSERT_TRUE(made.ok()) << made.status();
      handles_.push_back((*made)->handle());
      pending_.push_back(*std::move(made));
    }
  }

  FakeGpuWorld world_;
  std::vector<std::unique_ptr<PendingGroup>> pending_;
  std::vector<std::string> handles_;
};

TEST_F(NcclConnectTest, GivesUpWhenItsTimeIsOver) {
  const auto late = pending_[0]->Connect(handles_, absl::Milliseconds(20));
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.status())) << late.status();
}

TEST_F(NcclConnectTest, GivesUpWhenItIsAborted) {
  std::thread aborter([&] { pending_[0]->Abort("changed my mind"); });
  const auto ended = pending_[0]->Connect(handles_, absl::Minutes(5));
  EXPECT_EQ(ended.status(), absl::AbortedError("changed my mind"));
  aborter.join();
  const auto again = pending_[0]->Connect(handles_, absl::Minutes(5));
  EXPECT_TRUE(absl::IsAborted(again.status())) << again.status();
}

TEST_F(NcclConnectTest, TakesOnlyItsOwnHandles) {
  EXPECT_TRUE(absl::IsInvalidArgument(
      pending_[0]->Connect({handles_[0]}, absl::Seconds(9)).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      pending_[1]
          ->Connect({handles_[0], "nccl 0/2"}, absl::Seconds(9))
          .status()));
}

// NCCL may wait for ever in an abort of one communicator while another one
// waits for its peers, unless both are aborted in one group (nccl#1013); the
// fake reports aborts outside a group.
TEST(NcclAbortTest, AnAbortOfOneOfTwoThatWaitEndsBothInOneGroup) {
  for (const int aborted : {0, 1}) {
    for (const bool one_stream : {false, true}) {
      FakeGpuWorld world;
      const auto first = conformance::Connect(world, 2, "first");
      const auto second = conformance::Connect(world, 2, "second");
      const std::vector<Communicator*> groups = {first[0].get(),
                                                 second[0].get()};
      std::vector<std::unique_ptr<Stream>> streams;
      for (int i = 0; i < 2; ++i) streams.push_back(world.MakeStream(0, ""));
      const auto stream_of = [&](int i) -> Stream& {
        return *streams[one_stream ? 0 : i];
      };
      float values[2] = {};
      for (int i : {0, 1}) {  // rank 1 never comes
        ASSERT_TRUE(groups[i]
                        ->AllReduce(&values[i], &values[i], 1, DType::kF32,
                                    ReduceOp::kSum, stream_of(i))
                        .ok());
      }
      groups[aborted]->Abort("its peer is gone");
      const absl::Status ended = stream_of(0).Synchronize();
      EXPECT_TRUE(absl::IsAborted(ended)) << ended;
      // A stream returns its first error once; that of the second operation
      // may come later.
      const absl::Status other = stream_of(1).Synchronize();
      EXPECT_TRUE(absl::IsAborted(other) || (one_stream && other.ok()))
          << other;
      for (const Communicator* group : groups) {
        EXPECT_THAT(std::string(group->status().message()),
                    HasSubstr("its peer is gone"));
      }
      // Another thread aborts: waiters may be released before.
      while (world.gpus().AbortsOf(0).size() < 2) std::this_thread::yield();
      EXPECT_THAT(world.gpus().AbortsOf(0), ElementsAre(0, 1));
      EXPECT_THAT(world.gpus().violations(), testing::IsEmpty());
    }
  }
}

// The fake detects an error that no adapter can prevent: ranks that launch in
// different orders. The message has both orders.
TEST(FakeNcclTest, TellsOfLaunchesThatCannotEnd) {
  FakeGpuWorld world;
  const auto first = conformance::Connect(world, 2, "first");
  const auto second = conformance::Connect(world, 2, "second");
  std::vector<std::unique_ptr<Stream>> streams;
  for (int rank : {0, 1}) streams.push_back(world.MakeStream(rank, ""));
  world.gpus().ForgetOrders();  // those of Connect
  float value[2][2] = {};
  for (int rank : {0, 1}) {
    for (int i : {0, 1}) {
      const auto& group = i == rank ? first : second;
      EXPECT_TRUE(group[rank]
                      ->AllReduce(&value[rank][i], &value[rank][i], 1,
                                  DType::kF32, ReduceOp::kSum, *streams[rank])
                      .ok());
    }
  }
  // The first that notices aborts, and what it aborts may end the other's with
  // garbage.
  bool noticed = false;
  for (int rank : {0, 1}) noticed |= !streams[rank]->Synchronize().ok();
  EXPECT_TRUE(noticed);
  EXPECT_THAT(world.gpus().violations(),
              testing::Contains(testing::AllOf(
                  HasSubstr("deadlock"), HasSubstr("device 0 launched 1"),
                  HasSubstr("device 1 launched 2"))));
}

// Work on the host that ends when the test says so.
class HeldHost {
 public:
  HeldHost() {
    host_.Enqueue([this] {
      MutexLock lock(&mutex_);
      while (!open_) opened_.Wait(&mutex_);
      return absl::OkStatus();
    });
  }
  ~HeldHost() { Open(); }
  Event Record() { return host_.Record(); }
  void Open() {
    MutexLock lock(&mutex_);
    open_ = true;
    opened_.NotifyAll();
  }

 private:
  Mutex mutex_;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
  CondVar opened_;
  HostStream host_;
};

TEST(CudaStreamTest, WaitsForEventsOfTheHostToo) {
  FakeGpuWorld world;
  HeldHost host;
  const auto group = conformance::Connect(world, 1, "g");
  const std::unique_ptr<Stream> stream = world.MakeStream(0, "");
  const Event before = host.Record();
  std::atomic<bool> waited{false};
  std::thread caller([&] {
    stream->WaitFor(before);
    waited = true;
    float value = 1;
    EXPECT_TRUE(
        group[0]
            ->AllReduce(&value, &value, 1, DType::kF32, ReduceOp::kSum, *stream)
            .ok());
  });
  absl::SleepFor(absl::Milliseconds(5));
  EXPECT_FALSE(waited);
  host.Open();
  caller.join();
  EXPECT_TRUE(stream->Synchronize().ok());
}

// The device has one thread for functions on the host, and the event comes only
// after such a function of another stream.
TEST(CudaStreamTest, AWaitForTheHostHoldsUpNoFunctionOnTheHost) {
  FakeGpuWorld world;
  HeldHost host;
  const auto context = world.at(0).MakeDeviceContext();
  ASSERT_TRUE(context.ok()) << context.status();
  const std::unique_ptr<Stream> waits = world.MakeStream(0, "");
  const std::unique_ptr<Stream> calls = world.MakeStream(0, "");
  std::thread caller([&, before = host.Record()] { waits->WaitFor(before); });
  const absl::Status called = (*context)->Perform(
      calls.get(), [&](transport::DeviceContext::KernelQueue& queue) {
        queue.CallOnce([&] {
          host.Open();
          return absl::OkStatus();
        });
        return queue.status();
      });
  EXPECT_TRUE(called.ok()) << called;
  EXPECT_TRUE(calls->Record().Wait(absl::Seconds(10)).ok());
  caller.join();
  EXPECT_THAT(world.gpus().violations(), IsEmpty());
}

TEST(CudaStreamTest, AMarkIsOneEventUntilItIsNeeded) {
  FakeGpuWorld world;
  const auto stream = world.MakeStream(0, "");
  const auto other = world.MakeStream(0, "");
  auto& cuda = static_cast<CudaStream&>(*stream);
  std::atomic<bool> open{false}, ran{false};
  world.gpus().StallUntil(cuda.handle(), [&] { return open.load(); });
  const Event first = cuda.Mark();
  EXPECT_EQ(first.state(), cuda.Mark().state());
  // Enqueued behind the mark, but before it is recorded.
  world.Enqueue(*stream, [&] { ran = true; });
  std::atomic<bool> ran_before{false};
  other->WaitFor(first);
  world.Enqueue(*other, [&] { ran_before = ran.load(); });
  const Event second = cuda.Mark();
  EXPECT_NE(first.state(), second.state());
  EXPECT_FALSE(first.Done());
  open = true;
  EXPECT_TRUE(other->Synchronize().ok());
  EXPECT_TRUE(ran_before);
  EXPECT_TRUE(first.Done());
  EXPECT_TRUE(second.Wait().ok());
}

TEST(CudaStreamTest, AMarkOfAStreamThatIsGoneIsDone) {
  FakeGpuWorld world;
  auto stream = world.MakeStream(0, "");
  const Event mark = static_cast<CudaStream&>(*stream).Mark();
  world.Enqueue(*stream, [] {});
  stream.reset();  // waits for its work
  EXPECT_TRUE(mark.Done());
  EXPECT_TRUE(mark.Wait().ok());
}

// Operations that overlap with the layers leave them the device.
TEST(NcclChannelsTest, WhatIsSmallOrBetweenNeighboursHasFew) {
  using transport::TrafficClass;
  FakeGpuWorld world;
  for (const TrafficClass traffic :
       {TrafficClass::kSmall, TrafficClass::kMessages, TrafficClass::kBulk}) {
    auto pending = world.at(0).Prepare({.name = "g", .traffic = traffic});
    ASSERT_TRUE(pending.ok()) << pending.status();
    const std::vector<std::string> handles = {(*pending)->handle()};
    const auto group = (*pending)->Connect(handles, absl::Seconds(60));
    EXPECT_TRUE(group.ok()) << group.status();
  }
  EXPECT_THAT(world.gpus().ChannelsOf(0), ElementsAre(2, 8, 0));
}

// A profiler's view of one thread: it has one range open at a time.
class NotesRanges final : public fake::ForwardingCuda {
 public:
  NotesRanges(std::shared_ptr<CudaApi> inner, std::vector<std::string>* ranges)
      : ForwardingCuda(std::move(inner)), ranges_(*ranges) {}
  void RangePush(const char* name) override { ranges_.push_back(name); }
  void RangePop() override { ranges_.push_back("end"); }

 private:
  std::vector<std::string>& ranges_;
};

TEST(NcclRangesTest, AnOperationIsARangeOfItsGroupsName) {
  std::vector<std::string> ranges;
  FakeGpuWorld world({}, [&](int, transport::nccl::Tables* tables) {
    tables->cuda = std::make_shared<NotesRanges>(tables->cuda, &ranges);
  });
  const auto first = conformance::Connect(world, 1, "first");
  const auto second = conformance::Connect(world, 1, "second");
  const auto stream = world.MakeStream(0, "");
  EXPECT_TRUE(first[0]->Barrier(*stream).ok());
  EXPECT_TRUE(second[0]->Barrier(*stream).ok());
  EXPECT_TRUE(stream->Synchronize().ok());
  EXPECT_THAT(ranges, ElementsAre("first", "end", "second", "end"));
}

// Counts stream-ordered allocations.
class CountsMemory final : public fake::ForwardingCuda {
 public:
  CountsMemory(std::shared_ptr<CudaApi> inner, std::atomic<int>* taken)
      : ForwardingCuda(std::move(inner)), taken_(*taken) {}
  Result MallocAsync(void** memory, size_t bytes,
                     StreamHandle stream) override {
    ++taken_;
    return ForwardingCuda::MallocAsync(memory, bytes, stream);
  }

 private:
  std::atomic<int>& taken_;
};

TEST(NcclMemoryTest, WhatReductionsNeedIsTakenWhenTheyConnect) {
  std::atomic<int> taken{0};
  FakeGpuWorld world({}, [&](int, transport::nccl::Tables* tables) {
    tables->cuda = std::make_shared<CountsMemory>(tables->cuda, &taken);
    tables->bulk_rows_bytes = transport::nccl::kBulkRowsBytes;
  });
  const auto group = conformance::Connect(world, 1, "g");
  const auto stream = world.MakeStream(0, "");
  const auto reduce = [&](size_t count) {
    std::vector<float> in(count, 3), out(2 * count);
    const absl::Status posted = group[0]->Group([&] {
      absl::Status first = group[0]->AllReduce(
          in.data(), out.data(), count, DType::kF32, ReduceOp::kMax, *stream);
      first.Update(group[0]->AllReduce(in.data(), out.data() + count, count,
                                       DType::kF32, ReduceOp::kMin, *stream));
      return first;
    });
    EXPECT_TRUE(posted.ok()) << posted;
    EXPECT_TRUE(stream->Synchronize().ok());
    EXPECT_THAT(out, testing::Each(3));
  };
  const int at_the_beginning = taken;
  reduce(50);
  EXPECT_EQ(taken, at_the_beginning);
  // The calls of one group have no launch order among them.
  for (int i = 0; i < 3; ++i) reduce(700 << 10);
  EXPECT_EQ(taken, at_the_beginning + 1);
  EXPECT_THAT(world.gpus().violations(), IsEmpty());
}

// More elements than there is memory for: in rounds, and in place.
TEST(NcclMemoryTest, MinAndMaxOfMuchTakeNoMore) {
  constexpr int kRanks = 3;
  constexpr size_t kCount = 300001;
  std::atomic<int> taken{0};
  FakeGpuWorld world({}, [&](int, transport::nccl::Tables* tables) {
    tables->cuda = std::make_shared<CountsMemory>(tables->cuda, &taken);
  });
  const auto group = conformance::Connect(world, kRanks, "g");
  const int at_the_beginning = taken;
  const auto value = [](int rank, size_t i) {
    if (i % 1000 == 7 && rank == 1) return std::nan("");
    return static_cast<double>((i * 7 + rank * 13) % 101);
  };
  const auto reduced = [&](size_t i) {
    double least = value(0, i);
    for (int rank = 1; rank < kRanks; ++rank) {
      const double one = value(rank, i);
      least = std::isnan(one) || one < least ? one : least;
    }
    return least;
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto stream = world.MakeStream(rank, "");
      std::vector<double> all(kRanks * kCount);
      for (size_t i = 0; i < all.size(); ++i) all[i] = value(rank, i);
      std::vector<double> part = all;
      double* const mine = part.data() + rank * kCount;
      absl::Status done =
          group[rank]->AllReduce(all.data(), all.data(), all.size(),
                                 DType::kF64, ReduceOp::kMin, *stream);
      done.Update(group[rank]->ReduceScatter(
          part.data(), mine, kCount, DType::kF64, ReduceOp::kMin, *stream));
      done.Update(stream->Synchronize());
      EXPECT_TRUE(done.ok()) << done;
      size_t wrong = 0;
      const auto same = [](double a, double b) {
        return a == b || (std::isnan(a) && std::isnan(b));
      };
      for (size_t i = 0; i < all.size(); ++i)
        wrong += !same(all[i], reduced(i));
      for (size_t i = 0; i < kCount; ++i) {
        wrong += !same(mine[i], reduced(rank * kCount + i));
      }
      EXPECT_EQ(wrong, 0u);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken, at_the_beginning);
  EXPECT_THAT(world.gpus().violations(), IsEmpty());
}

TEST(NcclCandidatesTest, AreTheChosenOneOrAllPlacesInOrder) {
  std::map<std::string, std::string> variables = {
      {"LOCKSTEP_NCCL_LIBRARY", "libmine.so"}, {"HOME", "nowhere"}};
  const auto environment = [&](const std::string& name) {
    return variables[name];
  };
  EXPECT_THAT(transport::nccl::NcclCandidates(environment),
              ElementsAre("libmine.so"));

  const std::filesystem::path root = TempPath("nccl_candidates");
  const std::filesystem::path folder =
      root / "lib/python3.11/site-packages/nvidia/nccl/lib";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "libnccl.so.2") << "no library";
  variables = {{"VIRTUAL_ENV", root.string()}, {"HOME", "nowhere"}};
  const auto found = transport::nccl::NcclCandidates(environment);
  ASSERT_GE(found.size(), 2u);
  EXPECT_EQ(found[0], "libnccl.so.2");
  EXPECT_EQ(found[1], (folder / "libnccl.so.2").string());

  const auto loaded = transport::nccl::LoadNccl({found[1], "not-there.so"});
  EXPECT_TRUE(absl::IsFailedPrecondition(loaded.status())) << loaded.status();
  EXPECT_THAT(std::string(loaded.status().message()),
              testing::AllOf(HasSubstr(found[1]), HasSubstr("not-there.so")));
  std::filesystem::remove_all(root);
}

TEST(NcclCandidatesTest, NcclRegistersNothingThatIsCaptured) {
  constexpr char kName[] = "NCCL_GRAPH_REGISTER";
  unsetenv(kName);
  EXPECT_THAT(
      std::string(
          transport::nccl::LoadNccl({"not-there.so"}).status().message()),
      HasSubstr("no NCCL is found"));
  EXPECT_STREQ(getenv(kName), "0");
  setenv(kName, "1", /*overwrite=*/1);
  const absl::Status refused =
      transport::nccl::LoadNccl({"not-there.so"}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("unset it"));
  unsetenv(kName);
}

}  // namespace
}  // namespace lockstep
