#include "tests/chaos/chaos_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace lockstep::chaos {
namespace {

constexpr int kRows = 1024;
constexpr int kInputs = 16;
constexpr int kHiddenUnits = 32;
constexpr int kClasses = 8;
constexpr double kRate = 0.05;
constexpr double kMomentum = 0.9;
// Rounding differences die out.
constexpr double kDecay = 1e-3;

uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

int LabelOf(int64_t sample) {
  return static_cast<int>(Mix(static_cast<uint64_t>(sample) % kRows) %
                          kClasses);
}

}  // namespace

SampleStream StreamOf(uint64_t seed) {
  return {.seed = seed, .dataset_size = kSamples, .global_batch = kBatch};
}

Model::Model(uint64_t seed) {
  const std::pair<const char*, size_t> sizes[] = {
      {"embedding", kRows * kInputs},
      {"hidden", kInputs * kHiddenUnits},
      {"output", kHiddenUnits * kClasses},
      {"uses", kSamples}};
  uint64_t number = Mix(seed);
  for (const auto& [name, size] : sizes) {
    Tensor tensor{.name = name,
                  .values = std::vector<double>(size),
                  .momentum = std::vector<double>(size)};
    if (tensors_.size() != kUses) {
      for (double& value : tensor.values) {
        number = Mix(number);
        value = static_cast<double>(number >> 11) * 0x1p-53 - 0.5;
      }
    }
    tensors_.push_back(std::move(tensor));
  }
}

void Model::AddGradients(
    const std::vector<int64_t>& samples,
    const std::vector<absl::Span<double>>& gradients) const {
  for (const auto& gradient : gradients) {
    std::fill(gradient.begin(), gradient.end(), 0.0);
  }
  const double* const hidden = tensors_[kHidden].values.data();
  const double* const output = tensors_[kOutput].values.data();
  for (const int64_t sample : samples) {
    const int64_t row = sample % kRows * kInputs;
    const double* const input = tensors_[kEmbedding].values.data() + row;
    double units[kHiddenUnits];
    for (int h = 0; h < kHiddenUnits; ++h) {
      double sum = 0;
      for (int i = 0; i < kInputs; ++i) {
        sum += hidden[h * kInputs + i] * input[i];
      }
      units[h] = std::tanh(sum);
    }
    double scores[kClasses];
    for (int c = 0; c < kClasses; ++c) {
      scores[c] = 0;
      for (int h = 0; h < kHiddenUnits; ++h) {
        scores[c] += output[c * kHiddenUnits + h] * units[h];
      }
    }
    const double top = *std::max_element(scores, scores + kClasses);
    double total = 0;
    for (double& score : scores) total += score = std::exp(score - top);
    double unit_errors[kHiddenUnits] = {};
    for (int c = 0; c < kClasses; ++c) {
      const double error = scores[c] / total - (c == LabelOf(sample) ? 1 : 0);
      for (int h = 0; h < kHiddenUnits; ++h) {
        gradients[kOutput][c * kHiddenUnits + h] += error * units[h];
        unit_errors[h] += error * output[c * kHiddenUnits + h];
      }
    }
    for (int h = 0; h < kHiddenUnits; ++h) {
      const double error = unit_errors[h] * (1 - units[h] * units[h]);
      for (int i = 0; i < kInputs; ++i) {
        gradients[kHidden][h * kInputs + i] += error * input[i];
        gradients[kEmbedding][row + i] += error * hidden[h * kInputs + i];
      }
    }
    gradients[kUses][sample] += 1;
  }
}

void Model::Apply(const std::vector<absl::Span<double>>& gradients) {
  for (int t = 0; t < kTensors; ++t) {
    auto& [name, values, momentum] = tensors_[t];
    for (size_t i = 0; i < values.size(); ++i) {
      if (t == kUses) {
        values[i] += gradients[t][i];
        continue;
      }
      momentum[i] = kMomentum * momentum[i] + gradients[t][i] / kBatch +
                    kDecay * values[i];
      values[i] -= kRate * momentum[i];
    }
  }
  steps_ += 1;
}

uint64_t Model::Hash() const {
  uint64_t hash = 0;
  for (const Tensor& tensor : tensors_) {
    for (const auto* numbers : {&tensor.values, &tensor.momentum}) {
      for (const double number : *numbers) {
        uint64_t bits;
        std::memcpy(&bits, &number, sizeof bits);
        hash = (hash ^ bits) * 0x9e3779b97f4a7c15;
        hash ^= hash >> 32;
      }
    }
  }
  return hash;
}

std::vector<double> Model::Values() const {
  std::vector<double> all;
  for (const Tensor& tensor : tensors_) {
    all.insert(all.end(), tensor.values.begin(), tensor.values.end());
  }
  return all;
}

}  // namespace lockstep::chaos
