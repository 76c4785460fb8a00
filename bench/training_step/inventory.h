// The gradients of well-known models, by shape, in the order in which the model
// defines its parameters.

#ifndef LOCKSTEP_BENCH_TRAINING_STEP_INVENTORY_H_
#define LOCKSTEP_BENCH_TRAINING_STEP_INVENTORY_H_

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::bench {

struct Tensor {
  std::string name;
  std::vector<int64_t> shape;
  int64_t elements() const;
};

using Inventory = std::vector<Tensor>;

int64_t ElementsOf(const Inventory& inventory);

// ResNet-50: 161 tensors, 25,557,032 elements. torchvision/models/resnet.py,
// resnet50: Bottleneck blocks 3, 4, 6, 3 of He et al., "Deep Residual Learning
// for Image Recognition", table 1, with 1,000 classes.
Inventory ResNet50();

// GPT-2 small: 148 tensors, 124,439,808 elements. transformers'
// models/gpt2/modeling_gpt2.py, GPT2Config's defaults: 12 layers, width 768,
// 50,257 tokens, 1,024 positions, the head tied to the embedding.
Inventory Gpt2Small();

// `count` tensors of `elements` each.
Inventory Equal(int count, int64_t elements);

}  // namespace lockstep::bench

#endif  // LOCKSTEP_BENCH_TRAINING_STEP_INVENTORY_H_
