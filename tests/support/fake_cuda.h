// Streams and events of fake devices.
//
//   stream   [record a][kernel][wait b][...]   each item runs, or cannot yet
//
// As in CUDA: a wait for an event that was never recorded returns at once, a
// wait refers to the latest record before the call, and an event may be
// destroyed while a stream waits for it. Graphs: fake_graph.h. The following
// are violations, though CUDA reports none of them: waiting for or querying an
// event that was never recorded or is destroyed, recording an event twice (a
// waiter for the first record would see the second), freeing memory that is not
// allocated.
//
// Malloc, Free, HostAlloc and FreeHost wait until the work that the device has
// when they are called has run. A stream holds a bounded number of items; a
// call that adds one more waits for room. An item can run only some turns of
// the device after its call. Functions on the host run one after the other, on
// one thread for all streams of a device; calls of CUDA or NCCL from there are
// violations. A call that has waited for 20 s is a violation, and returns.
// Each of these can be switched off (Meanness).
//
// Each thread has a current device (none at first), a capture mode and a last
// error. A call from a thread whose device is another one, or none, is a
// violation: CUDA would create a context there, or refuse. During a capture in
// global mode, any call from a thread that is not in relaxed mode fails and
// invalidates that capture (CUDA does so for some calls, cudaEventQuery among
// them). A device can fail: its streams stop, and all calls return its error;
// NCCL does not report it.

#ifndef LOCKSTEP_TESTS_SUPPORT_FAKE_CUDA_H_
#define LOCKSTEP_TESTS_SUPPORT_FAKE_CUDA_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "client/transport/nccl/cuda_api.h"
#include "client/transport/nccl/kernel_api.h"
#include "tests/support/fake_graph.h"
#include "tests/support/fake_memory.h"

namespace lockstep::fake {

// What makes a fake device mean (docs/fake-gpus.md). The defaults are what the
// adapter survives.
struct Meanness {
  // Functions on the host run one after the other, on one thread per device.
  bool one_host_thread = true;
  // Operations of NCCL pass through that thread while a graph refers to their
  // communicator.
  bool nccl_on_host_thread = true;
  // Allocating and freeing memory, and ending a communicator, wait for the
  // device.
  bool calls_wait = true;
  // Items that a stream holds; 0: any number.
  int queue_depth = 1024;
  // Turns of the device until an item can run, at most.
  int latency_max = 3;
  // Devices run while nobody calls them, too.
  bool runs_unasked = true;
  // The first operation of each algorithm, and between each pair, blocks until
  // its peers have begun theirs.
  bool first_use_connects = true;
  // What an aborted operation sends to its peers.
  enum class Garbage {
    kNothing,  // they wait for ever
    kPoison,   // half of them end without an error, with 0xff
    // The same, but a sum is this rank's own input, and what is gathered is
    // what has come, also from the aborted rank.
    kOwnInput,
  };
  Garbage garbage = Garbage::kOwnInput;
};

struct FakeStream {
  struct Queued {
    Item run;
    uint64_t turn;  // the first turn of the device in which it can run
  };
  int device = 0;
  std::deque<Queued> items;
  uint64_t run = 0;     // items that have run
  uint64_t pushed = 0;  // the number of the last item
  bool destroyed = false;
  std::shared_ptr<FakeCapture> capture;  // the capture it is part of
};

// CUDA's state of a thread.
struct FakeThread {
  static constexpr int kNoDevice = -1;
  int device = kNoDevice;
  bool relaxed = false;
  bool in_host_function = false;
  transport::nccl::CudaResult last_error =
      transport::nccl::CudaResult::kSuccess;
};

// All streams, all memory, and the one lock over all fakes. Except for the
// constructor, methods are called with the lock held.
class Scheduler {
 public:
  using CudaResult = transport::nccl::CudaResult;

  explicit Scheduler(uint64_t seed, const Meanness& mean = {})
      : mean_(mean), random_(seed) {}

  const Meanness& mean() const { return mean_; }

  Mutex& mutex() { return mutex_; }
  uint64_t Draw(uint64_t below) { return random_() % below; }
  void Violation(std::string what) { violations_.push_back(std::move(what)); }
  const std::vector<std::string>& violations() const { return violations_; }

  DeviceMemory& memory() { return memory_; }

  // --- The calling thread ---
  FakeThread& thread() { return thread_states_[std::this_thread::get_id()]; }
  // The error of a call through the tables of `device` that must be refused;
  // kSuccess: none.
  CudaResult Refusal(int device, const char* call);
  // Sets the thread's last error.
  CudaResult Failed(CudaResult error) { return thread().last_error = error; }

  // --- Faults that a test injects ---
  void Break(int device, CudaResult error) { broken_[device] = error; }
  bool IsBroken(int device) const { return broken_.count(device) > 0; }
  void BreakAtQuery(int device, int queries) {
    queries_left_[device] = queries;
  }
  // Call first in each query of an event.
  void CountQuery(int device);
  void BeginForeignCapture() { foreign_capture_ = foreign_valid_ = true; }
  bool EndForeignCapture() {
    foreign_capture_ = false;
    return foreign_valid_;
  }

  // As FakeGpus::InvalidateCaptureAt.
  void InvalidateCaptureAt(int device, int calls) {
    invalid_at_[device] = calls;
  }
  int CaptureCallsLeft(int device) { return invalid_at_[device]; }
  // The error of a call on a stream whose capture is not valid.
  CudaResult CaptureRefusal(FakeStream* stream);
  FakeStream* MakeStream(int device);
  // Appends to the stream or, if it is being captured, to its branch, for each
  // launch. An item with state needs a Piece, which makes one for each launch.
  // Waits for room, without the lock.
  void Push(FakeStream* stream, Item item);
  void Push(FakeStream* stream, const Piece& piece);
  // The same for a stream that is not captured, whether it has room or not.
  void Append(FakeStream* stream, const Piece& piece);
  transport::nccl::CudaCaptureId NextCapture() { return ++captures_; }

  // Runs a few items, if any is ready.
  void RunOne();

  // Waits, without the lock, until the stream has room for an item.
  void AwaitRoom(FakeStream* stream);
  // How many calls wait for room on a stream of the device.
  int full_calls(int device) { return full_calls_[device]; }
  // Waits, without the lock, until the work that the device has now has run.
  // Ends at once if the device is broken.
  void AwaitDevice(int device, const char* call);
  // The same for what one stream has.
  void AwaitStream(FakeStream* stream, const char* call);
  // Waits, without the lock, until `over` returns true; the device runs
  // meanwhile. A violation, which names `call`, after 20 s.
  void AwaitThat(const std::function<bool()>& over, const char* call);
  // Whether the work that the device had when this was called has run.
  std::function<bool()> WorkOf(int device);

  // Calls `run` on the device's thread for functions on the host, without the
  // lock, and then sets `*done`.
  void CallOnHost(int device, std::function<void()> run,
                  std::shared_ptr<bool> done);

  // Threads of the fake. They end soon after `stopping` is true; Rest waits for
  // a change, at most `most`.
  void StartThread(std::function<void()> run) {
    threads_.emplace_back(std::move(run));
  }
  bool stopping() const { return stopping_; }
  void Rest(absl::Duration most) { changed_.WaitFor(&mutex_, most); }
  void Wake() { changed_.NotifyAll(); }
  // Called at the end, without the lock.
  void JoinThreads();

 private:
  struct HostCall {
    std::function<void()> run;
    std::shared_ptr<bool> done;
  };
  void RunHostCalls(std::deque<HostCall>* calls);
  // The thread of all devices: gives them turns beside those that calls give.
  void RunUnasked();
  bool HasWork() const;
  void RunOnHost(const HostCall& call);

  const Meanness mean_;
  Mutex mutex_;
  CondVar changed_;
  std::mt19937_64 random_;
  uint64_t turns_ = 0;
  uint64_t items_run_ = 0;
  std::map<int, int> queries_left_;
  std::map<int, int> invalid_at_;  // by device: calls until then
  std::map<int, int> full_calls_;
  std::map<int, std::deque<HostCall>> host_calls_;  // by device
  bool stopping_ = false;
  std::vector<std::string> violations_;
  DeviceMemory memory_;
  transport::nccl::CudaCaptureId captures_ = 0;
  std::map<std::thread::id, FakeThread> thread_states_;
  std::map<int, CudaResult> broken_;
  bool foreign_capture_ = false;
  bool foreign_valid_ = true;
  std::vector<std::unique_ptr<FakeStream>> streams_;
  std::vector<std::thread> threads_;
};

inline FakeStream* StreamOf(transport::nccl::CudaStreamHandle handle) {
  return reinterpret_cast<FakeStream*>(handle);
}

std::unique_ptr<transport::nccl::CudaApi> MakeFakeCuda(Scheduler* scheduler,
                                                       int device, int driver,
                                                       int runtime,
                                                       int devices);
std::unique_ptr<transport::nccl::KernelApi> MakeFakeKernels(
    Scheduler* scheduler, int device);

}  // namespace lockstep::fake

#endif  // LOCKSTEP_TESTS_SUPPORT_FAKE_CUDA_H_
