// A whole job in negotiated mode in one process: the real coordinator core,
// sessions, gradients and the in-process transport; each rank's program on a
// thread of its own.

#ifndef LOCKSTEP_TESTS_CLIENT_GRADIENT_NEGOTIATED_JOB_H_
#define LOCKSTEP_TESTS_CLIENT_GRADIENT_NEGOTIATED_JOB_H_

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "client/session/session_impl.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/gradient_sync.h"
#include "tests/support/fake_control_core.h"
#include "tests/support/inproc/inproc.h"

namespace lockstep::gradient {

// The objects of a rank's program; `sync` is sealed before the first pass.
struct Device {
  Session& session;
  GradientSync& sync;
  std::vector<ParameterId> ids;          // in order of registration
  std::unique_ptr<GradientSync>& owner;  // of `sync`

  int rank() const { return session.rank(); }
  float* view(int p) { return sync.Gradient<float>(ids[p])->data(); }
};

class NegotiatedJob : public testing::Test {
 protected:
  using Program = std::function<absl::Status(Device&)>;
  using Registration = std::function<std::vector<ParameterOptions>(int rank)>;

  // Every rank registers, runs the program and leaves; returns their statuses.
  std::vector<absl::Status> Run(int world, const Registration& registration,
                                const Program& program) {
    spec_.mesh = mesh_.axes.empty() ? Mesh{{{"data", world}}} : mesh_;
    std::vector<std::future<absl::Status>> ending;
    for (int i = 0; i < world; ++i) {
      ending.push_back(std::async(std::launch::async, [&, i] {
        return Live(i, registration, program);
      }));
    }
    std::vector<absl::Status> ended;
    for (auto& each : ending) ended.push_back(each.get());
    return ended;
  }

  // As Run, and expects every status to be OK.
  void RunWell(int world, const Registration& registration,
               const Program& program) {
    for (const absl::Status& ended : Run(world, registration, program)) {
      EXPECT_TRUE(ended.ok()) << ended;
    }
  }

  virtual absl::StatusOr<std::unique_ptr<transport::Transport>> MakeTransport(
      int /*worker*/) {
    return transport::MakeInprocTransport(&hub_);
  }

  // Called for each rank after it has registered.
  virtual void BeforeSeal(GradientSync&) {}

  absl::Status ReportDeath(int worker) {
    return server_.Ask([&](core::RequestId request) {
      return core::ReportEvidence{
          .request = request,
          .job = {spec_.name},
          .evidence = {.subject = {NameOf(worker)},
                       .kind = protocol::EvidenceKind::kExited,
                       .detail = "killed by signal 9",
                       .process = ProcessOf(worker)}};
    });
  }

  static protocol::ProcessInfo ProcessOf(int worker) {
    return {"host", worker + 1, "boot", 1};
  }

  static std::string NameOf(int worker) {
    return "worker-" + std::to_string(worker);
  }

  JobSpec spec_ = [] {
    JobSpec spec{
        .name = "job", .sync = SyncMode::kNegotiated, .transport = "shm"};
    spec.timeouts.join = absl::Seconds(20);
    spec.timeouts.resume = absl::Seconds(20);  // for slow machines
    spec.timeouts.lease = absl::Seconds(20);
    return spec;
  }();
  Mesh mesh_;  // for `world` ranks; without axes: one, "data"
  std::shared_ptr<Clock> clock_ = std::make_shared<SystemClock>();
  std::atomic<uint64_t> incarnations_ = 0;
  session::CoreServer server_{clock_.get()};
  transport::InprocHub hub_;

 private:
  absl::Status Live(int worker, const Registration& registration,
                    const Program& program) {
    auto session = Session::Impl::Join(
        {.addresses = {"core"},
         .job = spec_.name,
         .worker = NameOf(worker),
         .spec = spec_},
        {.channels = session::MakeFakeChannels(&server_),
         .make_transport =
             [this, worker](const JobSpec&) { return MakeTransport(worker); },
         .clock = clock_,
         .process = ProcessOf(worker),
         .incarnation = ++incarnations_});
    if (!session.ok()) return session.status();
    auto sync = GradientSync::Create(**session);
    if (!sync.ok()) return sync.status();
    Device device{**session, **sync, {}, *sync};
    for (const ParameterOptions& options : registration(device.rank())) {
      absl::StatusOr<ParameterId> id = (*sync)->Register(options);
      if (!id.ok()) return id.status();
      device.ids.push_back(*id);
    }
    BeforeSeal(**sync);
    if (absl::Status sealed = (*sync)->Seal(); !sealed.ok()) return sealed;
    if (absl::Status ended = program(device); !ended.ok()) return ended;
    return (*session)->Leave();
  }
};

// Returns the error from the rank's program.
#define LOCKSTEP_TEST_TRY(expression)                                 \
  do {                                                                \
    if (absl::Status tried = (expression); !tried.ok()) return tried; \
  } while (false)

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_TESTS_CLIENT_GRADIENT_NEGOTIATED_JOB_H_
