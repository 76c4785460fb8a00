// One rank of the fault suite: its operations and its findings.

#ifndef LOCKSTEP_TESTS_CLIENT_TRANSPORT_NCCL_FAULT_RANK_H_
#define LOCKSTEP_TESTS_CLIENT_TRANSPORT_NCCL_FAULT_RANK_H_

#include <unistd.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/transport/nccl/graph.h"
#include "tests/client/transport/nccl/fake_world.h"

namespace lockstep::fake {

inline constexpr int kRanks = 2;
inline constexpr size_t kCount = 7;

// Writes findings to a pipe; a timeout ends the process.
class Reporter {
 public:
  explicit Reporter(int to) : to_(to) {}

  void Log(const std::string& what) {
    const std::string line = what + "\n";
    (void)!write(to_, line.data(), line.size());
  }
  void Expect(bool holds, const std::string& what) {
    if (!holds) Log(what);
  }
  [[noreturn]] void Late(const std::string& what) {
    Log("late: " + what);
    if (world_ != nullptr) Report();
    _exit(0);
  }

  // The world whose violations are reported. Set it while no rank runs.
  void set_world(FakeGpuWorld* world) { world_ = world; }
  void Report() {
    for (const std::string& violation : world_->gpus().violations()) {
      Log("violation: " + violation);
    }
  }

 private:
  const int to_;
  FakeGpuWorld* world_ = nullptr;
};

// Buffers that outlive a fault: late writes end up here.
class Memory {
 public:
  float* Take(float value, size_t count = kCount) {
    MutexLock lock(&mutex_);
    buffers_.emplace_back(count, value);
    return buffers_.back().data();
  }

 private:
  Mutex mutex_;
  std::deque<std::vector<float>> buffers_ ABSL_GUARDED_BY(mutex_);
};

// One rank of the suite.
class Rank {
 public:
  Rank(FakeGpuWorld* world, Reporter* reporter, Memory* memory, int rank,
       absl::Duration patience)
      : world_(*world),
        reporter_(*reporter),
        memory_(*memory),
        rank_(rank),
        patience_(patience) {}

  void Connect(const std::vector<std::string>& handles, int group) {
    auto made = pending_[group]->Connect(handles, patience_);
    if (!made.ok()) reporter_.Late("connect: " + made.status().ToString());
    groups_[group] = *std::move(made);
  }
  std::string Prepare(int group) {
    auto made = world_.at(rank_).Prepare(
        {.name = group == 0 ? "verdict" : "g",
         .rank = rank_,
         .size = kRanks,
         .traffic = group == 0 ? transport::TrafficClass::kSmall
                               : transport::TrafficClass::kBulk});
    if (!made.ok()) reporter_.Late("prepare: " + made.status().ToString());
    pending_[group] = *std::move(made);
    return pending_[group]->handle();
  }
  void Open() {
    first_ = world_.MakeStream(rank_, "first");
    second_ = world_.MakeStream(rank_, "second");
  }

  Communicator& verdict() { return *groups_[0]; }
  Communicator& gradient() { return *groups_[1]; }
  Stream& first() { return *first_; }
  Stream& second() { return *second_; }

  void Kernel(Stream& stream, std::function<void()> work) {
    world_.Enqueue(stream, std::move(work));
  }
  void Posted(const absl::Status& status) {
    reporter_.Expect(status.ok(), "refused: " + status.ToString());
  }
  absl::Status Await(Stream& stream, const char* what) {
    if (!stream.Record().Wait(patience_).ok()) reporter_.Late(what);
    return stream.Synchronize();
  }
  void Await(const Event& event, const char* what) {
    if (!event.Wait(patience_).ok()) reporter_.Late(what);
  }
  void Finish(Stream& stream, const char* what) {
    const absl::Status ended = Await(stream, what);
    reporter_.Expect(ended.ok(), absl::StrCat(what, ": ", ended.ToString()));
  }
  void Await(const std::atomic<bool>& done, const char* what);
  void BreakNetwork() { world_.gpus().BreakNetworkOf(rank_); }
  void ExpectValue(const char* what, float value, float expected) {
    reporter_.Expect(value == expected,
                     absl::StrCat("wrong value: ", what, " is ", value,
                                  " and should be ", expected));
  }
  // Stalls the stream until `*open`.
  void Stall(Stream& stream, std::atomic<bool>* open);
  // Enqueues an operation; its peer may never arrive.
  void Post(Communicator& group, Stream& stream) {
    float* const value = memory_.Take(0);
    Posted(group.AllReduce(value, value, kCount, DType::kF32, ReduceOp::kSum,
                           stream));
  }
  // The same, and waits until it is queued.
  void Hang(Communicator& group, Stream& stream) {
    Post(group, stream);
    Kernel(stream, [] {});
  }
  // Records events until the stream has no room for the last ones.
  void Fill(Stream& stream);
  // Waits until so many calls wait for room.
  void AwaitFull(int calls);
  void VerdictIsQueued(const char* what);
  // A function on each of two streams.
  void CallsOnHost(const char* what);
  void LeaveGradient() { groups_[1].reset(); }
  void Leave() {
    for (auto& group : groups_) group.reset();
  }

  // One step: a kernel computes gradients, a kernel uses their mean; also a
  // message, and a verdict on another stream.
  void Step(int round);
  void Propagates();
  // More elements than the verdict's group has memory for at once.
  void PropagatesMuch();
  void Meets(std::atomic<int>* come, int round);

  // The step as a graph: captured once, launched for some steps. The graph
  // remains, for tests that end the communicators before it.
  void CaptureStep();
  void LaunchStep(int round);
  // An operation of a communicator in the graph, beside the graph.
  void LaunchBesideAVerdict();
  void BeginStep() {
    (void)graph_->Launch(static_cast<transport::nccl::CudaStream&>(first()));
  }
  void ForgetStep() { graph_ = nullptr; }

  // Registers a bucket with the gradient's group in place of the previous one,
  // whose memory it may keep: as after a switch of revisions.
  void EnlistBucket(bool same_memory = false);
  void StepInBucket(int round);
  float* bucket() { return reinterpret_cast<float*>(bucket_.data()); }
  void ForgetBucket() { enlisted_ = nullptr; }

 private:
  FakeGpuWorld& world_;
  Reporter& reporter_;
  Memory& memory_;
  const int rank_;
  const absl::Duration patience_;
  std::unique_ptr<transport::PendingGroup> pending_[2];
  std::unique_ptr<Communicator> groups_[2];
  std::unique_ptr<Stream> first_, second_;
  std::unique_ptr<transport::nccl::LaunchableGraph> graph_;
  float* given_ = nullptr;  // input of the captured step
  float* used_ = nullptr;
  ArenaBuffer bucket_;
  std::unique_ptr<transport::BufferRegistration>
      enlisted_;  // destroyed before the memory
};

}  // namespace lockstep::fake

#endif  // LOCKSTEP_TESTS_CLIENT_TRANSPORT_NCCL_FAULT_RANK_H_
