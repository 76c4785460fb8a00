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

struct FakeStream {
  int device = 0;
  std::deque<Item> items;
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
  transport::nccl::CudaResult last_error =
      transport::nccl::CudaResult::kSuccess;
};

// All streams, all memory, and the one lock over all fakes. Except for the
// constructor, methods are called with the lock held.
class Scheduler {
 public:
  using CudaResult = transport::nccl::CudaResult;

  explicit Scheduler(uint64_t seed) : random_(seed) {}

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
  void BeginForeignCapture() { foreign_capture_ = foreign_valid_ = true; }
  bool EndForeignCapture() {
    foreign_capture_ = false;
    return foreign_valid_;
  }

  FakeStream* MakeStream(int device);
  // Appends to the stream or, if it is being captured, to its branch, for each
  // launch. An item with state needs a Piece, which makes one for each launch.
  void Push(FakeStream* stream, Item item);
  void Push(FakeStream* stream, const Piece& piece);
  transport::nccl::CudaCaptureId NextCapture() { return ++captures_; }

  // Runs a few items, if any is ready.
  void RunOne();

  void StartThread(std::function<void()> run) {
    threads_.emplace_back(std::move(run));
  }
  // Called at the end, without the lock.
  void JoinThreads() {
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  Mutex mutex_;
  std::mt19937_64 random_;
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
