// Ranks as threads of one process, connected by any host transport.

#ifndef LOCKSTEP_TESTS_CLIENT_STATE_CONNECTED_RANKS_H_
#define LOCKSTEP_TESTS_CLIENT_STATE_CONNECTED_RANKS_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/transport/shm/shm.h"
#include "gtest/gtest.h"
#include "tests/support/inproc/inproc.h"

// The tsan preset has no Gloo.
#ifdef LOCKSTEP_TEST_GLOO
#include "client/transport/gloo/gloo.h"
#endif

namespace lockstep::state {

enum class HostTransport { kInproc, kShm, kGloo };

inline std::vector<HostTransport> HostTransports() {
#ifdef LOCKSTEP_TEST_GLOO
  return {HostTransport::kInproc, HostTransport::kShm, HostTransport::kGloo};
#else
  return {HostTransport::kInproc, HostTransport::kShm};
#endif
}

// For names of tests.
inline std::string TransportName(HostTransport kind) {
  switch (kind) {
    case HostTransport::kInproc: return "Inproc";
    case HostTransport::kShm: return "Shm";
    case HostTransport::kGloo: return "Gloo";
  }
  return "";
}

class ConnectedRanks {
 public:
  ConnectedRanks(HostTransport kind, int size) : communicators_(size) {
    std::vector<std::unique_ptr<transport::PendingGroup>> pending;
    std::vector<std::string> handles;
    for (int rank = 0; rank < size; ++rank) {
      transports_.push_back(Make(kind));
      auto group = transports_.back()->Prepare(
          {.name = "state", .rank = rank, .size = size});
      EXPECT_TRUE(group.ok()) << group.status();
      handles.push_back((*group)->handle());
      pending.push_back(*std::move(group));
    }
    OnEach([&](int rank) {
      auto connected = pending[rank]->Connect(handles, absl::Seconds(30));
      EXPECT_TRUE(connected.ok()) << connected.status();
      if (connected.ok()) communicators_[rank] = *std::move(connected);
    });
  }

  int size() const { return static_cast<int>(communicators_.size()); }
  Communicator& at(int rank) { return *communicators_[rank]; }
  void Wrap(int rank, const std::function<std::unique_ptr<Communicator>(
                          std::unique_ptr<Communicator>)>& decorate) {
    communicators_[rank] = decorate(std::move(communicators_[rank]));
  }

  // All ranks at the same time.
  void OnEach(const std::function<void(int rank)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size(); ++rank) threads.emplace_back(body, rank);
    for (std::thread& thread : threads) thread.join();
  }

 private:
  std::unique_ptr<transport::Transport> Make(HostTransport kind) {
    if (kind == HostTransport::kShm) return transport::MakeShmTransport();
    if (kind == HostTransport::kInproc) {
      return transport::MakeInprocTransport(&hub_);
    }
#ifdef LOCKSTEP_TEST_GLOO
    auto gloo = transport::MakeGlooTransport({});
    EXPECT_TRUE(gloo.ok()) << gloo.status();
    return *std::move(gloo);
#else
    ADD_FAILURE() << "without Gloo";
    return nullptr;
#endif
  }

  transport::InprocHub hub_;
  std::vector<std::unique_ptr<transport::Transport>> transports_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

}  // namespace lockstep::state

#endif  // LOCKSTEP_TESTS_CLIENT_STATE_CONNECTED_RANKS_H_
