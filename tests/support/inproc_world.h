// Groups of communicators inside one process, connected and ready.

#ifndef LOCKSTEP_TESTS_SUPPORT_INPROC_WORLD_H_
#define LOCKSTEP_TESTS_SUPPORT_INPROC_WORLD_H_

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/inproc/inproc.h"

namespace lockstep::testing_support {

class InprocWorld {
 public:
  // One communicator for each of `size` members. Names must differ.
  std::vector<std::unique_ptr<Communicator>> Connect(const std::string& name,
                                                     int size) {
    const auto transport = transport::MakeInprocTransport(&hub_);
    std::vector<std::unique_ptr<transport::PendingGroup>> pending;
    std::vector<std::string> handles;
    for (int rank = 0; rank < size; ++rank) {
      auto group =
          transport->Prepare({.name = name, .rank = rank, .size = size});
      EXPECT_TRUE(group.ok()) << group.status();
      handles.push_back((*group)->handle());
      pending.push_back(*std::move(group));
    }
    std::vector<std::unique_ptr<Communicator>> communicators(size);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        auto connected = pending[rank]->Connect(handles, absl::Seconds(30));
        EXPECT_TRUE(connected.ok()) << connected.status();
        if (connected.ok()) communicators[rank] = *std::move(connected);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return communicators;
  }

 private:
  transport::InprocHub hub_;
};

}  // namespace lockstep::testing_support

#endif  // LOCKSTEP_TESTS_SUPPORT_INPROC_WORLD_H_
