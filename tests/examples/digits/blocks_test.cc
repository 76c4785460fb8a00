#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "examples/digits/average_pool.h"
#include "examples/digits/convolution.h"
#include "examples/digits/correlation.h"
#include "examples/digits/dense.h"
#include "examples/digits/relu.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/examples/digits/gradient_check.h"
#include "tests/examples/digits/random_tensor.h"

namespace lockstep::digits {
namespace {

using ::testing::ElementsAreArray;

using Doubles = std::vector<double>;

Doubles Values(const Tensor<double>& tensor) {
  return {tensor.values().begin(), tensor.values().end()};
}

double Dot(const Tensor<double>& a, const Tensor<double>& b) {
  return std::inner_product(a.values().begin(), a.values().end(),
                            b.values().begin(), 0.0);
}

struct BlockCase {
  std::string name;
  std::function<std::unique_ptr<Block<double>>()> make;
};

template <typename B, typename... Args>
BlockCase CaseOf(std::string name, Args... args) {
  return {name, [=] { return std::make_unique<B>(name, args...); }};
}

// One batch through one block, with a loss whose dLoss/doutput is `d_output`.
class BlockTest : public ::testing::TestWithParam<BlockCase> {
 protected:
  static constexpr int kBatch = 3;

  BlockTest()
      : block_(GetParam().make()),
        input_(RandomTensor("input", kBatch, block_->input_shape())),
        d_output_(RandomTensor("d_output", kBatch, block_->output_shape())) {
    for (Parameter<double>* parameter : block_->parameters()) {
      Fill(parameter->name(), parameter->value());
    }
    output_ = block_->Forward(input_, &saved_);
  }

  double LossNow() {
    return Dot(block_->Forward(input_, /*saved=*/nullptr), d_output_);
  }

  // All parameters' gradients, concatenated.
  Doubles Gradients() {
    Doubles gradients;
    for (const Parameter<double>* parameter : block_->parameters()) {
      gradients.insert(gradients.end(), parameter->gradient().begin(),
                       parameter->gradient().end());
    }
    return gradients;
  }

  const std::unique_ptr<Block<double>> block_;
  Tensor<double> input_;
  const Tensor<double> d_output_;
  Tensor<double> saved_;
  Tensor<double> output_;
};

TEST_P(BlockTest, InputGradientAgreesWithCentralDifferences) {
  const Tensor<double> d_input = block_->BackwardInput(d_output_, saved_);
  ASSERT_EQ(d_input.shape(), input_.shape());
  ASSERT_EQ(d_input.batch(), kBatch);
  EXPECT_LE(GradientError(input_.values(), d_input.values(),
                          [this] { return LossNow(); }),
            1e-9);
}

TEST_P(BlockTest, WeightGradientAgreesWithCentralDifferences) {
  block_->BackwardWeights(d_output_, saved_);
  for (Parameter<double>* parameter : block_->parameters()) {
    EXPECT_LE(GradientError(parameter->value(), parameter->gradient(),
                            [this] { return LossNow(); }),
              1e-9)
        << parameter->name();
  }
}

TEST_P(BlockTest, InputGradientLeavesWeightGradientsAlone) {
  block_->BackwardInput(d_output_, saved_);
  EXPECT_THAT(Gradients(), ElementsAreArray(Doubles(Gradients().size())));
}

TEST_P(BlockTest, ForwardWithoutAWayBackGivesTheSameOutput) {
  EXPECT_EQ(Values(block_->Forward(input_, nullptr)), Values(output_));
}

TEST_P(BlockTest, ABatchIsItsSamplesOneAfterTheOther) {
  block_->BackwardWeights(d_output_, saved_);
  const Doubles at_once = Gradients();
  const Tensor<double> d_input = block_->BackwardInput(d_output_, saved_);

  for (Parameter<double>* parameter : block_->parameters()) {
    parameter->ZeroGradient();
  }
  for (int n = 0; n < kBatch; ++n) {
    Tensor<double> saved;
    const Tensor<double> output =
        block_->Forward(Slice(input_, n, n + 1), &saved);
    EXPECT_EQ(Values(output), Values(Slice(output_, n, n + 1)));
    const Tensor<double> d_one = Slice(d_output_, n, n + 1);
    EXPECT_EQ(Values(block_->BackwardInput(d_one, saved)),
              Values(Slice(d_input, n, n + 1)));
    block_->BackwardWeights(d_one, saved);
  }
  EXPECT_EQ(Gradients(), at_once) << "to the bit: sums run sample by sample";
}

TEST_P(BlockTest, AbortsOnABatchOfAnotherShape) {
  const Shape shape = block_->input_shape();
  const Shape wider{shape.height, shape.width, shape.channels + 1};
  EXPECT_DEATH(block_->Forward(Tensor<double>(1, wider), nullptr),
               GetParam().name);
}

// Channels of 1, 5, 8 and 24 cover every vector path of the product.
INSTANTIATE_TEST_SUITE_P(
    Blocks, BlockTest,
    ::testing::Values(
        CaseOf<Convolution<double>>("conv_1_to_5", Shape{4, 6, 1}, 5, 1),
        CaseOf<Convolution<double>>("conv_5_to_8", Shape{2, 2, 5}, 8, 1),
        CaseOf<Convolution<double>>("conv_8_to_25", Shape{3, 1, 8}, 25, 1),
        CaseOf<Relu<double>>("relu", Shape{3, 2, 4}),
        CaseOf<AveragePool<double>>("pool", Shape{4, 6, 3}),
        CaseOf<Dense<double>>("dense", Shape{2, 3, 4}, 10, 1)),
    [](const auto& info) { return info.param.name; });

// The definition, value by value.
double CorrelationAt(const Tensor<double>& padded,
                     const std::vector<double>& kernel, double bias, int out,
                     int y, int x, int o) {
  const int in = padded.shape().channels;
  const int width = padded.shape().width;
  double sum = bias;
  for (int dy = 0; dy < 3; ++dy) {
    for (int dx = 0; dx < 3; ++dx) {
      for (int i = 0; i < in; ++i) {
        sum += padded.sample(0)[((y + dy) * width + x + dx) * in + i] *
               kernel[((dy * 3 + dx) * in + i) * out + o];
      }
    }
  }
  return sum;
}

TEST(CorrelationTest, IsItsDefinition) {
  constexpr int kIn = 3, kOut = 19, kHeight = 4, kWidth = 5;
  const Tensor<double> padded =
      RandomTensor("padded", 1, {kHeight + 2, kWidth + 2, kIn});
  Doubles kernel(9 * kIn * kOut);
  Fill("kernel", absl::MakeSpan(kernel));
  Doubles bias(kOut);
  Fill("bias", absl::MakeSpan(bias));

  const Tensor<double> output = Correlate<double>(padded, kernel, bias);
  ASSERT_EQ(output.shape(), (Shape{kHeight, kWidth, kOut}));
  const double* at = output.sample(0);
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      for (int o = 0; o < kOut; ++o) {
        EXPECT_EQ(*at++, CorrelationAt(padded, kernel, bias[o], kOut, y, x, o))
            << "at " << y << ", " << x << ", channel " << o;
      }
    }
  }
}

TEST(BlockDeathTest, APoolNeedsEvenSides) {
  EXPECT_DEATH(AveragePool<double>("pool", {3, 4, 1}), "pool.*3x4x1");
}

TEST(BlockDeathTest, BackwardNeedsTheBatchThatWentForward) {
  Dense<double> dense("dense", {1, 1, 2}, 3, /*seed=*/1);
  Tensor<double> saved;
  dense.Forward(Tensor<double>(4, {1, 1, 2}), &saved);
  EXPECT_DEATH(dense.BackwardWeights(Tensor<double>(5, {1, 1, 3}), saved),
               "dense.*4.*5");
}

}  // namespace
}  // namespace lockstep::digits
