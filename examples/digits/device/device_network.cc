#include "examples/digits/device/device_network.h"

#include <utility>

#include "base/check.h"
#include "examples/digits/dataset.h"

namespace lockstep::digits {
namespace {

int64_t SizeOf(const Plane& plane) {
  return int64_t{plane.height} * plane.width * plane.channels;
}

Plane OutputOf(const Layer& layer, const Plane& input) {
  switch (layer.kind) {
    case LayerKind::kConvolution:
      return {input.height, input.width, layer.outputs};
    case LayerKind::kRelu: return input;
    case LayerKind::kPool:
      return {input.height / 2, input.width / 2, input.channels};
    case LayerKind::kDense: break;
  }
  return {1, 1, layer.outputs};
}

template <typename T>
T* DataOf(const ArenaBuffer& buffer) {
  return reinterpret_cast<T*>(buffer.data());
}

}  // namespace

template <typename T>
absl::StatusOr<std::unique_ptr<DeviceNetwork<T>>> DeviceNetwork<T>::Create(
    Network<T>* host, int64_t batch_max, const SgdOptions& sgd,
    Device* device) {
  std::unique_ptr<DeviceNetwork> network(new DeviceNetwork(sgd, device));
  absl::Status built = network->Build(host, batch_max);
  if (!built.ok()) return built;
  return network;
}

template <typename T>
absl::Status DeviceNetwork<T>::Build(Network<T>* host, int64_t batch_max) {
  absl::Status first_error;
  const auto allocate = [&](int64_t bytes) {
    auto buffer = device_->Allocate(static_cast<size_t>(bytes));
    if (buffer.ok()) return *std::move(buffer);
    first_error.Update(buffer.status());
    return ArenaBuffer();
  };
  size_t next = 0;
  const auto adopt = [&](const char* layer, const char* what) {
    Check(next < host->parameters().size() &&
              host->parameters()[next]->name() == std::string(layer) + what,
          "the host's network has other layers");
    owned_.push_back(std::make_unique<DeviceParameter<T>>());
    first_error.Update(Adopt(host->parameters()[next++], owned_.back().get()));
    parameters_.push_back(owned_.back().get());
    return owned_.back().get();
  };

  Plane plane{kSide, kSide, 1};
  images_ = allocate(batch_max * SizeOf(plane) * sizeof(T));
  labels_ = allocate(batch_max * sizeof(int));
  losses_ = allocate(batch_max * sizeof(double));
  for (const Layer& layer : kDigitsLayers) {
    Stage stage{.layer = layer, .input = plane};
    stage.output = OutputOf(layer, plane);
    plane = stage.output;
    const int64_t bytes = batch_max * SizeOf(plane) * sizeof(T);
    stage.activation = allocate(bytes);
    stage.d_activation = allocate(bytes);
    if (layer.outputs > 0) {
      stage.weight = adopt(layer.name, ".weight");
      stage.bias = adopt(layer.name, ".bias");
    }
    stages_.push_back(std::move(stage));
  }
  return first_error;
}

template <typename T>
absl::Status DeviceNetwork<T>::Adopt(Parameter<T>* host,
                                     DeviceParameter<T>* parameter) {
  parameter->host_ = host;
  const size_t bytes = host->size() * sizeof(T);
  for (ArenaBuffer* buffer :
       {&parameter->value_, &parameter->velocity_, &parameter->own_gradient_}) {
    auto memory = device_->Allocate(bytes);
    if (!memory.ok()) return memory.status();
    *buffer = *std::move(memory);
  }
  parameter->gradient_ = DataOf<T>(parameter->own_gradient_);
  return device_->Upload(host->value().data(), parameter->value_.data(), bytes);
}

// --- A step -----------------------------------------------------------------

template <typename T>
absl::Status DeviceNetwork<T>::ComputeGradients(const Tensor<T>& images,
                                                absl::Span<const int> labels,
                                                int64_t global_samples,
                                                Ready ready) {
  batch_ = images.batch();
  absl::Status done = device_->Upload(images.values().data(), images_.data(),
                                      images.values().size() * sizeof(T));
  if (done.ok()) {
    done = device_->Upload(labels.data(), labels_.data(),
                           labels.size() * sizeof(int));
  }
  const T* input = DataOf<T>(images_);
  for (const Stage& stage : stages_) {
    if (done.ok()) done = Forward(stage, input);
    input = DataOf<T>(stage.activation);
  }
  const Stage& last = stages_.back();
  if (done.ok()) {
    done =
        device_->Launch(SoftmaxLoss<T>{.logits = input,
                                       .labels = DataOf<int>(labels_),
                                       .d_logits = DataOf<T>(last.d_activation),
                                       .losses = DataOf<double>(losses_),
                                       .classes = last.layer.outputs,
                                       .global_samples = global_samples},
                        batch_);
  }
  for (size_t s = stages_.size(); s-- > 0;) {
    if (!done.ok()) return done;
    const bool first = s == 0;
    done = Backward(
        stages_[s],
        first ? DataOf<T>(images_) : DataOf<T>(stages_[s - 1].activation),
        first ? nullptr : DataOf<T>(stages_[s - 1].d_activation), ready);
  }
  return done;
}

template <typename T>
absl::Status DeviceNetwork<T>::Forward(const Stage& stage, const T* input) {
  const int64_t n = batch_ * SizeOf(stage.output);
  T* const output = DataOf<T>(stage.activation);
  switch (stage.layer.kind) {
    case LayerKind::kConvolution:
      return device_->Launch(
          ConvolutionForward<T>{input, DataOf<T>(stage.weight->value_),
                                DataOf<T>(stage.bias->value_), output,
                                stage.input, stage.layer.outputs},
          n);
    case LayerKind::kRelu:
      return device_->Launch(ReluForward<T>{input, output}, n);
    case LayerKind::kPool:
      return device_->Launch(PoolForward<T>{input, output, stage.input}, n);
    case LayerKind::kDense: break;
  }
  return device_->Launch(DenseForward<T>{input, DataOf<T>(stage.weight->value_),
                                         DataOf<T>(stage.bias->value_), output,
                                         static_cast<int>(SizeOf(stage.input)),
                                         stage.layer.outputs},
                         n);
}

// Gradients first: they are reduced while the earlier layers compute.
template <typename T>
absl::Status DeviceNetwork<T>::Backward(const Stage& stage, const T* input,
                                        T* d_input, Ready ready) {
  if (stage.weight != nullptr) {
    absl::Status done = Gradients(stage, input, ready);
    if (!done.ok()) return done;
  }
  if (d_input == nullptr) return absl::OkStatus();
  const int64_t n = batch_ * SizeOf(stage.input);
  const T* const d_output = DataOf<T>(stage.d_activation);
  switch (stage.layer.kind) {
    case LayerKind::kConvolution:
      return device_->Launch(
          ConvolutionBackward<T>{d_output, DataOf<T>(stage.weight->value_),
                                 d_input, stage.input, stage.layer.outputs},
          n);
    case LayerKind::kRelu:
      return device_->Launch(
          ReluBackward<T>{d_output, DataOf<T>(stage.activation), d_input}, n);
    case LayerKind::kPool:
      return device_->Launch(PoolBackward<T>{d_output, d_input, stage.input},
                             n);
    case LayerKind::kDense: break;
  }
  return device_->Launch(
      DenseBackward<T>{d_output, DataOf<T>(stage.weight->value_), d_input,
                       static_cast<int>(SizeOf(stage.input)),
                       stage.layer.outputs},
      n);
}

template <typename T>
absl::Status DeviceNetwork<T>::Gradients(const Stage& stage, const T* input,
                                         Ready ready) {
  const T* const d_output = DataOf<T>(stage.d_activation);
  const int64_t weights = static_cast<int64_t>(stage.weight->host_->size());
  const int out = stage.layer.outputs;
  absl::Status done = device_->Launch(
      BiasGradient<T>{d_output, stage.bias->gradient(), out,
                      batch_ * stage.output.height * stage.output.width},
      out);
  if (done.ok()) done = ready(*stage.bias);
  if (!done.ok()) return done;
  if (stage.layer.kind == LayerKind::kConvolution) {
    done = device_->Launch(
        ConvolutionGradient<T>{input, d_output, stage.weight->gradient(),
                               stage.input, out, batch_},
        weights);
  } else {
    done = device_->Launch(
        DenseGradient<T>{input, d_output, stage.weight->gradient(),
                         static_cast<int>(SizeOf(stage.input)), out, batch_},
        weights);
  }
  return done.ok() ? ready(*stage.weight) : done;
}

template <typename T>
absl::StatusOr<double> DeviceNetwork<T>::FetchLoss() {
  std::vector<double> losses(batch_);
  absl::Status done = device_->Download(losses_.data(), losses.data(),
                                        losses.size() * sizeof(double));
  if (!done.ok()) return done;
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return sum;
}

template <typename T>
absl::Status DeviceNetwork<T>::Update(const VerdictScalars* verdict) {
  absl::Status done;
  for (const auto& parameter : owned_) {
    if (!done.ok()) return done;
    done = device_->Launch(
        SgdUpdate<T>{.verdict = verdict,
                     .gradient = parameter->gradient(),
                     .velocity = parameter->velocity(),
                     .value = parameter->value(),
                     .learning_rate = static_cast<T>(sgd_.learning_rate),
                     .momentum = static_cast<T>(sgd_.momentum),
                     .weight_decay = static_cast<T>(sgd_.weight_decay)},
        static_cast<int64_t>(parameter->host_->size()));
  }
  return done;
}

template <typename T>
absl::Status DeviceNetwork<T>::WarmUp() {
  auto no = device_->Allocate(sizeof(VerdictScalars));  // zeros: no commit
  if (!no.ok()) return no.status();
  const Tensor<T> image(1, {kSide, kSide, 1});
  absl::Status done =
      ComputeGradients(image, {0}, /*global_samples=*/1,
                       [](DeviceParameter<T>&) { return absl::OkStatus(); });
  if (done.ok()) done = Update(DataOf<VerdictScalars>(*no));
  return done.ok() ? FetchLoss().status() : done;
}

template <typename T>
absl::Status DeviceNetwork<T>::FetchWeights() {
  absl::Status done;
  for (const auto& parameter : owned_) {
    if (!done.ok()) return done;
    const absl::Span<T> value = parameter->host_->value();
    done = device_->Download(parameter->value_.data(), value.data(),
                             value.size() * sizeof(T));
  }
  return done;
}

template class DeviceNetwork<float>;
template class DeviceNetwork<double>;

}  // namespace lockstep::digits
