#include <cstdio>
#include <vector>

#include "lockstep/gradient_sync.h"
#include "lockstep/session.h"

// Fits y = w x by gradient descent; every worker has its own points.
int main() {
  auto session = lockstep::Session::Join({});  // options from LOCKSTEP_*
  if (!session.ok()) return std::puts(session.status().ToString().c_str()), 1;
  auto sync = lockstep::GradientSync::Create(**session);
  auto id = (*sync)->Register({.name = "w", .shape = {1}});  // f32, mean
  if (auto status = (*sync)->Seal(); !status.ok()) {
    return std::puts(status.ToString().c_str()), 1;
  }
  const auto gradient = *(*sync)->Gradient<float>(*id);  // in its bucket

  float w = 0;
  const float x = 1.0f + (*session)->rank(), y = 3 * x;
  for (int step = 0; step < 100; ++step) {
    gradient[0] = 2 * (w * x - y) * x;
    if (auto status = (*sync)->Submit(*id); !status.ok()) {  // may be sent now
      return std::puts(status.ToString().c_str()), 1;
    }
    auto verdict = (*sync)->Finish({.samples = 1});
    if (!verdict.ok()) return std::puts(verdict.status().ToString().c_str()), 1;
    const float mean = gradient[0];          // over all workers
    if (verdict->finite) w -= 0.02f * mean;  // else every worker skips the step
    if (verdict->IsLast()) break;  // an operator stopped the job, on all ranks
  }
  std::printf("worker %d: w = %.3f\n", (*session)->rank(), w);
  const auto left = (*session)->Leave();
  return left.ok() ? 0 : (std::puts(left.ToString().c_str()), 1);
}
