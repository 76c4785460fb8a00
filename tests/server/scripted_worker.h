// A worker that a test scripts: from Hello to Start, one message at a time.
//
// Workers of one job take the steps together, each step for all workers before
// the next step, so that a test needs no threads:
//
//   for (auto& w : workers) w.PostHello();
//   for (auto& w : workers) w.Register();
//   ...
//
// It works over any stream, a fake one or gRPC's.

#ifndef LOCKSTEP_TESTS_SERVER_SCRIPTED_WORKER_H_
#define LOCKSTEP_TESTS_SERVER_SCRIPTED_WORKER_H_

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "plan/ir.h"
#include "protocol/protocol.h"

namespace lockstep {

inline JobSpec SpecOf(const std::string& name, int workers) {
  JobSpec spec;
  spec.name = name;
  spec.mesh = {{{"data", workers}}};
  return spec;
}

// The worker's end of a stream. Hear blocks; a test fails if the stream ends.
class WorkerLine {
 public:
  virtual ~WorkerLine() = default;
  virtual void Post(const protocol::ToCoordinator& message) = 0;
  virtual protocol::ToWorker Receive() = 0;
};

class ScriptedWorker {
 public:
  ScriptedWorker(WorkerLine* line, JobSpec spec, std::string name)
      : line_(line), spec_(std::move(spec)), name_(std::move(name)) {}

  template <typename Body>
  void Post(Body body) {
    line_->Post(
        {.job = {spec_.name}, .epoch = epoch_, .body = std::move(body)});
  }

  // The next message of this kind; others are skipped.
  template <typename Body>
  Body Next() {
    while (true) {
      const protocol::ToWorker message = line_->Receive();
      if (const auto* body = std::get_if<Body>(&message.body)) {
        if (message.epoch.value != 0) epoch_ = message.epoch;
        return *body;
      }
      const bool is_refused =
          std::holds_alternative<protocol::Refused>(message.body);
      if (is_refused || testing::Test::HasFailure()) {
        ADD_FAILURE() << name_ << " waits in vain";
        return {};
      }
    }
  }

  protocol::Hello Hello() const {
    return {.worker = {name_},
            .incarnation = std::hash<std::string>{}(name_) | 1,
            .spec = spec_,
            .process = {
                .host = "here", .pid = 1, .boot_id = "boot", .start_time = 7}};
  }

  // --- The script -----------------------------------------------------------

  void PostHello() { Post(Hello()); }

  void Register(const std::vector<protocol::RegisterChunk>& chunks) {
    const auto welcome = Next<protocol::Welcome>();
    generation_ = welcome.generation;
    secret_ = welcome.secret;
    rank_ = Next<protocol::EpochFormed>().rank;
    for (const protocol::RegisterChunk& chunk : chunks) Post(chunk);
  }
  void Register() {
    Register({{.last = true, .parameters = {{.name = "w", .shape = {4}}}}});
  }

  const std::string& AwaitPlan() {
    const auto ready = Next<protocol::PlanReady>();
    revision_ = ready.revision;
    digest_ = ready.digest;
    return digest_;
  }

  void Publish(const plan::Plan& plan) {
    Post(protocol::PlanAck{revision_, digest_});
    protocol::PublishHandles mine;
    for (size_t i = 0; i < plan.communicators.size(); ++i) {
      const std::vector<int>& ranks = plan.communicators[i].ranks;
      if (std::count(ranks.begin(), ranks.end(), rank_) == 0) continue;
      mine.handles.push_back({static_cast<int>(i), absl::StrCat("h", rank_)});
    }
    groups_ = mine.handles.size();
    Post(mine);
  }

  void Connect() {
    for (size_t i = 0; i < groups_; ++i) Next<protocol::GroupHandles>();
    Post(protocol::Connected{});
  }

  void AwaitStart() { Next<protocol::Start>(); }

  // --- State ----------------------------------------------------------------

  const std::string& name() const { return name_; }
  Generation generation() const { return generation_; }
  const std::string& secret() const { return secret_; }
  EpochId epoch() const { return epoch_; }
  Revision revision() const { return revision_; }
  const std::string& digest() const { return digest_; }

 private:
  WorkerLine* line_;
  const JobSpec spec_;
  const std::string name_;
  Generation generation_;
  std::string secret_;
  EpochId epoch_;
  int rank_ = -1;
  Revision revision_;
  std::string digest_;
  size_t groups_ = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SERVER_SCRIPTED_WORKER_H_
