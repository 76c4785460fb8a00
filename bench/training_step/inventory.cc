#include "bench/training_step/inventory.h"

#include <functional>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace lockstep::bench {
namespace {

void AddConvolution(Inventory& to, const std::string& name, int64_t out,
                    int64_t in, int64_t kernel) {
  to.push_back({name + ".weight", {out, in, kernel, kernel}});
}

// Adds a weight and a bias with one number per channel each.
void AddNorm(Inventory& to, const std::string& name, int64_t width) {
  to.push_back({name + ".weight", {width}});
  to.push_back({name + ".bias", {width}});
}

void AddBottleneck(Inventory& to, const std::string& name, int64_t in,
                   int64_t width, bool is_first) {
  const int64_t out = 4 * width;
  AddConvolution(to, name + ".conv1", width, in, 1);
  AddNorm(to, name + ".bn1", width);
  AddConvolution(to, name + ".conv2", width, width, 3);
  AddNorm(to, name + ".bn2", width);
  AddConvolution(to, name + ".conv3", out, width, 1);
  AddNorm(to, name + ".bn3", out);
  if (!is_first) return;
  AddConvolution(to, name + ".downsample.0", out, in, 1);
  AddNorm(to, name + ".downsample.1", out);
}

// The shape of GPT-2's weights is [in, out].
void AddLinear(Inventory& to, const std::string& name, int64_t in,
               int64_t out) {
  to.push_back({name + ".weight", {in, out}});
  to.push_back({name + ".bias", {out}});
}

Inventory Checked(Inventory inventory, size_t tensors, int64_t elements) {
  Check(inventory.size() == tensors && ElementsOf(inventory) == elements,
        "a model has another number of parameters than is known of it");
  return inventory;
}

}  // namespace

int64_t Tensor::elements() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1},
                         std::multiplies<>());
}

int64_t ElementsOf(const Inventory& inventory) {
  int64_t elements = 0;
  for (const Tensor& tensor : inventory) elements += tensor.elements();
  return elements;
}

Inventory ResNet50() {
  Inventory model;
  AddConvolution(model, "conv1", 64, 3, 7);
  AddNorm(model, "bn1", 64);
  int64_t in = 64;
  const int blocks[] = {3, 4, 6, 3};
  for (int layer = 0; layer < 4; ++layer) {
    const int64_t width = 64 << layer;
    for (int block = 0; block < blocks[layer]; ++block) {
      AddBottleneck(model, absl::StrCat("layer", layer + 1, ".", block), in,
                    width, block == 0);
      in = 4 * width;
    }
  }
  model.push_back({"fc.weight", {1000, 2048}});
  model.push_back({"fc.bias", {1000}});
  return Checked(std::move(model), 161, 25'557'032);
}

Inventory Gpt2Small() {
  constexpr int64_t kWidth = 768;
  Inventory model = {{"wte.weight", {50257, kWidth}},
                     {"wpe.weight", {1024, kWidth}}};
  for (int layer = 0; layer < 12; ++layer) {
    const std::string name = absl::StrCat("h.", layer);
    AddNorm(model, name + ".ln_1", kWidth);
    AddLinear(model, name + ".attn.c_attn", kWidth, 3 * kWidth);
    AddLinear(model, name + ".attn.c_proj", kWidth, kWidth);
    AddNorm(model, name + ".ln_2", kWidth);
    AddLinear(model, name + ".mlp.c_fc", kWidth, 4 * kWidth);
    AddLinear(model, name + ".mlp.c_proj", 4 * kWidth, kWidth);
  }
  AddNorm(model, "ln_f", kWidth);
  return Checked(std::move(model), 148, 124'439'808);
}

Inventory Equal(int count, int64_t elements) {
  Inventory tensors;
  for (int i = 0; i < count; ++i) {
    tensors.push_back({absl::StrCat("p", i), {elements}});
  }
  return tensors;
}

}  // namespace lockstep::bench
