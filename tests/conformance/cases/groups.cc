#include "tests/conformance/cases/groups.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep::conformance {

absl::StatusOr<Group*> Groups::Get(const std::vector<int>& members,
                                   int number) {
  const auto found = groups_.find({members, number});
  if (found != groups_.end()) return &found->second;
  auto group = Connect(members);
  if (!group.ok()) return group.status();
  return &(groups_[{members, number}] = *std::move(group));
}

absl::StatusOr<Groups::Rank*> Groups::RankOf(int rank) {
  Rank& made = ranks_[rank];
  if (made.transport != nullptr) return &made;
  auto transport = make_(rank);
  if (!transport.ok()) return transport.status();
  auto device = (*transport)->MakeDeviceContext();
  if (!device.ok()) return device.status();
  made.context = *std::move(device);
  if (made.context->NeedsOneOrder()) made.memory.device = made.context;
  made.arena = (*transport)->MakeArena();
  made.memory.allocate = [arena = made.arena](size_t bytes) {
    return arena->Allocate(bytes);
  };
  made.transport = *std::move(transport);
  return &made;
}

absl::StatusOr<GroupMemory> Groups::MemoryOf(int rank) {
  const auto made = RankOf(rank);
  if (!made.ok()) return made.status();
  return (*made)->memory;
}

absl::StatusOr<std::shared_ptr<transport::DeviceContext>> Groups::ContextOf(
    int rank) {
  const auto made = RankOf(rank);
  if (!made.ok()) return made.status();
  return (*made)->context;
}

absl::StatusOr<std::unique_ptr<Stream>> Groups::MakeStream(int rank) {
  const auto memory = MemoryOf(rank);
  if (!memory.ok()) return memory.status();
  if (memory->device != nullptr) return memory->device->MakeStream("ls-case");
  return std::make_unique<HostStream>("ls-case");
}

absl::StatusOr<Group> Groups::Connect(const std::vector<int>& members) {
  const size_t size = members.size();
  const std::string name = absl::StrCat("case/", connected_++);
  std::vector<std::unique_ptr<transport::PendingGroup>> pending;
  std::vector<std::string> handles;
  for (size_t i = 0; i < size; ++i) {
    const auto rank = RankOf(members[i]);
    if (!rank.ok()) return rank.status();
    auto group = (*rank)->transport->Prepare({.name = name,
                                              .rank = static_cast<int>(i),
                                              .size = static_cast<int>(size)});
    if (!group.ok()) return group.status();
    handles.push_back((*group)->handle());
    pending.push_back(*std::move(group));
  }
  std::vector<absl::StatusOr<std::unique_ptr<Communicator>>> connected(size);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < size; ++i) {
    threads.emplace_back([&, i] {
      connected[i] = pending[i]->Connect(handles, absl::Seconds(60));
    });
  }
  for (std::thread& thread : threads) thread.join();
  Group group;
  for (auto& communicator : connected) {
    if (!communicator.ok()) return communicator.status();
    group.push_back(*std::move(communicator));
  }
  return group;
}

}  // namespace lockstep::conformance
