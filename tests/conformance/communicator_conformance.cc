#include "tests/conformance/communicator_conformance.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/support/slow.h"

namespace lockstep {
namespace conformance {
namespace {

void OnEachRank(int size, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&body, rank] { body(rank); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

std::unique_ptr<Stream> World::MakeStream(int, const std::string& name) {
  return std::make_unique<HostStream>(name);
}

void World::Enqueue(Stream& stream, std::function<void()> work) {
  static_cast<HostStream&>(stream).Enqueue([work = std::move(work)] {
    work();
    return absl::OkStatus();
  });
}

std::vector<Case> Cases(std::function<std::unique_ptr<World>()> make_world,
                        const Promises& promises) {
  std::vector<Case> cases;
  for (int size : {1, 2, 3, 4, 8}) {
    if (size == 8 && kIsSlow) continue;
    cases.push_back({make_world, size, promises});
  }
  return cases;
}

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  return absl::StrCat("Of", info.param.size);
}

std::vector<std::unique_ptr<Communicator>> Connect(World& world, int size,
                                                   const std::string& name) {
  std::vector<std::unique_ptr<transport::PendingGroup>> pending;
  std::vector<std::string> handles;
  for (int rank = 0; rank < size; ++rank) {
    auto prepared =
        world.at(rank).Prepare({.name = name, .rank = rank, .size = size});
    EXPECT_TRUE(prepared.ok()) << prepared.status();
    if (!prepared.ok()) return {};
    handles.push_back((*prepared)->handle());
    pending.push_back(*std::move(prepared));
  }
  std::vector<std::unique_ptr<Communicator>> comms(size);
  OnEachRank(size, [&](int rank) {
    auto comm = pending[rank]->Connect(handles, absl::Seconds(60));
    EXPECT_TRUE(comm.ok()) << comm.status();
    if (comm.ok()) comms[rank] = *std::move(comm);
  });
  for (const auto& comm : comms) {
    if (comm == nullptr) return {};
  }
  return comms;
}

}  // namespace conformance

CommunicatorConformance::CommunicatorConformance()
    : world_(GetParam().make_world()) {
  Reconnect();
  for (int rank = 0; rank < size(); ++rank) {
    streams_.push_back(world_->MakeStream(rank, absl::StrCat("rank-", rank)));
  }
}

CommunicatorConformance::~CommunicatorConformance() = default;

void CommunicatorConformance::Reconnect() {
  comms_ = conformance::Connect(*world_, size(), "conformance");
}

void CommunicatorConformance::Together(
    const std::function<void(conformance::Member&)>& body) {
  ASSERT_EQ(comms_.size(), static_cast<size_t>(size()));
  conformance::OnEachRank(size(), [&](int rank) {
    conformance::Member member{rank, size(), *comms_[rank], *streams_[rank],
                               *world_};
    body(member);
  });
}

}  // namespace lockstep
