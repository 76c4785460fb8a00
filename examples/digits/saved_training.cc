#include "examples/digits/saved_training.h"

#include <cstdio>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "examples/digits/bound_gradients.h"

namespace lockstep::digits {
namespace {

constexpr char kVelocity[] = "velocity";

}  // namespace

template <typename T>
SavedTraining<T>::SavedTraining(const SaveOptions& options, Session& session,
                                const Recipe& recipe, int64_t dataset_size)
    : options_(options),
      session_(session),
      recipe_(recipe),
      dataset_size_(dataset_size) {}

template <typename T>
absl::Status SavedTraining<T>::Register(GradientSync& sync, ParameterId id,
                                        Parameter<T>& parameter) {
  if (options_.directory.empty() && !options_.recovers) {
    return absl::OkStatus();
  }
  sync_ = &sync;
  ids_.push_back(id);
  // With sync: reduce_scatter the values are in the library's memory.
  const bool sliced = session_.spec().sync == SyncMode::kReduceScatter;
  return sync.RegisterState(
      id, {.value = sliced ? nullptr : parameter.value().data(),
           .slices = {{.suffix = kVelocity, .dtype = kDType<T>}}});
}

template <typename T>
absl::StatusOr<int64_t> SavedTraining<T>::Open(Sgd<T>& sgd) {
  for (size_t i = 0; i < ids_.size(); ++i) {
    absl::Status set =
        sync_->SetSliceMemory(ids_[i], kVelocity, sgd.velocity(i).data());
    if (!set.ok()) return set;
  }
  if (options_.directory.empty()) return 0;
  auto checkpointer =
      AsyncCheckpointer::Create(session_, {.directory = options_.directory});
  if (!checkpointer.ok()) return checkpointer.status();
  checkpointer_ = *std::move(checkpointer);
  if (!options_.resume) return 0;
  const absl::StatusOr<TrainingState> saved = checkpointer_->Load();
  if (options_.if_saved && absl::IsNotFound(saved.status())) return 0;
  if (!saved.ok()) return saved.status();
  absl::Status fits = CheckRecipe(*saved);
  if (!fits.ok()) return fits;
  return saved->step;
}

template <typename T>
void SavedTraining<T>::Passed(int64_t step, bool asked) {
  const int64_t steps = step + 1;
  if (checkpointer_ == nullptr) return;
  if (!asked && steps % options_.save_every != 0) return;
  const absl::Status saved = checkpointer_->Save(StateAfter(steps));
  if (saved.ok() || session_.rank() != 0) return;
  absl::FPrintF(stderr, "digits: %s\n", std::string(saved.message()));
}

template <typename T>
absl::Status SavedTraining<T>::Finish() {
  return checkpointer_ == nullptr ? absl::OkStatus() : checkpointer_->Wait();
}

template <typename T>
TrainingState SavedTraining<T>::StateAfter(int64_t steps) const {
  return {.step = steps,
          .epoch = steps * recipe_.global_batch / dataset_size_,
          .learning_rate = recipe_.sgd.learning_rate,
          .metadata = {{"batch", absl::StrCat(recipe_.global_batch)},
                       {"leaves",
                        absl::StrCat(session_.spec().reproducible.leaves)}},
          .samples = SampleCursor{.seed = recipe_.seed,
                                  .dataset_size = dataset_size_,
                                  .position = steps * recipe_.global_batch}};
}

template <typename T>
absl::Status SavedTraining<T>::CheckRecipe(const TrainingState& saved) const {
  if (saved == StateAfter(saved.step)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "the checkpoint of step %d is of another training: seed, batch, leaves "
      "or data differ",
      saved.step));
}

template class SavedTraining<float>;
template class SavedTraining<double>;

}  // namespace lockstep::digits
