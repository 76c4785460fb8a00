#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "examples/digits/loss.h"
#include "examples/digits/progress.h"
#include "examples/digits/trainer.h"
#include "examples/digits/weights_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/samples.h"
#include "tests/examples/digits/gradient_check.h"
#include "tests/examples/digits/random_tensor.h"

namespace lockstep::digits {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LossTest, GradientAgreesWithCentralDifferences) {
  Tensor<double> logits = RandomTensor("logits", 3, {1, 1, 10});
  const std::vector<int> labels = {2, 9, 0};
  const Loss<double> loss = SoftmaxCrossEntropy<double>(logits, labels, 7);
  EXPECT_LE(
      GradientError(
          logits.values(), loss.d_logits.values(),
          [&] { return SoftmaxCrossEntropy<double>(logits, labels, 7).value; }),
      1e-6);
}

TEST(LossTest, IsTheMeanSurprise) {
  const Tensor<double> indifferent(4, {1, 1, 10});
  const auto loss =
      SoftmaxCrossEntropy<double>(indifferent, {1, 2, 3, 4}, /*global=*/4);
  EXPECT_DOUBLE_EQ(loss.value, std::log(10.0));
}

TEST(LossTest, StaysFiniteForHugeLogits) {
  Tensor<double> logits(1, {1, 1, 3});
  logits.values()[0] = 1e6;
  const auto loss = SoftmaxCrossEntropy<double>(logits, {1}, 1);
  EXPECT_DOUBLE_EQ(loss.value, 1e6);
  EXPECT_THAT(Slice(loss.d_logits, 0, 1).values(), ElementsAre(1, -1, 0));
}

TEST(LossTest, CountsWhoseHighestScoreIsTheirLabel) {
  Tensor<double> logits(2, {1, 1, 3});
  logits.sample(0)[1] = 1;
  logits.sample(1)[2] = 1;
  EXPECT_EQ(CountCorrect<double>(logits, {1, 2}), 2);
  EXPECT_EQ(CountCorrect<double>(logits, {1, 0}), 1);
}

TEST(SgdTest, UpdatesAsItsHeaderSays) {
  Parameter<double> parameter("p", {1});
  parameter.value()[0] = 2;
  Sgd<double> sgd({.learning_rate = 0.5, .momentum = 0.25, .weight_decay = 0.5},
                  {&parameter});
  parameter.gradient()[0] = 3;
  sgd.Update();  // velocity 3 + 0.5 * 2 = 4
  EXPECT_EQ(parameter.value()[0], 0);
  sgd.Update();  // velocity 0.25 * 4 + 3 = 4
  EXPECT_EQ(parameter.value()[0], -2);
  EXPECT_THAT(sgd.velocity(0), ElementsAre(4));
}

TEST(ProgressTest, DrawsABar) {
  const std::string half =
      ProgressLine({.done = 150, .steps = 300, .seconds = 10, .loss = 0.12345});
  EXPECT_THAT(half, HasSubstr("[===============>              ]"));
  EXPECT_THAT(half, HasSubstr("150/300"));
  EXPECT_THAT(half, HasSubstr("15.0 steps/s"));
  EXPECT_THAT(ProgressLine({.done = 3, .steps = 3}),
              HasSubstr("[" + std::string(30, '=') + "]"));
}

const Dataset& TheDigits() {
  static const auto* const dataset =
      new Dataset(ParseDigits(EmbeddedCsv()).value());
  return *dataset;
}

TrainingSet TheTrainingSet() {
  return {TheDigits(), SplitRows(1797).value().train};
}

SampleStream StreamOf(const Recipe& recipe) {
  return {.seed = recipe.seed,
          .dataset_size = 1437,
          .global_batch = recipe.global_batch};
}

Samples GlobalBatches(const Recipe& recipe) {
  return [stream = StreamOf(recipe)](int64_t step) {
    return SamplesOfStep(stream, step);
  };
}

std::vector<NamedWeights> WeightsOf(const Network<double>& network) {
  return Snapshot<double>(network.parameters());
}

double Difference(const Network<double>& a, const Network<double>& b) {
  return LargestDifference(WeightsOf(a), WeightsOf(b)).value();
}

class TrainerTest : public ::testing::Test {
 protected:
  Trainer<double> MakeTrainer(Hooks<double> hooks) {
    return Trainer<double>(network_, recipe_, TheTrainingSet(),
                           GlobalBatches(recipe_), std::move(hooks));
  }

  const Recipe recipe_;
  Network<double> network_ = DigitsNetwork<double>(recipe_.seed);
};

TEST_F(TrainerTest, ThirtyStepsLowerTheLoss) {
  std::vector<double> losses;
  Trainer<double> trainer = MakeTrainer(
      {.after_update = [&](int64_t, double loss) { losses.push_back(loss); }});
  ASSERT_TRUE(trainer.Run(0, 30).ok());
  ASSERT_EQ(losses.size(), 30u);
  EXPECT_NEAR(losses.front(), std::log(10.0), 0.5) << "a guess among ten";
  EXPECT_LT(losses.back(), losses.front() / 2);
  EXPECT_GT(Accuracy(network_, TheDigits(), SplitRows(1797).value().test), 0.5);
}

TEST_F(TrainerTest, CallsItsHooksInTheOrderOfTheStep) {
  std::vector<std::string> calls;
  Trainer<double> trainer = MakeTrainer({
      .gradient_ready =
          [&](Parameter<double>& parameter) {
            calls.push_back(parameter.name());
            return absl::OkStatus();
          },
      .before_update =
          [&](int64_t step, double) {
            calls.push_back("before " + std::to_string(step));
            return Verdict::kApply;
          },
      .after_update =
          [&](int64_t step, double) {
            calls.push_back("after " + std::to_string(step));
          },
  });
  ASSERT_TRUE(trainer.Step(7).ok());
  EXPECT_THAT(calls, ElementsAre("dense2.bias", "dense2.weight", "dense1.bias",
                                 "dense1.weight", "conv3.bias", "conv3.weight",
                                 "conv2.bias", "conv2.weight", "conv1.bias",
                                 "conv1.weight", "before 7", "after 7"));
}

TEST_F(TrainerTest, UpdatesNothingIfTheVerdictIsToSkip) {
  Trainer<double> trainer = MakeTrainer(
      {.before_update = [](int64_t, double) { return Verdict::kSkip; }});
  ASSERT_TRUE(trainer.Step(0).ok());
  EXPECT_EQ(Difference(network_, DigitsNetwork<double>(recipe_.seed)), 0);
}

TEST_F(TrainerTest, AFailedStepCanBeRunAgain) {
  const absl::Status gone = absl::UnavailableError("rank 1 is gone");
  bool fails_in_backward = false;
  bool fails_before_update = false;
  Trainer<double> trainer = MakeTrainer({
      .gradient_ready =
          [&](Parameter<double>& parameter) {
            const bool now =
                fails_in_backward && parameter.name() == "conv3.bias";
            return now ? gone : absl::OkStatus();
          },
      .before_update = [&](int64_t, double) -> absl::StatusOr<Verdict> {
        if (fails_before_update) return gone;
        return Verdict::kApply;
      },
  });
  ASSERT_TRUE(trainer.Run(0, 2).ok());
  fails_in_backward = true;
  EXPECT_EQ(trainer.Run(2, 4), gone);
  fails_in_backward = false;
  fails_before_update = true;
  EXPECT_EQ(trainer.Run(2, 4), gone);
  fails_before_update = false;
  ASSERT_TRUE(trainer.Run(2, 4).ok());

  Network<double> smooth = DigitsNetwork<double>(recipe_.seed);
  Trainer<double> reference(smooth, recipe_, TheTrainingSet(),
                            GlobalBatches(recipe_), {});
  ASSERT_TRUE(reference.Run(0, 4).ok());
  EXPECT_EQ(Difference(network_, smooth), 0);
}

// A worker of a simulated job: its own network, with gradients in one bucket,
// and its own quarter of every batch.
class PretendedWorker {
 public:
  PretendedWorker(const Recipe& recipe, int rank, int world)
      : network_(DigitsNetwork<double>(recipe.seed)),
        bucket_(BucketSize()),
        trainer_(network_, recipe, TheTrainingSet(),
                 [=, stream = StreamOf(recipe)](int64_t step) {
                   return ShareOfStep(stream, step, rank, world);
                 },
                 {}) {
    double* next = bucket_.data();
    for (Parameter<double>* parameter : network_.parameters()) {
      parameter->BindGradient(next);
      next += parameter->size();
    }
  }
  PretendedWorker(const PretendedWorker&) = delete;
  PretendedWorker& operator=(const PretendedWorker&) = delete;

  const Network<double>& network() const { return network_; }
  std::vector<double>& bucket() { return bucket_; }
  Trainer<double>& trainer() { return trainer_; }

 private:
  size_t BucketSize() const {
    size_t size = 0;
    for (const auto* parameter : network_.parameters()) {
      size += parameter->size();
    }
    return size;
  }

  Network<double> network_;
  std::vector<double> bucket_;
  Trainer<double> trainer_;
};

using Job = std::vector<std::unique_ptr<PretendedWorker>>;

// Every bucket becomes the sum of all, added in rank order.
void AllReduce(const Job& job) {
  std::vector<double> sum = job[0]->bucket();
  for (size_t rank = 1; rank < job.size(); ++rank) {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += job[rank]->bucket()[i];
  }
  for (const auto& worker : job) worker->bucket() = sum;
}

TEST_F(TrainerTest, FourWorkersTrainLikeOne) {
  constexpr int kWorld = 4;
  constexpr int64_t kSteps = 30;
  Job job;
  for (int rank = 0; rank < kWorld; ++rank) {
    job.push_back(std::make_unique<PretendedWorker>(recipe_, rank, kWorld));
  }
  for (int64_t step = 0; step < kSteps; ++step) {
    for (const auto& worker : job) {
      ASSERT_TRUE(worker->trainer().ComputeGradients(step).ok());
    }
    AllReduce(job);
    for (const auto& worker : job) worker->trainer().ApplyUpdate();
  }
  ASSERT_TRUE(MakeTrainer({}).Run(0, kSteps).ok());

  const double difference = Difference(network_, job[0]->network());
  RecordProperty("largest_difference", std::to_string(difference));
  EXPECT_LE(difference, 1e-11);
  EXPECT_GT(difference, 0) << "were the shards summed at all?";
  for (const auto& worker : job) {
    EXPECT_EQ(Difference(worker->network(), job[0]->network()), 0);
  }
}

}  // namespace
}  // namespace lockstep::digits
