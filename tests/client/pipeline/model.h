// A small model in f64, divided into stages, and the same model in one process.
//
//   stage i   y = tanh(x W_i),  x of 3 samples
//   loss      0.5 |y - target|^2

#ifndef LOCKSTEP_TESTS_CLIENT_PIPELINE_MODEL_H_
#define LOCKSTEP_TESTS_CLIENT_PIPELINE_MODEL_H_

#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "lockstep/pipeline_stage.h"

namespace lockstep::pipeline {

inline constexpr int kSamples = 3;
inline constexpr int kWidth = 4;
using Matrix = std::vector<double>;  // row-major

inline Matrix RandomMatrix(uint64_t seed, size_t size) {
  std::mt19937_64 random(seed);
  Matrix matrix(size);
  for (double& value : matrix) {
    value = static_cast<double>(random() % 2001) / 1000 - 1;
  }
  return matrix;
}

inline Matrix SampleOf(int step, int micro_batch) {
  return RandomMatrix(1000 * step + micro_batch + 1, kSamples * kWidth);
}
inline Matrix TargetOf(int step, int micro_batch) {
  return RandomMatrix(777'000 + 1000 * step + micro_batch, kSamples * kWidth);
}

// x [samples, width] times w [width, width].
inline Matrix Times(const Matrix& x, const Matrix& w) {
  Matrix y(kSamples * kWidth, 0);
  for (int s = 0; s < kSamples; ++s) {
    for (int i = 0; i < kWidth; ++i) {
      for (int j = 0; j < kWidth; ++j) {
        y[s * kWidth + j] += x[s * kWidth + i] * w[i * kWidth + j];
      }
    }
  }
  return y;
}

inline Matrix CopyOf(const TensorView& view) {
  const auto values = view.as<double>();
  return Matrix(values.begin(), values.end());
}
inline void Put(const Matrix& matrix, const TensorView& view) {
  std::copy(matrix.begin(), matrix.end(), view.as<double>().begin());
}

// One stage. It keeps its output for the backward pass.
class TanhStage : public PipelineStage {
 public:
  explicit TanhStage(Matrix weight)
      : weight_(std::move(weight)), gradient_(kWidth * kWidth, 0) {}

  // The first stage reads the samples of this step.
  void BeginStep(int step, bool is_first) {
    step_ = step;
    is_first_ = is_first;
    gradient_.assign(gradient_.size(), 0);
    passes_ = 0;
  }

  absl::Status Forward(int m, TensorViews input, TensorViews output) override {
    if (fail) {
      if (absl::Status s = fail(m); !s.ok()) return s;
    }
    const Matrix x = is_first_ ? SampleOf(step_, m) : CopyOf(input[0]);
    Matrix y = Times(x, weight_);
    for (double& value : y) value = std::tanh(value);
    Put(y, output[0]);
    inputs_[m] = x;
    outputs_[m] = std::move(y);
    return absl::OkStatus();
  }

  absl::Status BackwardInput(int m, TensorViews output_gradient,
                             TensorViews input_gradient) override {
    if (is_first_) return absl::OkStatus();
    const Matrix dz = Inner(m, CopyOf(output_gradient[0]));
    Matrix dx(kSamples * kWidth, 0);
    for (int s = 0; s < kSamples; ++s) {
      for (int i = 0; i < kWidth; ++i) {
        for (int j = 0; j < kWidth; ++j) {
          dx[s * kWidth + i] += dz[s * kWidth + j] * weight_[i * kWidth + j];
        }
      }
    }
    Put(dx, input_gradient[0]);
    return absl::OkStatus();
  }

  absl::Status BackwardWeight(int m, TensorViews output_gradient) override {
    const Matrix dz = Inner(m, CopyOf(output_gradient[0]));
    const Matrix& x = inputs_.at(m);
    for (int s = 0; s < kSamples; ++s) {
      for (int i = 0; i < kWidth; ++i) {
        for (int j = 0; j < kWidth; ++j) {
          gradient_[i * kWidth + j] += x[s * kWidth + i] * dz[s * kWidth + j];
        }
      }
    }
    inputs_.erase(m);
    outputs_.erase(m);
    ++passes_;
    return absl::OkStatus();
  }

  Matrix& gradient() { return gradient_; }
  size_t kept() const { return inputs_.size(); }
  // Micro-batches of this step that have ended.
  int passes() const { return passes_; }

  std::function<absl::Status(int micro_batch)> fail;

 private:
  // The gradient before the tanh.
  Matrix Inner(int m, Matrix gradient) const {
    const Matrix& y = outputs_.at(m);
    for (size_t i = 0; i < gradient.size(); ++i) {
      gradient[i] *= 1 - y[i] * y[i];
    }
    return gradient;
  }

  Matrix weight_;
  Matrix gradient_;
  int step_ = 0;
  int passes_ = 0;
  bool is_first_ = false;
  std::map<int, Matrix> inputs_;
  std::map<int, Matrix> outputs_;
};

class SquareLoss : public PipelineLoss {
 public:
  int step = 0;

  absl::StatusOr<double> Loss(int m, TensorViews output,
                              TensorViews gradient) override {
    const Matrix y = CopyOf(output[0]);
    const Matrix target = TargetOf(step, m);
    Matrix difference(y.size());
    double loss = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      difference[i] = y[i] - target[i];
      loss += 0.5 * difference[i] * difference[i];
    }
    Put(difference, gradient[0]);
    return loss;
  }
};

inline Matrix WeightOf(int stage) {
  return RandomMatrix(99 + stage, kWidth * kWidth);
}

struct Outcome {
  double loss = 0;
  std::vector<Matrix> gradients;  // by stage
};

// The whole model in one process, micro-batch by micro-batch.
inline Outcome RunAlone(int stages, int step,
                        const std::vector<double>& weights,
                        const std::function<Matrix(int)>& weight_of) {
  std::vector<TanhStage> model;
  for (int stage = 0; stage < stages; ++stage) {
    model.emplace_back(weight_of(stage));
    model.back().BeginStep(step, stage == 0);
  }
  SquareLoss loss;
  loss.step = step;
  const TensorType type{DType::kF64, {kSamples, kWidth}};
  Outcome outcome;
  for (size_t m = 0; m < weights.size(); ++m) {
    const int micro_batch = static_cast<int>(m);
    std::vector<Matrix> at(stages + 1, Matrix(kSamples * kWidth));
    const auto view = [&](int i) { return TensorView{at[i].data(), type}; };
    for (int stage = 0; stage < stages; ++stage) {
      const TensorView in = view(stage);
      const TensorView out = view(stage + 1);
      EXPECT_TRUE(model[stage].Forward(micro_batch, {&in, 1}, {&out, 1}).ok());
    }
    Matrix gradient(kSamples * kWidth);
    TensorView dy{gradient.data(), type};
    const TensorView y = view(stages);
    outcome.loss += weights[m] * *loss.Loss(micro_batch, {&y, 1}, {&dy, 1});
    for (double& value : gradient) value *= weights[m];
    for (int stage = stages - 1; stage >= 0; --stage) {
      Matrix before(kSamples * kWidth);
      const TensorView dx{before.data(), type};
      EXPECT_TRUE(
          model[stage].BackwardInput(micro_batch, {&dy, 1}, {&dx, 1}).ok());
      EXPECT_TRUE(model[stage].BackwardWeight(micro_batch, {&dy, 1}).ok());
      gradient = before;
    }
  }
  for (TanhStage& stage : model) outcome.gradients.push_back(stage.gradient());
  return outcome;
}

}  // namespace lockstep::pipeline

#endif  // LOCKSTEP_TESTS_CLIENT_PIPELINE_MODEL_H_
