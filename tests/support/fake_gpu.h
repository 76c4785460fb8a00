// Fake GPUs and a fake NCCL, stricter than the real ones: every order and every
// delay that CUDA and NCCL allow may happen, and misuse that they ignore, or
// answer with corrupt data, is recorded as a violation.
//
//   FakeGpus gpus({.seed = 7});
//   auto transport = nccl::MakeTransport(gpus.TablesOf(rank));   // one device
//   ...                                                          // a rank
//   EXPECT_THAT(gpus.violations(), IsEmpty());
//
// The host cannot access device memory (fake_memory.h), kernels are their host
// references, and sums are made in rank order. Work of a device runs, one piece
// at a time, in an order drawn from the seed, during calls to the device, and
// on a thread of its own where there are none. fake_nccl.h and fake_cuda.h
// describe what is modelled of NCCL and CUDA; docs/fake-gpus.md lists what
// makes it hard for the adapter, and why.
//
// Threads: any.

#ifndef LOCKSTEP_TESTS_SUPPORT_FAKE_GPU_H_
#define LOCKSTEP_TESTS_SUPPORT_FAKE_GPU_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/transport/nccl/comm_state.h"
#include "tests/support/fake_cuda.h"

namespace lockstep::fake {

struct GpuOptions {
  uint64_t seed = 1;
  // A call of NCCL blocks for 0 to this many turns of the device.
  int polls_max = 4;
  // NCCL operations that run on one device at once.
  int residents_max = 1;
  int nccl_version = 22809;
  int cuda_driver = 13000;  // 0: no driver
  int cuda_runtime = 13000;
  int devices = 1;
  Meanness mean = {};
};

class FakeGpus {
 public:
  explicit FakeGpus(const GpuOptions& options = {});
  ~FakeGpus();
  FakeGpus(const FakeGpus&) = delete;
  FakeGpus& operator=(const FakeGpus&) = delete;

  // The tables of device `device`; they must not outlive this object.
  transport::nccl::Tables TablesOf(int device);

  // Translates a device address into one that the host can access, and returns
  // any other address unchanged. For kernels of a test, and for a test that
  // reads memory while no stream has work.
  template <typename T>
  T* Reach(T* address) const {
    return static_cast<T*>(const_cast<void*>(Find(address)));
  }

  // Launches a kernel of the test. It runs under the lock of all devices, so it
  // must not call this class: call Reach before.
  void LaunchKernel(transport::nccl::CudaStreamHandle stream,
                    std::function<void()> kernel);

  // Stalls the stream until `open`, called as a kernel, returns true.
  void StallUntil(transport::nccl::CudaStreamHandle stream,
                  std::function<bool()> open);

  // From then on, every communicator of the device reports a lost peer.
  void BreakNetworkOf(int device);

  // From then on, the device runs nothing, and all calls return an error, as
  // after a kernel's illegal memory access.
  void BreakDevice(int device);
  // The same, at the device's `queries`-th query of an event from now, which is
  // the first call to return the error.
  void BreakDeviceAtQuery(int device, int queries);

  // The `calls`-th call from now on a captured stream of the device finds the
  // capture invalid, as after a forbidden call of another thread; 0: none does.
  void InvalidateCaptureAt(int device, int calls);
  // How many calls are left until then; 0: it is invalid.
  int CaptureCallsLeft(int device);

  // Another library captures a stream in global mode, as torch does, until End,
  // which returns whether that capture is still valid.
  void BeginForeignCapture();
  bool EndForeignCapture();

  // CUDA's state of the calling thread.
  FakeThread CallingThread() const;
  void SetCallingThread(const FakeThread& thread);

  // All violations, in order.
  std::vector<std::string> violations() const;
  // The order in which the device's communicators were aborted; a
  // communicator's number is the order of its creation on the device.
  std::vector<int> AbortsOf(int device) const;
  // The channel limits of the device's communicators, in the order of creation;
  // 0: NCCL's default.
  std::vector<int> ChannelsOf(int device) const;
  // How often an operation of the device was the first to use a connection.
  int FirstUsesOf(int device) const;
  // A violation has the orders of launches from now on.
  void ForgetOrders();
  // How many calls wait for room on a stream of the device now.
  int FullCallsOf(int device) const;

 private:
  const void* Find(const void* address) const;
  struct World;
  const std::unique_ptr<World> world_;
};

}  // namespace lockstep::fake

#endif  // LOCKSTEP_TESTS_SUPPORT_FAKE_GPU_H_
