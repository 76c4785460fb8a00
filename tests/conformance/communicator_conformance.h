// What every Communicator promises, as tests: the suite belongs to the
// interface, and each transport instantiates it in a few lines.
//
//   class GlooWorld final : public conformance::World { ... };
//   INSTANTIATE_TEST_SUITE_P(
//       Gloo, CommunicatorConformance,
//       testing::ValuesIn(conformance::Cases(
//           [] { return std::make_unique<GlooWorld>(); })),
//       conformance::CaseName);
//
// and links the object library communicator_conformance. Members of a group are
// threads of the test; what needs processes is the transport's own test.

#ifndef LOCKSTEP_TESTS_CONFORMANCE_COMMUNICATOR_CONFORMANCE_H_
#define LOCKSTEP_TESTS_CONFORMANCE_COMMUNICATOR_CONFORMANCE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/transport/transport.h"
#include "gtest/gtest.h"
#include "lockstep/communicator.h"
#include "lockstep/stream.h"

namespace lockstep::conformance {

// The processes of a job, as far as the transport can tell.
class World {
 public:
  virtual ~World() = default;
  // The transport of process `rank`. Called from one thread.
  virtual transport::Transport& at(int rank) = 0;
};

struct Case {
  std::function<std::unique_ptr<World>()> make_world;
  int size = 1;
  // Sums are made in rank order, halves in f32, rounded once: host transports.
  bool rank_order = true;
};

// Group sizes 1, 2, 3, 4, 8.
std::vector<Case> Cases(std::function<std::unique_ptr<World>()> make_world);
std::string CaseName(const testing::TestParamInfo<Case>& info);

// The communicators of one group, in rank order. All have OK status, or the
// test fails and the vector is empty.
std::vector<std::unique_ptr<Communicator>> Connect(World& world, int size,
                                                   const std::string& name);

struct Member {
  int rank;
  int size;
  Communicator& comm;
  HostStream& stream;

  int next() const { return (rank + 1) % size; }
  int previous() const { return (rank + size - 1) % size; }
};

}  // namespace lockstep::conformance

namespace lockstep {

class CommunicatorConformance
    : public testing::TestWithParam<conformance::Case> {
 protected:
  CommunicatorConformance();
  ~CommunicatorConformance() override;

  int size() const { return GetParam().size; }

  // Calls `body` for every rank of the test's group at once, each on a thread
  // of its own, and returns when all have.
  void Together(const std::function<void(conformance::Member&)>& body);

  // Connects the test's group anew, after what ended the last one.
  void Reconnect();

  // Ends `rank`'s communicator, as if its process were gone. From within
  // Together, only by that rank.
  void Drop(int rank) { comms_[rank] = nullptr; }
  conformance::World& world() { return *world_; }

 private:
  std::unique_ptr<conformance::World> world_;
  std::vector<std::unique_ptr<Communicator>> comms_;
  std::vector<std::unique_ptr<HostStream>> streams_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_CONFORMANCE_COMMUNICATOR_CONFORMANCE_H_
