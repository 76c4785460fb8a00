// Whole jobs on fake GPUs, in one process: the real coordinator core and NCCL's
// adapter, and a device for each worker.
//
//   FakeGpuJob job({.name = "job", .mesh = ..., .transport = "nccl"},
//   /*seed=*/5); auto session = job.Join(/*worker=*/0);        // on a thread
//   of its own
//
// Threads: any.

#ifndef LOCKSTEP_TESTS_SUPPORT_FAKE_GPU_JOB_H_
#define LOCKSTEP_TESTS_SUPPORT_FAKE_GPU_JOB_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "client/session/session_impl.h"
#include "client/transport/nccl/nccl.h"
#include "lockstep/recovery.h"
#include "lockstep/session.h"
#include "tests/support/fake_control_core.h"
#include "tests/support/fake_gpu.h"

namespace lockstep::session {

class FakeGpuJob {
 public:
  // With timeouts for slow machines. Other fields of the spec may be changed
  // until the first Join.
  FakeGpuJob(JobSpec spec, uint64_t seed)
      : spec_(std::move(spec)), gpus_({.seed = seed}) {
    spec_.timeouts.join = absl::Seconds(60);
    spec_.timeouts.resume = absl::Seconds(60);
    spec_.timeouts.lease = absl::Seconds(60);
  }

  JobSpec& spec() { return spec_; }
  fake::FakeGpus& gpus() { return gpus_; }
  CoreServer& server() { return server_; }

  // Tables of the device of this number. A worker's streams use the same tables
  // as its session, and not longer than them.
  transport::nccl::Tables TablesOf(int worker) {
    return gpus_.TablesOf(worker);
  }

  // "worker-0", ...; blocks as Session::Join.
  absl::StatusOr<std::unique_ptr<Session>> Join(
      int worker, const transport::nccl::Tables& tables,
      const std::optional<Recovery>& recovered = std::nullopt) {
    return Session::Impl::Join(
        {.addresses = {"core"},
         .job = spec_.name,
         .worker = "worker-" + std::to_string(worker),
         .spec = spec_,
         .recovered = recovered},
        {.channels = MakeFakeChannels(&server_),
         .make_transport =
             [tables](const JobSpec&) {
               return transport::nccl::MakeTransport(tables);
             },
         .clock = clock_,
         .process = {"host", worker, "boot"},
         .incarnation = ++incarnations_});
  }

  // A command of an operator.
  absl::Status Ask(JobCommand command) {
    return server_.Ask([&](core::RequestId request) {
      return core::CommandJob{request, {spec_.name}, "", command};
    });
  }
  JobView Describe() { return *server_.Describe(spec_.name); }

 private:
  JobSpec spec_;
  std::shared_ptr<Clock> clock_ = std::make_shared<SystemClock>();
  std::atomic<uint64_t> incarnations_ = 0;
  CoreServer server_{clock_.get()};
  fake::FakeGpus gpus_;
};

}  // namespace lockstep::session

#endif  // LOCKSTEP_TESTS_SUPPORT_FAKE_GPU_JOB_H_
