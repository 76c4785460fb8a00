// A linear layer that is cut over the axis "model", on data that is cut over
// "data": what a program writes itself when it uses collectives over named axes
// in place of GradientSync.
//
//   lockstepctl run -n 4 -f examples/specs/collectives.yaml --
//       build/user/bin/collectives

#include <cmath>
#include <cstdio>
#include <vector>

#include "lockstep/axis_group.h"
#include "lockstep/host_calls.h"
#include "lockstep/samples.h"
#include "lockstep/session.h"

namespace {

using lockstep::AxisCollectiveKind;
using lockstep::DType;

constexpr int kInputs = 8;    // of the layer, cut over "model"
constexpr int kSamples = 96;  // of the data set
constexpr int kBatch = 16;    // of a rank
constexpr int kEpochs = 60;
constexpr float kRate = 1.0f;

// Input i of a sample, and the value to learn: the sum of inputs times i + 1.
float InputOf(int64_t sample, int i) {
  return static_cast<float>((sample * 7 + i * 13) % 11) / 11.0f - 0.5f;
}
float TargetOf(int64_t sample) {
  float sum = 0;
  for (int i = 0; i < kInputs; ++i) {
    sum += static_cast<float>(i + 1) * InputOf(sample, i);
  }
  return sum;
}

absl::Status Train(lockstep::Session& session) {
  const auto data = session.Group({"data"});
  const auto model = session.Group({"model"});
  if (!data.ok()) return data.status();
  if (!model.ok()) return model.status();
  if (auto connected = session.Connect(); !connected.ok()) return connected;

  // This rank's inputs; all replicas begin with those of the first.
  const int inputs = kInputs / model->size();
  const int first = model->index() * inputs;
  std::vector<float> w(static_cast<size_t>(inputs),
                       static_cast<float>(session.rank()));
  auto status =
      BroadcastParameters(*data, {{"w", {DType::kF32, {inputs}}, w.data()}});
  if (!status.ok()) return status;

  std::vector<float> y(kBatch), gradient(static_cast<size_t>(inputs));
  const auto sum = model->Prepare({.kind = AxisCollectiveKind::kPsum},
                                  {{DType::kF32, {kBatch}}});
  const auto mean = data->Prepare({.kind = AxisCollectiveKind::kPmean},
                                  {{DType::kF32, {inputs}}});
  if (!sum.ok()) return sum.status();
  if (!mean.ok()) return mean.status();
  double loss = 0;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const lockstep::EpochShard shard{.seed = 1,
                                     .epoch = epoch,
                                     .dataset_size = kSamples,
                                     .rank = data->index(),
                                     .world_size = data->size(),
                                     .uneven = lockstep::UnevenEpoch::kDrop};
    double squares = 0, samples = 0;
    for (int64_t at = 0; at + kBatch <= ShardSize(shard); at += kBatch) {
      for (int b = 0; b < kBatch; ++b) {
        const int64_t sample = ShardSampleAt(shard, at + b);
        y[b] = 0;
        for (int i = 0; i < inputs; ++i) {
          y[b] += w[i] * InputOf(sample, first + i);
        }
      }
      // Each rank has the products of its inputs: the layer's output is their
      // sum.
      status = sum->RunAndWait({y.data()}, {y.data()});
      if (!status.ok()) return status;
      gradient.assign(gradient.size(), 0);
      for (int b = 0; b < kBatch; ++b) {
        const int64_t sample = ShardSampleAt(shard, at + b);
        const float error = y[b] - TargetOf(sample);
        squares += error * error;
        samples += 1;
        for (int i = 0; i < inputs; ++i) {
          gradient[i] += 2 * error * InputOf(sample, first + i) / kBatch;
        }
      }
      status = mean->RunAndWait({gradient.data()}, {gradient.data()});
      if (!status.ok()) return status;
      for (int i = 0; i < inputs; ++i) w[i] -= kRate * gradient[i];
    }
    const auto sums = AllReduceScalars(*data, {squares, samples});
    if (!sums.ok()) return sums.status();
    loss = (*sums)[0] / (*sums)[1];
  }
  status =
      CheckParametersEqual(*data, {{"w", {DType::kF32, {inputs}}, w.data()}});
  if (!status.ok()) return status;
  std::printf("rank %d: loss %.6f, w[%d] = %.3f\n", session.rank(), loss, first,
              w[0]);
  return session.Leave();
}

}  // namespace

int main() {
  const auto session = lockstep::Session::Join({});  // options from LOCKSTEP_*
  const absl::Status status =
      session.ok() ? Train(**session) : session.status();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
