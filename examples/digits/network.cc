#include "examples/digits/network.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "examples/digits/average_pool.h"
#include "examples/digits/convolution.h"
#include "examples/digits/dataset.h"
#include "examples/digits/dense.h"
#include "examples/digits/gather_rows.h"
#include "examples/digits/relu.h"

namespace lockstep::digits {

template <typename T>
Network<T>::Network(std::vector<std::unique_ptr<Block<T>>> blocks)
    : blocks_(std::move(blocks)) {
  Check(!blocks_.empty(), "a network needs a block");
  const Block<T>* before = nullptr;
  for (const auto& block : blocks_) {
    if (before != nullptr && before->output_shape() != block->input_shape()) {
      Fatal(absl::StrCat(before->name(), " gives ",
                         ToString(before->output_shape()), ", ", block->name(),
                         " takes ", ToString(block->input_shape()))
                .c_str());
    }
    before = block.get();
    for (Parameter<T>* parameter : block->parameters()) {
      parameters_.push_back(parameter);
    }
  }
}

template <typename T>
void Network<T>::ZeroGradients() {
  for (Parameter<T>* parameter : parameters_) parameter->ZeroGradient();
}

template <typename T>
Tensor<T> Network<T>::Forward(Tensor<T> input, Trail<T>* trail) const {
  return *Forward(std::move(input), trail,
                  [](Parameter<T>&) { return absl::OkStatus(); });
}

template <typename T>
absl::StatusOr<Tensor<T>> Network<T>::Forward(Tensor<T> input, Trail<T>* trail,
                                              ParameterNeeded<T> needed) const {
  if (trail != nullptr) *trail = Trail<T>(blocks_.size());
  for (size_t i = 0; i < blocks_.size(); ++i) {
    for (Parameter<T>* parameter : blocks_[i]->parameters()) {
      if (absl::Status there = needed(*parameter); !there.ok()) return there;
    }
    Tensor<T>* saved = trail != nullptr ? &(*trail)[i].saved : nullptr;
    input = blocks_[i]->Forward(std::move(input), saved);
  }
  return input;
}

template <typename T>
absl::StatusOr<Tensor<T>> Network<T>::Backward(Tensor<T> d_output,
                                               const Trail<T>& trail,
                                               GradientReady<T> ready) {
  for (size_t i = blocks_.size(); i-- > 0;) {
    const Tensor<T>& saved = trail[i].saved;
    const absl::Status status = WeightsOf(*blocks_[i], d_output, saved, ready);
    if (!status.ok()) return status;
    d_output = blocks_[i]->BackwardInput(d_output, saved);
  }
  return d_output;
}

template <typename T>
Tensor<T> Network<T>::BackwardInput(Tensor<T> d_output, Trail<T>* trail) const {
  for (size_t i = blocks_.size(); i-- > 0;) {
    Footprint<T>& footprint = (*trail)[i];
    footprint.d_output = std::move(d_output);
    d_output = blocks_[i]->BackwardInput(footprint.d_output, footprint.saved);
  }
  return d_output;
}

template <typename T>
absl::Status Network<T>::BackwardWeights(const Trail<T>& trail,
                                         GradientReady<T> ready) {
  for (size_t i = blocks_.size(); i-- > 0;) {
    const absl::Status status =
        WeightsOf(*blocks_[i], trail[i].d_output, trail[i].saved, ready);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status Network<T>::WeightsOf(Block<T>& block, const Tensor<T>& d_output,
                                   const Tensor<T>& saved,
                                   GradientReady<T> ready) {
  block.BackwardWeights(d_output, saved);
  const std::vector<Parameter<T>*> parameters = block.parameters();
  for (size_t i = parameters.size(); i-- > 0;) {
    const absl::Status status = ready(*parameters[i]);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

namespace {

template <typename T>
std::unique_ptr<Block<T>> MakeBlock(const Layer& layer, Shape input,
                                    uint64_t seed, RowDomain<T>* domain) {
  switch (layer.kind) {
    case LayerKind::kConvolution:
      return std::make_unique<Convolution<T>>(layer.name, input, layer.outputs,
                                              seed, domain);
    case LayerKind::kRelu: return std::make_unique<Relu<T>>(layer.name, input);
    case LayerKind::kPool:
      return std::make_unique<AveragePool<T>>(layer.name, input);
    case LayerKind::kDense: break;
  }
  return std::make_unique<Dense<T>>(layer.name, input, layer.outputs, seed);
}

}  // namespace

template <typename T>
Network<T> DigitsNetwork(uint64_t seed, int first, int last,
                         RowDomain<T>* domain) {
  std::vector<std::unique_ptr<Block<T>>> blocks;
  Shape shape{kSide / (domain == nullptr ? 1 : domain->size()), kSide, 1};
  const auto add = [&](int i, std::unique_ptr<Block<T>> block) {
    shape = block->output_shape();
    if (first <= i && i < last) blocks.push_back(std::move(block));
  };
  bool is_cut = domain != nullptr;
  for (int i = 0; i < kDigitsBlocks; ++i) {
    if (is_cut && kDigitsLayers[i].kind == LayerKind::kDense) {
      add(i, std::make_unique<GatherRows<T>>("gather", shape, domain));
      is_cut = false;
    }
    add(i, MakeBlock<T>(kDigitsLayers[i], shape, seed, domain));
  }
  return Network<T>(std::move(blocks));
}

template class Network<float>;
template class Network<double>;
template Network<float> DigitsNetwork(uint64_t, int, int, RowDomain<float>*);
template Network<double> DigitsNetwork(uint64_t, int, int, RowDomain<double>*);

}  // namespace lockstep::digits
