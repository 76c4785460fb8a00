// The list of the network's layers, shared by all implementations; network.h
// has the picture.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_LAYERS_H_
#define LOCKSTEP_EXAMPLES_DIGITS_LAYERS_H_

#include "examples/digits/dataset.h"

namespace lockstep::digits {

enum class LayerKind { kConvolution, kRelu, kPool, kDense };

struct Layer {
  LayerKind kind;
  const char* name;
  int outputs = 0;  // channels of a convolution, features of a dense layer
};

inline constexpr Layer kDigitsLayers[] = {
    {LayerKind::kConvolution, "conv1", 16},
    {LayerKind::kRelu, "relu1"},
    {LayerKind::kConvolution, "conv2", 16},
    {LayerKind::kRelu, "relu2"},
    {LayerKind::kPool, "pool1"},
    {LayerKind::kConvolution, "conv3", 32},
    {LayerKind::kRelu, "relu3"},
    {LayerKind::kPool, "pool2"},
    {LayerKind::kDense, "dense1", 64},
    {LayerKind::kRelu, "relu4"},
    {LayerKind::kDense, "dense2", kClasses},
};

inline constexpr int kDigitsBlocks =
    static_cast<int>(sizeof kDigitsLayers / sizeof kDigitsLayers[0]);

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_LAYERS_H_
