// A worker that only synchronises: many small steps, as fast as possible.
//
//   steady_worker STEPS
//
// Worker 0 prints its progress for the test:
//
//   step 500 312        steps done, median microseconds of the last 500
//   done 10000 57 14.2  steps, messages to the coordinator, seconds

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "client/session/session_impl.h"
#include "lockstep/gradient_sync.h"
#include "lockstep/session.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kParameters = 20;
constexpr int kReportEvery = 500;

double MicrosecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start)
      .count();
}

absl::Status Train(lockstep::Session& session, int steps) {
  auto sync = lockstep::GradientSync::Create(session);
  if (!sync.ok()) return sync.status();
  std::vector<lockstep::ParameterId> ids;
  for (int p = 0; p < kParameters; ++p) {
    auto id =
        (*sync)->Register({.name = "p" + std::to_string(p), .shape = {64}});
    if (!id.ok()) return id.status();
    ids.push_back(*id);
  }
  if (absl::Status sealed = (*sync)->Seal(); !sealed.ok()) return sealed;

  std::vector<double> times;
  const Clock::time_point began = Clock::now();
  for (int step = 1; step <= steps; ++step) {
    const Clock::time_point start = Clock::now();
    for (int p = kParameters; p-- > 0;) {
      (*(*sync)->Gradient<float>(ids[p]))[0] =
          static_cast<float>(session.rank() + 1);
      if (absl::Status s = (*sync)->Submit(ids[p]); !s.ok()) return s;
    }
    auto verdict = (*sync)->Finish({.samples = 1});
    if (!verdict.ok()) return verdict.status();
    times.push_back(MicrosecondsSince(start));
    if (step % kReportEvery == 0 && session.rank() == 0) {
      std::nth_element(times.begin(), times.begin() + times.size() / 2,
                       times.end());
      std::printf("step %d %.0f\n", step, times[times.size() / 2]);
      std::fflush(stdout);
      times.clear();
    }
  }
  std::printf("done %d %d %.3f\n", steps,
              static_cast<int>(session.impl().messages_sent()),
              MicrosecondsSince(began) / 1e6);
  std::fflush(stdout);
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc == 2 ? std::atoi(argv[1]) : 0;
  auto session = lockstep::Session::Join({});
  absl::Status status = session.status();
  if (status.ok()) status = Train(**session, steps);
  if (status.ok()) status = (*session)->Leave();
  if (status.ok()) return 0;
  std::fprintf(stderr, "steady_worker: %s\n", status.ToString().c_str());
  return 1;
}
