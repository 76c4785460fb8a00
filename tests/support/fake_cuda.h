// Streams and events of devices that are none.
//
//   stream   [record a][kernel][wait b][...]   each item runs, or cannot yet
//
// As CUDA: a wait for an event that was never recorded waits for nothing, a
// wait stands for the latest record before the call, an event may be destroyed
// while a stream waits for it. Graphs: fake_graph.h. Violations, though CUDA
// says nothing: waiting for or asking about an event that was never recorded or
// is destroyed, recording one twice (what waits for its first moment would see
// its second), freeing what is not allocated.
//
// Each thread has a current device, none at first, a capture mode and a last
// error. A call from a thread whose device is another one, or none, is a
// violation: CUDA would make a context there, or refuse. While somebody
// captures in global mode, any call from a thread that is not in relaxed mode
// fails and makes that capture invalid (CUDA so answers a part of them,
// cudaEventQuery among these). A device can fail: its streams run no more, and
// all calls return its error; NCCL does not tell.

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
  std::shared_ptr<FakeCapture> capture;  // that it is part of
};

// What CUDA keeps for a thread.
struct FakeThread {
  static constexpr int kNoDevice = -1;
  int device = kNoDevice;
  bool relaxed = false;
  transport::nccl::CudaResult last_error =
      transport::nccl::CudaResult::kSuccess;
};

// All streams, all memory, and the one lock over everything that is fake.
// Methods but for the constructor are called with the lock held.
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
  // What stands in the way of a call through the tables of `device`: the
  // call's result then. kSuccess: nothing.
  CudaResult Refusal(int device, const char* call);
  // `error` becomes the thread's last one.
  CudaResult Failed(CudaResult error) { return thread().last_error = error; }

  // --- What a test makes happen ---
  void Break(int device, CudaResult error) { broken_[device] = error; }
  void BeginForeignCapture() { foreign_capture_ = foreign_valid_ = true; }
  bool EndForeignCapture() {
    foreign_capture_ = false;
    return foreign_valid_;
  }

  FakeStream* MakeStream(int device);
  // To the end of the stream; or, if it is being captured, of its branch, for
  // each launch. An item with a state of its own wants a piece that makes it.
  void Push(FakeStream* stream, Item item);
  void Push(FakeStream* stream, const Piece& piece);
  transport::nccl::CudaCaptureId NextCapture() { return ++captures_; }

  // Runs a few items, if any can run.
  void RunOne();

  void StartThread(std::function<void()> run) {
    threads_.emplace_back(std::move(run));
  }
  // At the end, without the lock.
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
