// GPUs and NCCL without either, meaner than the real ones: every order and
// every delay that CUDA and NCCL allow may happen, and what they would answer
// with silence or corruption is written down.
//
//   FakeGpus gpus({.seed = 7});
//   auto transport = nccl::MakeTransport(gpus.TablesOf(rank));   // one device
//   ...                                                          // a rank
//   EXPECT_THAT(gpus.violations(), IsEmpty());
//
// Device memory lies where the host cannot reach it (fake_memory.h), kernels
// are their host twins, sums are made in rank order. Devices have no threads:
// work runs, one piece at a time, in an order drawn from the seed, while
// somebody asks the device for something. What is modelled of NCCL
// (fake_nccl.h) and CUDA (fake_cuda.h) is said there.
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
  // A call is in progress for 0 to this many polls.
  int polls_max = 4;
  // Operations of NCCL that run on one device at once.
  int residents_max = 1;
  int nccl_version = 22809;
  int cuda_driver = 13000;  // 0: none
  int cuda_runtime = 13000;
  int devices = 1;
};

class FakeGpus {
 public:
  explicit FakeGpus(const GpuOptions& options = {});
  ~FakeGpus();
  FakeGpus(const FakeGpus&) = delete;
  FakeGpus& operator=(const FakeGpus&) = delete;

  // The tables of device `device`; they must not outlive this object.
  transport::nccl::Tables TablesOf(int device);

  // Where the host finds what lies at a device's address; any other address is
  // itself. For kernels of a test's own, and for a test that looks while no
  // stream has work.
  template <typename T>
  T* Reach(T* address) const {
    return static_cast<T*>(const_cast<void*>(Find(address)));
  }

  // A kernel of the test's own. It runs under the lock of all devices, so it
  // must call nothing of this class: what it needs of Reach comes before.
  void LaunchKernel(transport::nccl::CudaStreamHandle stream,
                    std::function<void()> kernel);

  // The stream goes on only once `open` is true, which is called as a kernel.
  void StallUntil(transport::nccl::CudaStreamHandle stream,
                  std::function<bool()> open);

  // Every communicator of the device hears from now on that a peer is gone.
  void BreakNetworkOf(int device);

  // From now on the device runs nothing, and all calls return an error, as
  // after a kernel that wrote where it must not.
  void BreakDevice(int device);

  // Somebody else captures a stream in global mode, as torch does, until End,
  // which says whether that was left valid.
  void BeginForeignCapture();
  bool EndForeignCapture();

  // What CUDA keeps for the calling thread.
  FakeThread CallingThread() const;
  void SetCallingThread(const FakeThread& thread);

  // What was done that must not be done, in order.
  std::vector<std::string> violations() const;
  // In which order the device's communicators were aborted, by the order in
  // which they were made on it.
  std::vector<int> AbortsOf(int device) const;
  // How many channels each of the device's communicators may have, in the order
  // in which they were made; 0: as many as NCCL likes.
  std::vector<int> ChannelsOf(int device) const;

 private:
  const void* Find(const void* address) const;
  struct World;
  const std::unique_ptr<World> world_;
};

}  // namespace lockstep::fake

#endif  // LOCKSTEP_TESTS_SUPPORT_FAKE_GPU_H_
