// Workers of a benchmark: each a thread of its process, at a real coordinator.

#ifndef LOCKSTEP_BENCH_BENCH_WORKER_H_
#define LOCKSTEP_BENCH_BENCH_WORKER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/gradient_sync.h"
#include "lockstep/session.h"

namespace lockstep::bench {

// Prints an error and ends the process with 1.
void Must(const absl::Status& status, const char* what);

// A worker that makes a step when it is told to. An error ends the process.
class BenchWorker {
 public:
  // Joins, registers that many parameters of `elements` floats each, and seals.
  void Join(const JoinOptions& options, int parameters, int64_t elements);
  // One step of all parameters; of a negotiated job, announced as one pass.
  void Step();
  void Leave();
  uint64_t epoch() const { return session_->epoch(); }

 private:
  bool negotiated_ = false;
  std::unique_ptr<Session> session_;
  std::unique_ptr<GradientSync> sync_;
  std::vector<ParameterId> ids_;
};

// Calls `work` with each worker and its index, each in a thread of its own;
// returns when all have.
void AllAtOnce(std::vector<BenchWorker>& workers,
               const std::function<void(BenchWorker&, int)>& work);

}  // namespace lockstep::bench

#endif  // LOCKSTEP_BENCH_BENCH_WORKER_H_
