// One worker of the digits job: run it under `lockstepctl run`.
//
//   lockstepctl run -n 4 -- digits --steps 20
//
// Each worker trains the same network on its share of every step's samples.
// Gradients live in Lockstep's buckets; each is submitted as soon as the
// backward pass has made it, and the update waits for the sum over all workers.
// Buckets may be cut anew while it trains: then the gradients are bound again.
// In a job whose spec says sync: negotiated, each step announces them first.

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "examples/digits/dataset.h"
#include "examples/digits/flags.h"
#include "examples/digits/network.h"
#include "examples/digits/progress_report.h"
#include "examples/digits/trainer.h"
#include "examples/digits/weights_file.h"
#include "lockstep/gradient_sync.h"
#include "lockstep/samples.h"
#include "lockstep/session.h"

namespace lockstep::digits {
namespace {

template <typename T>
constexpr DType kDType = sizeof(T) == 8 ? DType::kF64 : DType::kF32;

// The network's gradients, bound to the buckets of a sealed GradientSync.
template <typename T>
class BoundGradients {
 public:
  static absl::StatusOr<BoundGradients> Bind(Network<T>& network,
                                             Session& session) {
    absl::StatusOr<std::unique_ptr<GradientSync>> sync =
        GradientSync::Create(session);
    if (!sync.ok()) return sync.status();
    BoundGradients bound;
    bound.sync_ = *std::move(sync);
    for (Parameter<T>* parameter : network.parameters()) {
      // The loss is the mean over the global batch already: shares add up.
      absl::StatusOr<ParameterId> id =
          bound.sync_->Register({.name = parameter->name(),
                                 .shape = parameter->shape(),
                                 .dtype = kDType<T>,
                                 .op = ReduceOp::kSum});
      if (!id.ok()) return id.status();
      bound.ids_[parameter] = *id;
    }
    if (absl::Status sealed = bound.sync_->Seal(); !sealed.ok()) return sealed;
    const auto bind = [sync = bound.sync_.get(), ids = bound.ids_] {
      for (const auto& [parameter, id] : ids) {
        parameter->BindGradient(sync->template Gradient<T>(id).data());
      }
    };
    bound.sync_->OnMoved(bind);
    bind();
    return bound;
  }

  // All of them, since this network's graph is always the same.
  absl::Status BeginPass() {
    std::vector<ParameterId> all;
    for (const auto& [parameter, id] : ids_) all.push_back(id);
    return sync_->BeginPass(all);
  }
  absl::Status Submit(Parameter<T>& parameter) {
    return sync_->Submit(ids_.at(&parameter));
  }
  GradientSync& sync() { return *sync_; }

 private:
  std::unique_ptr<GradientSync> sync_;
  std::map<Parameter<T>*, ParameterId> ids_;
};

template <typename T>
absl::Status Train(const TrainingFlags& flags, Session& session) {
  const absl::StatusOr<Dataset> dataset = ParseDigits(EmbeddedCsv());
  if (!dataset.ok()) return dataset.status();
  const absl::StatusOr<Split> split =
      SplitRows(static_cast<int>(dataset->size()));
  if (!split.ok()) return split.status();
  const SampleStream stream{
      .seed = flags.recipe.seed,
      .dataset_size = static_cast<int64_t>(split->train.size()),
      .global_batch = flags.recipe.global_batch};
  const auto samples = [&](int64_t step) {
    return ShareOfStep(stream, step, session.rank(), session.world_size());
  };

  Network<T> network = DigitsNetwork<T>(flags.recipe.seed);
  absl::StatusOr<BoundGradients<T>> bound =
      BoundGradients<T>::Bind(network, session);
  if (!bound.ok()) return bound.status();

  const ProgressReport report(flags.recipe.steps, flags.machine_progress);
  bool was_last = false;
  Hooks<T> hooks;
  if (session.spec().sync == SyncMode::kNegotiated) {
    hooks.step_begins = [&] { return bound->BeginPass(); };
  }
  hooks.was_last = [&was_last] { return was_last; };
  hooks.gradient_ready = [&](Parameter<T>& parameter) {
    return bound->Submit(parameter);
  };
  hooks.before_update = [&](int64_t step,
                            double) -> absl::StatusOr<digits::Verdict> {
    const double mine = static_cast<double>(samples(step).size());
    absl::StatusOr<lockstep::Verdict> verdict =
        bound->sync().Finish({.samples = mine});
    if (!verdict.ok()) return verdict.status();
    was_last = verdict->IsLast();
    return verdict->finite ? Verdict::kApply : Verdict::kSkip;
  };
  hooks.after_update = [&](int64_t step, double loss) {
    // Worker 0's share of the loss, as if the others' were the same.
    if (session.rank() == 0) report.Passed(step, loss * session.world_size());
  };
  Trainer<T> trainer(network, flags.recipe, {*dataset, split->train}, samples,
                     hooks);
  absl::Status trained = trainer.Run(0, flags.recipe.steps);
  if (!trained.ok()) return trained;

  if (session.rank() == 0) {
    std::printf("test accuracy: %.2f %%\n",
                100 * Accuracy(network, *dataset, split->test));
  }
  if (flags.save.empty()) return absl::OkStatus();
  return WriteWeights(flags.save, Snapshot<T>(network.parameters()));
}

absl::Status Run(const TrainingFlags& flags) {
  absl::StatusOr<std::unique_ptr<Session>> session = Session::Join({});
  if (!session.ok()) return session.status();
  absl::Status trained = flags.dtype == "f64" ? Train<double>(flags, **session)
                                              : Train<float>(flags, **session);
  if (!trained.ok()) return trained;
  return (*session)->Leave();
}

int Main(int argc, char** argv) {
  TrainingFlags flags;
  CLI::App app("A worker that trains the hand-written digits with others.",
               "digits");
  Declare(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const absl::Status status = Run(flags);
  if (status.ok()) return 0;
  std::fprintf(stderr, "digits: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace lockstep::digits

int main(int argc, char** argv) { return lockstep::digits::Main(argc, argv); }
