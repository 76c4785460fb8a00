// Exchanges of halos in the memory of fake devices, over a fake NCCL.

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "client/transport/nccl/nccl.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/halo/job_run.h"
#include "tests/conformance/halo/halo_case.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/paths.h"
#include "tests/support/sanitizers.h"

namespace lockstep {
namespace {

using conformance::Placement;
using halo_model::ExchangeValues;
using halo_model::HaloJob;
using halo_model::JobRun;
using halo_model::PassCall;
using halo_model::RandomHalos;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;

// Devices, and the groups of ranks that have one each.
struct FakeDevices {
  explicit FakeDevices(uint64_t seed)
      : gpus({.seed = seed}), groups([this](int rank) {
          return transport::nccl::MakeTransport(gpus.TablesOf(rank));
        }) {}
  ~FakeDevices() {
    groups.Drop();
    EXPECT_THAT(gpus.violations(), IsEmpty());
  }

  fake::FakeGpus gpus;
  conformance::Groups groups;
};

class HaloDeviceTest : public testing::Test {
 protected:
  void CheckJob(uint64_t seed, FakeDevices& devices) {
    RandomHalos random(seed);
    const HaloJob job = random.DrawJob();
    SCOPED_TRACE(absl::StrCat("seed ", seed, ": ", job.Describe()));
    std::vector<ExchangeValues> values;
    std::vector<PassCall> calls;
    for (size_t e = 0; e < job.exchanges(); ++e) {
      values.push_back(random.DrawValues(job, e));
      for (const bool backward : {false, true}) {
        calls.push_back({.exchange = e,
                         .backward = backward,
                         .in_place = random.Draw(2) == 0,
                         .on_stream = random.Draw(2) == 0});
      }
    }
    auto run = JobRun::Make(job, devices.groups);
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ((*run)->CheckBlocks(values), "");
    const auto outputs = (*run)->Run(calls, values, Placement::kArena);
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    for (size_t c = 0; c < calls.size(); ++c) {
      const ExchangeValues& wanted = values[calls[c].exchange];
      EXPECT_TRUE((*outputs)[c] ==
                  (calls[c].backward ? wanted.block_gradients : wanted.padded))
          << (calls[c].backward ? "backward of h" : "forward of h")
          << calls[c].exchange;
    }
  }
};

TEST_F(HaloDeviceTest, EachRankGetsItsPartOfThePaddedField) {
  constexpr uint64_t kJobs = kUnderSanitizer ? 10 : 60;
  constexpr uint64_t kJobsOfDevices = 10;
  for (uint64_t seed = 0; seed < kJobs && !HasFailure();) {
    FakeDevices devices(seed + 1);
    for (uint64_t i = 0; i < kJobsOfDevices; ++i, ++seed) {
      CheckJob(seed, devices);
    }
  }
}

TEST_F(HaloDeviceTest, TheCasesPass) {
  const auto list = conformance::ReadCaseList(
      SourcePath("tests/conformance/halo/cases/halo.json"));
  ASSERT_TRUE(list.ok()) << list.status();
  const auto cases = conformance::ReadHaloCases(*list);
  ASSERT_TRUE(cases.ok()) << cases.status();
  FakeDevices devices(1);
  for (size_t i = 0; i < cases->size(); i += kUnderSanitizer ? 80 : 20) {
    EXPECT_EQ(RunHaloCase((*cases)[i], devices.groups), "") << (*cases)[i].name;
  }
}

// Two ranks with one column each, of which both neighbours get a copy.
HaloJob TwoColumns(bool packed) {
  const HaloDim dim{.dim = packed ? 1 : 0,
                    .axis = "x",
                    .low = 1,
                    .edge = HaloEdge::kPeriodic};
  const HaloTensor tensor{.dtype = DType::kF32, .shape = {2, 2}, .dims = {dim}};
  return {.mesh = {{{"x", 2}}},
          .declared = {2, {{.name = "u", .tensors = {tensor}}}}};
}

TEST_F(HaloDeviceTest, CallsOnOtherStreamsRunInTheirOrder) {
  FakeDevices devices(1);
  const HaloJob job = TwoColumns(/*packed=*/true);
  RandomHalos random(1);
  std::vector<ExchangeValues> values;
  for (int call = 0; call < 6; ++call) {
    values.push_back(random.DrawValues(job, 0));
  }
  auto run = JobRun::Make(job, devices.groups);
  ASSERT_TRUE(run.ok()) << run.status();
  std::vector<std::vector<std::vector<std::byte>>> hosts(2);
  std::vector<std::vector<conformance::PlacedTensor>> in(2), out(2);
  std::vector<std::vector<std::unique_ptr<Stream>>> streams(2);
  for (int r = 0; r < 2; ++r) {
    hosts[r].resize(2 * values.size());
    for (size_t call = 0; call < values.size(); ++call) {
      streams[r].push_back(*devices.groups.MakeStream(r));
      Stream& stream = *streams[r].back();
      const GroupMemory& memory = (*run)->ranks().memory(r);
      hosts[r][2 * call] = values[call].blocks[r][0];
      hosts[r][2 * call + 1] = values[call].padded[r][0];
      std::fill(hosts[r][2 * call + 1].begin(), hosts[r][2 * call + 1].end(),
                std::byte{0});
      in[r].push_back(*conformance::PlacedTensor::Make(
          &hosts[r][2 * call], memory, Placement::kArena, stream));
      out[r].push_back(*conformance::PlacedTensor::Make(
          &hosts[r][2 * call + 1], memory, Placement::kArena, stream));
    }
  }
  // All memory is there: to allocate waits for the device, and so for the peer.
  for (int r = 0; r < 2; ++r) {
    for (size_t call = 0; call < values.size(); ++call) {
      EXPECT_TRUE((*run)
                      ->ranks()
                      .at(r)
                      .Run({in[r][call].data()}, {out[r][call].data()},
                           *streams[r][call])
                      .ok());
    }
  }
  for (int r = 0; r < 2; ++r) {
    for (size_t call = 0; call < values.size(); ++call) {
      EXPECT_TRUE(out[r][call].Fetch(*streams[r][call]).ok());
      EXPECT_TRUE(hosts[r][2 * call + 1] == values[call].padded[r][0])
          << r << " " << call;
    }
  }
}

// Nothing of the two calls is enqueued: the next call succeeds.
TEST_F(HaloDeviceTest, DifferentCallsOfACheckedJobAreRefusedWithBoth) {
  FakeDevices devices(1);
  const HaloJob job = TwoColumns(/*packed=*/true);
  auto made = conformance::HaloRanks::Make(job.mesh, job.declared,
                                           devices.groups, /*checked=*/true);
  ASSERT_TRUE(made.ok()) << made.status();
  conformance::HaloRanks& ranks = **made;
  absl::Status different[2];
  const absl::Status status = ranks.ForAll([&](int r) {
    const ArenaBuffer x = *ranks.memory(r).allocate(64);
    const ArenaBuffer padded = *ranks.memory(r).allocate(64);
    const HaloExchange& halo = ranks.at(r);
    different[r] = r == 0 ? halo.Forward({x.data()}, {padded.data()})
                          : halo.Backward({padded.data()}, {x.data()});
    return halo.Forward({x.data()}, {padded.data()});
  });
  EXPECT_TRUE(status.ok()) << status;
  for (const absl::Status& refused : different) {
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr("rank 0: halo u"),
                      HasSubstr("rank 1: the adjoint of halo u")));
  }
}

// Rows are sent from the block and received in the padded tensor.
TEST_F(HaloDeviceTest, OnlyCallsWithoutPackedMessagesAreCaptured) {
  for (const bool packed : {false, true}) {
    FakeDevices devices(1);
    const HaloJob job = TwoColumns(packed);
    RandomHalos random(1);
    const ExchangeValues values = random.DrawValues(job, 0);
    auto made =
        conformance::HaloRanks::Make(job.mesh, job.declared, devices.groups);
    ASSERT_TRUE(made.ok()) << made.status();
    std::vector<std::vector<std::byte>> blocks, padded;
    std::vector<conformance::PlacedTensor> in, out;
    std::vector<std::unique_ptr<Stream>> streams;  // their work uses the memory
    std::vector<std::unique_ptr<transport::DeviceContext::Graph>> graphs;
    for (int r = 0; r < 2; ++r) {
      blocks.push_back(values.blocks[r][0]);
      padded.emplace_back(values.padded[r][0].size());
    }
    for (int r = 0; r < 2; ++r) {
      const GroupMemory& memory = (*made)->memory(r);
      streams.push_back(*devices.groups.MakeStream(r));
      Stream& stream = *streams.back();
      in.push_back(*conformance::PlacedTensor::Make(&blocks[r], memory,
                                                    Placement::kArena, stream));
      out.push_back(*conformance::PlacedTensor::Make(
          &padded[r], memory, Placement::kArena, stream));
      absl::Status called;
      auto graph = memory.device->Capture(stream, [&] {
        called = (*made)->at(r).Run({in[r].data()}, {out[r].data()}, stream);
        return packed ? absl::OkStatus() : called;
      });
      if (packed) {
        EXPECT_TRUE(absl::IsUnimplemented(called)) << called;
        continue;
      }
      ASSERT_TRUE(graph.ok()) << graph.status();
      graphs.push_back(*std::move(graph));
    }
    if (packed) continue;
    for (int r = 0; r < 2; ++r) (void)graphs[r]->Launch(*streams[r]);
    for (int r = 0; r < 2; ++r) {
      EXPECT_TRUE(out[r].Fetch(*streams[r]).ok());
      EXPECT_TRUE(padded[r] == values.padded[r][0]);
    }
  }
}

}  // namespace
}  // namespace lockstep
