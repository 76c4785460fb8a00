#include "tests/client/halo/torch_file.h"

#include <array>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "tests/support/paths.h"

namespace lockstep::halo_test {
namespace {

using Json = nlohmann::json;

Tensor4 Generated(int64_t seed, int64_t number, std::array<int64_t, 4> shape,
                  int64_t scale) {
  constexpr int64_t kModulus = int64_t{1} << 31;
  Tensor4 tensor = Tensor4::Zeros(shape);
  int64_t state = (seed * 8 + number) * 7919 % kModulus;
  for (double& value : tensor.data) {
    state = (state * 1103515245 + 12345) % kModulus;
    const int64_t integer = (state >> 16) % (8 * scale + 1) - 4 * scale;
    value = static_cast<double>(integer) / static_cast<double>(scale);
  }
  return tensor;
}

HaloEdge EdgeOf(const std::string& mode) {
  if (mode == "zeros") return HaloEdge::kZero;
  if (mode == "constant") return HaloEdge::kConstant;
  if (mode == "circular") return HaloEdge::kPeriodic;
  if (mode == "reflect") return HaloEdge::kReflect;
  if (mode == "replicate") return HaloEdge::kReplicate;
  throw std::invalid_argument("no mode " + mode);
}

ConvDim DimOf(const Json& json, size_t d) {
  ConvDim dim;
  dim.kernel = json.at("kernel")[d];
  dim.stride = json.at("stride")[d];
  dim.dilation = json.at("dilation")[d];
  dim.padding_low = json.at("padding")[d][0];
  dim.padding_high = json.at("padding")[d][1];
  dim.transposed = json.at("op") == "conv_transpose";
  dim.output_padding = json.at("output_padding")[d];
  dim.edge = EdgeOf(json.at("mode")[d]);
  if (dim.edge == HaloEdge::kConstant) {
    dim.constant = 2 + static_cast<double>(d);
  }
  return dim;
}

std::vector<double> Numbers(const Json& json) {
  return json.get<std::vector<double>>();
}

// With one column where the case has one spatial dimension.
std::array<int64_t, 4> ShapeOf(const Json& json) {
  const auto extents = json.get<std::vector<int64_t>>();
  return {extents.at(0), extents.at(1), extents.at(2),
          extents.size() > 3 ? extents[3] : 1};
}

TorchConvCase ConvCaseOf(const Json& json, std::string line) {
  TorchConvCase conv{.line = std::move(line)};
  const size_t rank = json.at("kernel").size();
  for (size_t d = 0; d < rank; ++d) conv.layer[d] = DimOf(json, d);
  conv.layer[1].transposed = conv.layer[0].transposed;
  const int64_t seed = json.at("seed"), outputs = json.at("out");
  const auto shape = ShapeOf(json.at("x"));
  conv.x = Generated(seed, 0, shape, 1);
  const bool transposed = conv.layer[0].transposed;
  const std::array<int64_t, 4> weight{
      transposed ? shape[1] : outputs, transposed ? outputs : shape[1],
      conv.layer[0].kernel, conv.layer[1].kernel};
  conv.weights = {Generated(seed, 1, weight, 1),
                  Generated(seed, 2, {outputs, 1, 1, 1}, 1).data};
  conv.y = {ShapeOf(json.at("y_shape")), Numbers(json.at("y"))};
  conv.dy = Generated(seed, 3, conv.y.shape, 1);
  conv.gradients = {{shape, Numbers(json.at("dx"))},
                    {{weight, Numbers(json.at("dw"))}, Numbers(json.at("db"))}};
  return conv;
}

TorchNormCase NormCaseOf(const Json& json, std::string line) {
  TorchNormCase norm{.line = std::move(line)};
  norm.kind =
      json.at("op") == "batch_norm" ? NormKind::kBatch : NormKind::kGroup;
  norm.groups = json.at("groups");
  norm.epsilon = json.at("epsilon");
  const int64_t seed = json.at("seed");
  const auto shape = ShapeOf(json.at("x"));
  norm.x = Generated(seed, 0, shape, 8);
  norm.gamma = Generated(seed, 1, {shape[1], 1, 1, 1}, 8).data;
  norm.beta = Generated(seed, 2, {shape[1], 1, 1, 1}, 8).data;
  norm.dy = Generated(seed, 3, shape, 8);
  norm.y = Numbers(json.at("y"));
  norm.dx = Numbers(json.at("dx"));
  norm.dgamma = Numbers(json.at("dgamma"));
  norm.dbeta = Numbers(json.at("dbeta"));
  if (norm.kind == NormKind::kBatch) {
    norm.mean = Numbers(json.at("mean"));
    norm.unbiased_variance = Numbers(json.at("unbiased_variance"));
  }
  return norm;
}

}  // namespace

TorchCases ReadTorchCases() {
  TorchCases cases;
  std::istringstream file(ReadSource("tests/conformance/halo/layers.jsonl"));
  std::string line;
  std::getline(file, line);  // PyTorch's version
  while (std::getline(file, line)) {
    const Json json = Json::parse(line);
    const std::string op = json.at("op");
    std::string begin = line.substr(0, line.find(",\"y"));
    if (op == "conv" || op == "conv_transpose") {
      cases.convs.push_back(ConvCaseOf(json, std::move(begin)));
    } else {
      cases.norms.push_back(NormCaseOf(json, std::move(begin)));
    }
  }
  return cases;
}

}  // namespace lockstep::halo_test
