#include "tests/conformance/collectives/groups.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep::conformance {

absl::StatusOr<Group*> Groups::Get(size_t size, size_t number) {
  const auto found = groups_.find({size, number});
  if (found != groups_.end()) return &found->second;
  auto group = Connect(size);
  if (!group.ok()) return group.status();
  return &(groups_[{size, number}] = *std::move(group));
}

absl::StatusOr<Group> Groups::Connect(size_t size) {
  while (transports_.size() < size) {
    auto transport = make_();
    if (!transport.ok()) return transport.status();
    transports_.push_back(*std::move(transport));
  }
  const std::string name = absl::StrCat("case/", connected_++);
  std::vector<std::unique_ptr<transport::PendingGroup>> pending;
  std::vector<std::string> handles;
  for (size_t i = 0; i < size; ++i) {
    auto group = transports_[i]->Prepare({.name = name,
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
