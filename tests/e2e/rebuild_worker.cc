// A worker whose gradients become ready in the order of registration, the worst
// order for the first buckets, until rank 0 finds FILE.
//
//   rebuild_worker FILE
//
// Weights begin at 0; each step subtracts the reduced gradient, the sum over
// ranks of (rank + 1) * (parameter + 1). Prints "moved STEP" when its buckets
// have moved, and at the end "done STEPS WEIGHT...", one weight for each
// parameter.

#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "lockstep/gradient_sync.h"
#include "lockstep/session.h"

namespace lockstep {
namespace {

constexpr int kParameters = 6;
constexpr int64_t kElements = 1000;

absl::Status Train(Session& session, const char* file) {
  auto created = GradientSync::Create(session);
  if (!created.ok()) return created.status();
  GradientSync& sync = **created;
  std::vector<ParameterId> ids;
  for (int p = 0; p < kParameters; ++p) {
    auto id = sync.Register({.name = "layer." + std::to_string(p),
                             .shape = {kElements},
                             .op = ReduceOp::kSum});
    if (!id.ok()) return id.status();
    ids.push_back(*id);
  }
  if (absl::Status sealed = sync.Seal(); !sealed.ok()) return sealed;
  std::vector<absl::Span<float>> views;
  const auto fetch = [&] {
    views.clear();
    for (const ParameterId id : ids) views.push_back(*sync.Gradient<float>(id));
  };
  bool moved = false;
  sync.OnMoved([&] {
    moved = true;
    fetch();
  });
  fetch();

  std::vector<std::vector<double>> weights(kParameters);
  for (auto& weight : weights) weight.assign(kElements, 0);
  for (bool last = false; !last;) {
    for (int p = 0; p < kParameters; ++p) {
      for (float& x : views[p]) x = (session.rank() + 1.0f) * (p + 1.0f);
      absl::Status submitted = sync.Submit(ids[p]);
      if (!submitted.ok()) return submitted;
    }
    const bool more = session.rank() != 0 || access(file, F_OK) != 0;
    auto verdict = sync.Finish({.more_data = more});
    if (!verdict.ok()) return verdict.status();
    last = verdict->with_more_data < verdict->world_size;
    for (int p = 0; p < kParameters; ++p) {
      for (int64_t i = 0; i < kElements; ++i) weights[p][i] -= views[p][i];
    }
    if (moved) std::printf("moved %lu\n", verdict->step);
    std::fflush(stdout);
    moved = false;
  }
  std::printf("done %lu", sync.step());
  for (const auto& weight : weights) {
    for (const double w : weight) {
      if (w != weight[0]) return absl::DataLossError("elements differ");
    }
    std::printf(" %.0f", weight[0]);
  }
  std::printf("\n");
  return absl::OkStatus();
}

int Main(const char* file) {
  auto session = Session::Join({});
  absl::Status status = session.status();
  if (status.ok()) status = Train(**session, file);
  if (status.ok()) status = (*session)->Leave();
  if (status.ok()) return 0;
  std::printf("error %s\n", status.ToString().c_str());
  return 1;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  return argc == 2 ? lockstep::Main(argv[1]) : 2;
}
