// NCCL between fake devices.
//
// Communicators block: a call returns once its operation is on the stream,
// after a random number of turns of the device. An operation begins on a device
// when it is first in its stream and fewer than residents_max run there; among
// those that could begin, the one launched first does. It ends once every rank
// that it needs has begun its part.
//
// The first operation of each algorithm, and between each pair of ranks, blocks
// until its peers have begun theirs. An all-reduce of at most 16 KiB has
// another algorithm than a larger one, and than other collectives. A call also
// blocks until its stream has room.
//
// An abort sets its communicator's flag at once: a call in progress returns,
// whether its operation is on the stream or not. Operations that have begun, or
// begin later, end without a result, and their streams continue. They leave
// 0xff in their buffers. Of the ranks that have begun the same operation, or
// will, some wait for ever; others end without an error, because an aborted
// kernel sends what it has (Meanness::garbage). The abort may be made beside
// any other call. The end of its NCCL group waits for the device, and for the
// end of the graphs that refer to the communicator, and frees it. Destroying
// waits for the device, too. A communicator can be destroyed without an abort
// only when all its operations have ended on every rank.
//
// Captured operations run with each launch of their graph. While a graph refers
// to a communicator, NCCL does not free it, not even in an abort.
//
// A window is made once every rank has registered. The part of a window that
// peers access begins at the same offset on every rank; NCCL would otherwise
// reduce unrelated elements. Symmetric kernels of 2.28.0 to 2.28.6 reduce from
// a wrong offset, here 0xff, without an error.
//
// Violations: windows of different sizes, or over memory that NCCL did not
// allocate; memory that is registered twice, freed while registered with a
// communicator, or still registered when the communicator is destroyed; ending
// a communicator while a graph refers to it, if that takes a second; launching
// a graph on an ended communicator, a captured call in progress when its
// capture ends, two operations of one communicator at once, two calls of one
// communicator at once, a call after its end, freeing it while a call is in
// progress; an abort outside a group; a communicator that does not block, or
// that is made outside a group, where nobody could abort it; ranks that call
// different operations, or one of them in a graph and another not; launches in
// an order that deadlocks (the violation has both devices' orders, and the
// communicators fail).

#ifndef LOCKSTEP_TESTS_SUPPORT_FAKE_NCCL_H_
#define LOCKSTEP_TESTS_SUPPORT_FAKE_NCCL_H_

#include <array>
#include <cstddef>
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

// One rank's part in one NCCL operation.
struct Part {
  transport::CollectiveKind kind;
  const void* in = nullptr;
  void* out = nullptr;
  size_t count = 0;
  transport::nccl::NcclDType dtype = transport::nccl::NcclDType::kUint8;
  transport::nccl::NcclOp op = transport::nccl::NcclOp::kSum;
  int peer = 0;
  bool in_graph = false;  // runs in a graph's launch
  // The offsets of `in` and `out` in windows that peers access.
  std::array<std::optional<size_t>, 2> window_offsets = {};
  uint64_t out_window = 0;  // the number of the second one's
  // Peers read `in` at a wrong offset of the window.
  bool read_elsewhere = false;

  bool point_to_point() const {
    return kind == transport::CollectiveKind::kSend ||
           kind == transport::CollectiveKind::kRecv;
  }
};

struct Comm;

// An operation of several ranks: a collective, or one message.
struct Rendezvous {
  std::map<int, Part> come;  // by rank; for a message: 0 sends, 1 receives
  // What they give to an all-gather: who has ended may free its own.
  std::map<int, std::vector<std::byte>> given;
  std::map<int, Comm*> needed;  // the ranks it needs, by the same keys
  std::set<int> ended;          // the ranks that have noticed its end
  bool over = false;
  bool broken = false;  // a rank that had arrived was aborted
  // An aborted rank has sent what it had: the others end with garbage.
  bool garbage = false;
};

struct Clique;
struct Device;

struct Launch {
  uint64_t number = 0;  // its number on the device
  FakeStream* stream = nullptr;
  uint64_t item = 0;
  std::vector<Part> parts;
  std::weak_ptr<FakeCapture> capture;  // the capture it becomes part of
  bool captured = false;
  std::set<std::string> first_uses;  // connections to make before it is queued
  // Once it has begun: its rendezvous, and its key in each.
  std::vector<std::pair<std::shared_ptr<Rendezvous>, int>> meetings;
  bool begun = false;
  int lag = 0;  // polls of the device until it notices the end
};

// Memory that is registered with a communicator.
struct Known {
  size_t bytes;
  bool window;
  uint64_t number = 0;  // of the window: the same on all ranks
};

struct Comm {
  Clique* clique = nullptr;
  Device* device = nullptr;
  int rank = 0;
  int made = 0;                           // its number on the device
  std::optional<std::thread::id> caller;  // whose call is in progress
  int polls_left = 0;
  std::shared_ptr<Launch> in_progress;  // queued once polls_left is 0
  transport::nccl::NcclResult error = transport::nccl::NcclResult::kSuccess;
  bool finalizing = false;
  bool aborted = false;
  bool over = false;   // aborted, or being destroyed
  bool freed = false;  // the call that ended it has returned
  std::set<std::string> connections;
  uint64_t collectives = 0;
  std::map<int, uint64_t> sent, received;
  std::map<const std::byte*, Known> known;  // memory, by its first address
  uint64_t windows = 0;                     // registered so far
  bool registering = false;                 // the last one
  std::vector<std::pair<std::shared_ptr<Rendezvous>, int>> meetings;
  // Referenced by every capture and graph that has one of its operations.
  std::shared_ptr<void> pin = std::make_shared<int>();
};

struct Clique {
  int number = 0;
  std::vector<Comm*> comms;  // by rank; null: has not joined
  bool connected = false;
  std::map<uint64_t, std::shared_ptr<Rendezvous>> collectives;
  std::map<std::array<uint64_t, 3>, std::shared_ptr<Rendezvous>> messages;
  std::map<uint64_t, std::map<int, size_t>> windows;  // bytes, by rank
  std::map<std::string, std::set<int>> connecting;    // the ranks that want it
};

struct Device {
  int number = 0;
  std::vector<Comm*> comms;  // in order of creation
  std::vector<int> aborts;
  std::vector<int> channels;  // limits, in order of creation; 0: none
  std::deque<std::pair<Comm*, std::shared_ptr<Launch>>> waiting;  // to begin
  std::vector<std::pair<Comm*, std::shared_ptr<Launch>>> residents;
  std::vector<int> order;  // in order of launch, as cliques
  uint64_t launches = 0;
  int nccl_version = 0;
  bool network_broken = false;
  int first_uses = 0;
};

// Methods are called with the scheduler's lock held.
class Fabric {
 public:
  Fabric(Scheduler* scheduler, int polls_max, int residents_max)
      : scheduler_(*scheduler),
        polls_max_(polls_max),
        residents_max_(residents_max) {}

  Scheduler& scheduler() { return scheduler_; }
  Device& device(int number);
  void ForgetOrders() {
    for (auto& [number, device] : devices_) device.order.clear();
  }
  transport::nccl::NcclUniqueId MakeId();
  Comm* Init(Device& device, int size, const transport::nccl::NcclUniqueId& id,
             int rank);

  int DrawPolls() { return static_cast<int>(scheduler_.Draw(polls_max_ + 1)); }
  // Begins the call that carries `launch`, and makes progress with it; true
  // once it is queued, or never will be.
  void Begin(Comm* comm, std::shared_ptr<Launch> launch);
  bool Progress(Comm& comm);
  // Queues it on its stream, to run or into a capture.
  void Enqueue(Comm* comm, const std::shared_ptr<Launch>& launch);
  // Sets the flag of an abort.
  void Abort(Comm* comm);
  // Waits, without the lock, until the communicators are freed.
  void AwaitFreed(const std::vector<Comm*>& comms, const char* call);
  bool Peaceful(const Comm& comm) const;

  // --- Memory (fake_windows.cc) ---
  void* MemAlloc(size_t bytes);
  void MemFree(void* memory);
  void RegisterWindow(Comm* comm, void* memory, size_t bytes);
  void Register(Comm* comm, void* memory, size_t bytes, bool window);
  void Deregister(Comm* comm, const void* memory);
  bool WindowsComplete(const Comm& comm) const;
  void FindInWindows(const Comm& comm, Part* part) const;

 private:
  std::optional<size_t> WindowOffset(const Comm& comm,
                                     const void* address) const;
  bool Run(Comm* comm, Launch& launch);
  bool MayBegin(const Comm& comm, const Launch& launch) const;
  void Start(Comm* comm, Launch& launch);
  // The rendezvous of the communicator's next operation of that kind, and its
  // key there.
  std::pair<std::shared_ptr<Rendezvous>, int> Next(Comm* comm,
                                                   const Part& part);
  void WantFirstUses(Comm* comm, Launch* launch);
  bool Connect(Comm& comm, Launch& launch);
  // What the peers of an aborted operation get.
  bool SendOn(Rendezvous& rendezvous);
  // An operation that has begun and is aborted writes to its peers' windows.
  void WriteToPeers(const Comm& comm, const Part& part);
  void WriteGarbage(const Comm& comm, const Part& part,
                    const Rendezvous& rendezvous) const;
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

// Performs a complete rendezvous on the buffers of its parts.
void Execute(const Rendezvous& rendezvous);
// The number of bytes that a rank contributes.
size_t InBytes(const Part& part);
// The number of bytes of `part.out` that it writes.
size_t OutBytes(const Part& part, int size);

}  // namespace lockstep::fake

#endif  // LOCKSTEP_TESTS_SUPPORT_FAKE_NCCL_H_
