#include "examples/digits/network.h"

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "examples/digits/average_pool.h"
#include "examples/digits/loss.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/examples/digits/gradient_check.h"
#include "tests/examples/digits/random_tensor.h"

namespace lockstep::digits {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

constexpr int kBatch = 3;
constexpr uint64_t kSeed = 5;

absl::Status Ignore(Parameter<double>&) { return absl::OkStatus(); }

std::vector<double> Values(absl::Span<const double> values) {
  return {values.begin(), values.end()};
}

std::vector<std::vector<double>> Gradients(const Network<double>& network) {
  std::vector<std::vector<double>> gradients;
  for (const Parameter<double>* parameter : network.parameters()) {
    gradients.push_back(Values(parameter->gradient()));
  }
  return gradients;
}

std::vector<std::string> Names(const Network<double>& network) {
  std::vector<std::string> names;
  for (const Parameter<double>* parameter : network.parameters()) {
    names.push_back(parameter->name());
  }
  return names;
}

// FNV-1a over the bits of all weights, a weight at a time.
template <typename T, typename Bits>
uint64_t Fingerprint(const Network<T>& network) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const Parameter<T>* parameter : network.parameters()) {
    for (T value : parameter->value()) {
      hash = (hash ^ std::bit_cast<Bits>(value)) * 0x100000001b3;
    }
  }
  return hash;
}

// One forward and backward pass through the whole network.
class NetworkTest : public ::testing::Test {
 protected:
  NetworkTest()
      : network_(DigitsNetwork<double>(kSeed)),
        images_(RandomTensor("images", kBatch, {8, 8, 1})),
        d_logits_(RandomTensor("d_logits", kBatch, {1, 1, 10})) {
    logits_ = network_.Forward(images_, &trail_);
  }

  Network<double> network_;
  const Tensor<double> images_;
  const Tensor<double> d_logits_;
  Trail<double> trail_;
  Tensor<double> logits_;
};

TEST_F(NetworkTest, WeightsOfASeedAreTheSameForEverAndEverywhere) {
  EXPECT_EQ((Fingerprint<double, uint64_t>(DigitsNetwork<double>(1))),
            17513030064433097521u);
  EXPECT_EQ((Fingerprint<float, uint32_t>(DigitsNetwork<float>(1))),
            1940296306911215992u);
  EXPECT_NE((Fingerprint<double, uint64_t>(DigitsNetwork<double>(2))),
            (Fingerprint<double, uint64_t>(DigitsNetwork<double>(1))));
}

TEST_F(NetworkTest, GradientAgreesWithCentralDifferences) {
  const std::vector<int> labels = {3, 0, 9};
  const auto loss = [&] {
    return SoftmaxCrossEntropy<double>(network_.Forward(images_, nullptr),
                                       labels, kBatch)
        .value;
  };
  Tensor<double> d_logits =
      SoftmaxCrossEntropy<double>(logits_, labels, kBatch).d_logits;
  ASSERT_TRUE(network_.Backward(std::move(d_logits), trail_, Ignore).ok());
  for (Parameter<double>* parameter : network_.parameters()) {
    // Only the first values of each: all of them would take a minute.
    const size_t count = std::min<size_t>(parameter->size(), 32);
    EXPECT_LE(GradientError(parameter->value().first(count),
                            parameter->gradient().first(count), loss, 1e-5),
              1e-6)
        << parameter->name();
  }
}

TEST_F(NetworkTest, GradientsBecomeReadyInReverseAndComplete) {
  std::vector<std::string> ready;
  std::vector<std::vector<double>> when_ready;
  const auto d_input =
      network_.Backward(d_logits_, trail_, [&](Parameter<double>& parameter) {
        ready.push_back(parameter.name());
        when_ready.push_back(Values(parameter.gradient()));
        return absl::OkStatus();
      });
  ASSERT_TRUE(d_input.ok());
  std::vector<std::string> names = Names(network_);
  std::reverse(names.begin(), names.end());
  EXPECT_EQ(ready, names);
  std::reverse(when_ready.begin(), when_ready.end());
  EXPECT_EQ(when_ready, Gradients(network_));
}

TEST_F(NetworkTest, ReadysErrorEndsBackward) {
  int calls = 0;
  const auto refuse_second = [&](Parameter<double>&) {
    return ++calls < 2 ? absl::OkStatus() : absl::AbortedError("enough");
  };
  EXPECT_EQ(network_.Backward(d_logits_, trail_, refuse_second).status(),
            absl::AbortedError("enough"));
  EXPECT_EQ(calls, 2);
  network_.BackwardInput(d_logits_, &trail_);
  calls = 0;
  EXPECT_EQ(network_.BackwardWeights(trail_, refuse_second),
            absl::AbortedError("enough"));
  EXPECT_EQ(calls, 2);
}

TEST_F(NetworkTest, HalvesOfBackwardGiveTheBitsOfTheWhole) {
  const Tensor<double> d_input =
      network_.Backward(d_logits_, trail_, Ignore).value();
  const auto at_once = Gradients(network_);

  network_.ZeroGradients();
  const Tensor<double> d_input_alone =
      network_.BackwardInput(d_logits_, &trail_);
  EXPECT_EQ(Values(d_input_alone.values()), Values(d_input.values()));
  for (const auto& gradient : Gradients(network_)) {
    EXPECT_THAT(gradient,
                ElementsAreArray(std::vector<double>(gradient.size())));
  }
  ASSERT_TRUE(network_.BackwardWeights(trail_, Ignore).ok());
  EXPECT_EQ(Gradients(network_), at_once);
}

TEST_F(NetworkTest, MicroBatchesUnderWayTogetherAddUpToTheBatch) {
  ASSERT_TRUE(network_.Backward(d_logits_, trail_, Ignore).ok());
  const auto at_once = Gradients(network_);

  network_.ZeroGradients();
  std::vector<Trail<double>> trails(kBatch);
  for (int n = 0; n < kBatch; ++n) {
    network_.Forward(Slice(images_, n, n + 1), &trails[n]);
  }
  for (int n = 0; n < kBatch; ++n) {
    network_.BackwardInput(Slice(d_logits_, n, n + 1), &trails[n]);
  }
  for (int n = 0; n < kBatch; ++n) {
    ASSERT_TRUE(network_.BackwardWeights(trails[n], Ignore).ok());
  }
  EXPECT_EQ(Gradients(network_), at_once);
}

TEST_F(NetworkTest, EveryBoundaryCanPartTwoStages) {
  const Tensor<double> d_images =
      network_.Backward(d_logits_, trail_, Ignore).value();
  for (int cut = 1; cut < kDigitsBlocks; ++cut) {
    SCOPED_TRACE(cut);
    Network<double> front = DigitsNetwork<double>(kSeed, 0, cut);
    Network<double> back = DigitsNetwork<double>(kSeed, cut);
    EXPECT_EQ(front.output_shape(), back.input_shape());

    Trail<double> front_trail, back_trail;
    const Tensor<double> logits =
        back.Forward(front.Forward(images_, &front_trail), &back_trail);
    EXPECT_EQ(Values(logits.values()), Values(logits_.values()));

    Tensor<double> d_boundary =
        back.Backward(d_logits_, back_trail, Ignore).value();
    const Tensor<double> d_input =
        front.Backward(std::move(d_boundary), front_trail, Ignore).value();
    EXPECT_EQ(Values(d_input.values()), Values(d_images.values()));

    auto gradients = Gradients(front);
    for (auto& gradient : Gradients(back)) gradients.push_back(gradient);
    EXPECT_EQ(gradients, Gradients(network_));
  }
}

TEST_F(NetworkTest, GradientsGatherWhereTheyAreBound) {
  ASSERT_TRUE(network_.Backward(d_logits_, trail_, Ignore).ok());
  const auto own = Gradients(network_);

  std::vector<double> bucket(30000);
  double* next = bucket.data();
  for (Parameter<double>* parameter : network_.parameters()) {
    parameter->BindGradient(next);
    next += parameter->size();
  }
  ASSERT_LE(next, bucket.data() + bucket.size());
  ASSERT_TRUE(network_.Backward(d_logits_, trail_, Ignore).ok());
  EXPECT_EQ(Gradients(network_), own);
  const double* at = bucket.data();
  for (const std::vector<double>& gradient : own) {
    EXPECT_EQ(std::vector<double>(at, at + gradient.size()), gradient);
    at += gradient.size();
  }
}

TEST_F(NetworkTest, NamesItsParametersInForwardOrder) {
  EXPECT_THAT(
      Names(network_),
      ElementsAre("conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias",
                  "conv3.weight", "conv3.bias", "dense1.weight", "dense1.bias",
                  "dense2.weight", "dense2.bias"));
}

TEST(NetworkDeathTest, RefusesBlocksThatDoNotFit) {
  std::vector<std::unique_ptr<Block<double>>> blocks;
  blocks.push_back(
      std::make_unique<AveragePool<double>>("first", Shape{4, 4, 1}));
  blocks.push_back(
      std::make_unique<AveragePool<double>>("second", Shape{4, 4, 1}));
  EXPECT_DEATH(Network<double>(std::move(blocks)), "2x2x1.*4x4x1");
}

}  // namespace
}  // namespace lockstep::digits
