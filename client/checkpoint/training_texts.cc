#include "client/checkpoint/training_texts.h"

#include <charconv>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace lockstep::checkpoint {
namespace {

constexpr char kStep[] = "step";
constexpr char kOwn[] = "lockstep.";
constexpr char kEpoch[] = "lockstep.epoch";
constexpr char kLearningRate[] = "lockstep.learning_rate";
constexpr char kSeed[] = "lockstep.samples.seed";
constexpr char kDatasetSize[] = "lockstep.samples.dataset_size";
constexpr char kPosition[] = "lockstep.samples.position";

// The shortest text that is this double again.
std::string DoubleText(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  return std::string(text, end);
}

// Whether the text is that of the field `name`.
bool TakeText(const std::string& name, const std::string& text,
              TrainingState* training, SampleCursor* samples) {
  if (name == kEpoch) return absl::SimpleAtoi(text, &training->epoch);
  if (name == kSeed) return absl::SimpleAtoi(text, &samples->seed);
  if (name == kPosition) return absl::SimpleAtoi(text, &samples->position);
  if (name == kDatasetSize) {
    return absl::SimpleAtoi(text, &samples->dataset_size);
  }
  return name == kLearningRate &&
         absl::SimpleAtod(text, &training->learning_rate) &&
         std::isfinite(training->learning_rate);
}

}  // namespace

std::map<std::string, std::string> TextsOf(const TrainingState& training) {
  std::map<std::string, std::string> texts = {
      {"format", "pt"},
      {kStep, absl::StrCat(training.step)},
      {kEpoch, absl::StrCat(training.epoch)},
      {kLearningRate, DoubleText(training.learning_rate)}};
  if (training.samples) {
    texts[kSeed] = absl::StrCat(training.samples->seed);
    texts[kDatasetSize] = absl::StrCat(training.samples->dataset_size);
    texts[kPosition] = absl::StrCat(training.samples->position);
  }
  for (const auto& [name, text] : training.metadata) {
    if (!absl::StartsWith(name, kOwn)) texts.emplace(name, text);
  }
  return texts;
}

absl::StatusOr<TrainingState> TrainingOf(
    const std::map<std::string, std::string>& texts) {
  TrainingState training;
  SampleCursor samples;
  for (const auto& [name, text] : texts) {
    if (!absl::StartsWith(name, kOwn)) {
      training.metadata.emplace(name, text);
    } else if (!TakeText(name, text, &training, &samples)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "__metadata__: \"", name, "\" is \"", text,
          "\", which is not a training state that consolidate has written"));
    }
  }
  const int cursor =
      texts.count(kSeed) + texts.count(kDatasetSize) + texts.count(kPosition);
  if (cursor != 0 && cursor != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("__metadata__ has ", cursor, " of the 3 texts \"", kSeed,
                     "\", \"", kDatasetSize, "\" and \"", kPosition, "\""));
  }
  if (cursor != 0) training.samples = samples;
  const auto step = texts.find(kStep);
  int64_t number = 0;
  if (step != texts.end() && absl::SimpleAtoi(step->second, &number) &&
      number >= 0) {
    training.step = number;
  }
  return training;
}

}  // namespace lockstep::checkpoint
