// The contract of every Communicator, as tests: the suite belongs to the
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
// threads of the test; each transport has its own tests with processes.

#ifndef LOCKSTEP_TESTS_CONFORMANCE_COMMUNICATOR_CONFORMANCE_H_
#define LOCKSTEP_TESTS_CONFORMANCE_COMMUNICATOR_CONFORMANCE_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/transport/transport.h"
#include "gtest/gtest.h"
#include "lockstep/communicator.h"
#include "lockstep/stream.h"
#include "tests/conformance/world.h"

namespace lockstep::conformance {

// Guarantees of only some transports; the defaults are those of a host
// transport.
struct Promises {
  // Sums are made in rank order, 16-bit types in f32, and rounded once.
  bool rank_order = true;
  // Groups whose size is a power of two can sum in pairs.
  bool sums_in_pairs = true;
  // Boxes are sent and received (extended_collectives.h).
  bool moves_boxes = false;
  // Ranks that call different operations get an error (DataLoss).
  bool notices_disagreement = true;
  // A rank that waits for a lost peer gets an error (Unavailable, with the
  // peer); otherwise it waits until it is aborted.
  bool notices_who_goes = true;
  // Ranks may interleave the operations of two communicators differently.
  bool any_order_between_groups = true;
};

struct Case {
  std::function<std::unique_ptr<World>()> make_world;
  int size = 1;
  Promises promises = {};
};

// Group sizes 1, 2, 3, 4, 8; under a sanitizer up to 4.
std::vector<Case> Cases(std::function<std::unique_ptr<World>()> make_world,
                        const Promises& promises = {});
std::string CaseName(const testing::TestParamInfo<Case>& info);

struct Member {
  int rank;
  int size;
  Communicator& comm;
  Stream& stream;
  World& world;

  int next() const { return (rank + 1) % size; }
  int previous() const { return (rank + size - 1) % size; }
  std::unique_ptr<Stream> MakeStream(const std::string& name = "other") const {
    return world.MakeStream(rank, name);
  }
  void Enqueue(std::function<void()> work) const {
    world.Enqueue(stream, std::move(work));
  }
};

}  // namespace lockstep::conformance

namespace lockstep {

class CommunicatorConformance
    : public testing::TestWithParam<conformance::Case> {
 protected:
  CommunicatorConformance();
  ~CommunicatorConformance() override;

  int size() const { return GetParam().size; }
  const conformance::Promises& promises() const { return GetParam().promises; }

  // Calls `body` for every rank of the test's group concurrently, each on its
  // own thread, and returns when all have returned.
  void Together(const std::function<void(conformance::Member&)>& body);

  // Connects the test's group again, after a test has ended it.
  void Reconnect();

  // Destroys `rank`'s communicator, as if its process had exited. Within
  // Together, only that rank may call it.
  void Drop(int rank) { comms_[rank] = nullptr; }
  conformance::World& world() { return *world_; }

 private:
  std::unique_ptr<conformance::World> world_;
  std::vector<std::unique_ptr<Communicator>> comms_;
  std::vector<std::unique_ptr<Stream>> streams_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_CONFORMANCE_COMMUNICATOR_CONFORMANCE_H_
