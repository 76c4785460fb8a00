#include "tests/conformance/world.h"

#include <thread>
#include <utility>

#include "gtest/gtest.h"

namespace lockstep::conformance {

std::unique_ptr<Stream> World::MakeStream(int, const std::string& name) {
  return std::make_unique<HostStream>(name);
}

void World::Enqueue(Stream& stream, std::function<void()> work) {
  static_cast<HostStream&>(stream).Enqueue([work = std::move(work)] {
    work();
    return absl::OkStatus();
  });
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
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      auto comm = pending[rank]->Connect(handles, absl::Seconds(60));
      EXPECT_TRUE(comm.ok()) << comm.status();
      if (comm.ok()) comms[rank] = *std::move(comm);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& comm : comms) {
    if (comm == nullptr) return {};
  }
  return comms;
}

}  // namespace lockstep::conformance
