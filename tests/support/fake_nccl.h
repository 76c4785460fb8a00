// NCCL between devices that are none.
//
// A call on a communicator is in progress for a drawn number of polls; only
// then is its operation on the stream (an event recorded before is not behind
// it). An operation begins on a device when it is first in its stream and fewer
// than residents_max run there; among those that could begin, the one launched
// first does. It ends once every rank that it needs has begun its part.
//
// Aborted operations leave 0xff in their buffers, their streams run on, and who
// has begun with them waits for ever. A communicator ends in peace only when
// all that it took part in has ended on every rank.
//
// Captured operations run with each launch of their graph. NCCL does not end a
// communicator, by an abort neither, while a graph holds it.
//
// A window is made once every rank has asked for it. What peers reach in a
// window begins at the same offset of it on every rank, or NCCL would add up
// what does not belong together. The caller has it when the communicator is
// ready, not before. Symmetric kernels of 2.28.0 to 2.28.6 add up what lies at
// a wrong offset of it, 0xff here, and say nothing.
//
// Violations: windows of different sizes, or over memory that is not NCCL's;
// memory that is registered twice, freed while a communicator knows it, or
// still known when one is destroyed in peace; ending one that a graph holds
// (nothing happens then), a graph's launch on one that has ended, a captured
// call in progress when its capture ends, two operations of one at once, a call
// from another thread than the communicator's, or while another is in progress,
// or after its end; an abort outside a group; a blocking communicator; ranks
// that call different operations, or one of them in a graph and another not;
// launches in an order that cannot end (both devices' orders are told, and the
// communicators fail).

#ifndef LOCKSTEP_TESTS_SUPPORT_FAKE_NCCL_H_
#define LOCKSTEP_TESTS_SUPPORT_FAKE_NCCL_H_

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "client/transport/common/collective_op.h"
#include "client/transport/nccl/nccl_api.h"
#include "tests/support/fake_cuda.h"

namespace lockstep::fake {

// One rank's part in one function of NCCL.
struct Part {
  transport::CollectiveKind kind;
  const void* in = nullptr;
  void* out = nullptr;
  size_t count = 0;
  transport::nccl::NcclDType dtype = transport::nccl::NcclDType::kUint8;
  transport::nccl::NcclOp op = transport::nccl::NcclOp::kSum;
  int peer = 0;
  bool in_graph = false;  // it runs in a graph's launch
  // Where `in` and `out` lie in windows, if they do and peers reach them there.
  std::array<std::optional<size_t>, 2> window_offsets = {};
  // Peers find `in` at a wrong offset of the window.
  bool read_elsewhere = false;

  bool point_to_point() const {
    return kind == transport::CollectiveKind::kSend ||
           kind == transport::CollectiveKind::kRecv;
  }
};

struct Comm;

// What the ranks of a clique do together: a collective, or one message.
struct Rendezvous {
  std::map<int, Part> come;     // by rank; of a message: 0 sends, 1 receives
  std::map<int, Comm*> needed;  // whom it needs, by the same keys
  std::set<int> ended;          // who knows that it is over
  bool over = false;
  bool broken = false;  // a rank that had come was aborted
};

struct Clique;
struct Device;

struct Launch {
  uint64_t number = 0;  // on its device
  FakeStream* stream = nullptr;
  uint64_t item = 0;
  std::vector<Part> parts;
  std::weak_ptr<FakeCapture> capture;  // that it is to be part of
  bool captured = false;
  // Once it has begun: where, and as whom.
  std::vector<std::pair<std::shared_ptr<Rendezvous>, int>> meetings;
  bool begun = false;
  int lag = 0;  // how often the device looks again after it is over
};

// Memory that a communicator knows of.
struct Known {
  size_t bytes;
  bool window;
};

struct Comm {
  Clique* clique = nullptr;
  Device* device = nullptr;
  int rank = 0;
  int made = 0;  // its number on the device
  std::thread::id thread;
  int polls_left = 0;
  std::shared_ptr<Launch> in_progress;  // queued after polls_left
  transport::nccl::NcclResult error = transport::nccl::NcclResult::kSuccess;
  bool finalizing = false;
  bool aborted = false;
  bool over = false;  // aborted or destroyed
  uint64_t collectives = 0;
  std::map<int, uint64_t> sent, received;
  std::map<const std::byte*, Known> known;  // memory, by where it begins
  uint64_t windows = 0;                     // registered so far
  // What writes the last of them, once every rank has asked for it.
  std::function<void()> registering;
  std::vector<std::pair<std::shared_ptr<Rendezvous>, int>> meetings;
  // Held by every capture and graph that has an operation of it.
  std::shared_ptr<void> pin = std::make_shared<int>();
};

struct Clique {
  int number = 0;
  std::vector<Comm*> comms;  // by rank; null: has not come
  bool connected = false;
  std::map<uint64_t, std::shared_ptr<Rendezvous>> collectives;
  std::map<std::array<uint64_t, 3>, std::shared_ptr<Rendezvous>> messages;
  std::map<uint64_t, std::map<int, size_t>> windows;  // bytes, by rank
};

struct Device {
  int number = 0;
  std::vector<Comm*> comms;  // in the order of making
  std::vector<int> aborts;
  std::vector<int> channels;  // at most, in the order of making; 0: any number
  std::deque<std::pair<Comm*, std::shared_ptr<Launch>>> waiting;  // to begin
  std::vector<std::pair<Comm*, std::shared_ptr<Launch>>> residents;
  std::vector<int> order;  // cliques, as they were launched
  uint64_t launches = 0;
  int nccl_version = 0;
  bool network_broken = false;
};

// The methods are called with the scheduler's lock held.
class Fabric {
 public:
  Fabric(Scheduler* scheduler, int polls_max, int residents_max)
      : scheduler_(*scheduler),
        polls_max_(polls_max),
        residents_max_(residents_max) {}

  Scheduler& scheduler() { return scheduler_; }
  Device& device(int number);
  transport::nccl::NcclUniqueId MakeId();
  Comm* Init(Device& device, int size, const transport::nccl::NcclUniqueId& id,
             int rank);

  int DrawPolls() { return static_cast<int>(scheduler_.Draw(polls_max_ + 1)); }
  // Puts it on its stream: to run, or into a capture.
  void Enqueue(Comm* comm, const std::shared_ptr<Launch>& launch);
  void Abort(Comm* comm);
  // A violation if a graph lives that has an operation of it: NCCL would wait
  // for the graph's end.
  bool Pinned(const Comm& comm);
  bool Peaceful(const Comm& comm) const;

  // --- Memory (fake_windows.cc) ---
  void* MemAlloc(size_t bytes);
  void MemFree(void* memory);
  void RegisterWindow(Comm* comm, void* memory, size_t bytes,
                      std::function<void()> registered);
  void Register(Comm* comm, void* memory, size_t bytes, bool window);
  void Deregister(Comm* comm, const void* memory);
  bool WindowsComplete(const Comm& comm) const;
  void FindInWindows(const Comm& comm, Part* part) const;

 private:
  std::optional<size_t> WindowOffset(const Comm& comm,
                                     const void* address) const;
  bool Run(Comm* comm, Launch& launch);
  bool MayBegin(const Comm& comm, const Launch& launch) const;
  void Begin(Comm* comm, Launch& launch);
  std::pair<std::shared_ptr<Rendezvous>, int> Join(Comm* comm,
                                                   const Part& part);
  void Hold(const Clique& clique, Rendezvous& rendezvous);
  void Leave(Comm* comm, Launch& launch);
  void FindDeadlock(const Device& from);
  std::set<Device*> WaitsFor(const Device& device) const;

  Scheduler& scheduler_;
  const int polls_max_;
  const int residents_max_;
  std::map<int, Device> devices_;
  std::map<uint64_t, Clique> cliques_;
  std::vector<std::unique_ptr<Comm>> comms_;
  std::set<const void*> allocated_;
  uint64_t ids_ = 0;
};

std::unique_ptr<transport::nccl::NcclApi> MakeFakeNccl(Fabric* fabric,
                                                       int device, int version);

// What the parts of a whole meeting do to their buffers.
void Execute(const Rendezvous& rendezvous);
// How many bytes of `part.out` it writes.
size_t OutBytes(const Part& part, int size);

}  // namespace lockstep::fake

#endif  // LOCKSTEP_TESTS_SUPPORT_FAKE_NCCL_H_
