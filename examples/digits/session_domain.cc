#include "examples/digits/session_domain.h"

#include <algorithm>
#include <vector>

#include "examples/digits/correlation.h"
#include "examples/digits/layers.h"
#include "examples/digits/stages.h"

namespace lockstep::digits {
namespace {

std::vector<int64_t> TensorShapeOf(int batch, const Shape& shape) {
  return {batch, shape.height, shape.width, shape.channels};
}

// The inputs of the network's blocks, cut among `domain_size` ranks.
std::vector<Shape> InputShapes(int domain_size) {
  std::vector<Shape> shapes;
  Shape shape{kSide / domain_size, kSide, 1};
  for (const Layer& layer : kDigitsLayers) {
    shapes.push_back(shape);
    if (layer.kind == LayerKind::kConvolution) shape.channels = layer.outputs;
    if (layer.kind == LayerKind::kPool) {
      shape = {shape.height / 2, shape.width / 2, shape.channels};
    }
    if (layer.kind == LayerKind::kDense) break;
  }
  return shapes;
}

}  // namespace

SessionDomain::SessionDomain(Session& session, SessionDomainOptions options)
    : session_(session), options_(options) {
  const Mesh& mesh = session.spec().mesh;
  const int axis = mesh.AxisIndex(kDomainAxis);
  size_ = mesh.axes[axis].size;
  index_ = mesh.CoordinatesOf(session.rank())[axis];
}

absl::Status SessionDomain::Declare(int stage, int stages) {
  const std::vector<Shape> inputs = InputShapes(size_);
  const int first = FirstBlock(stage, stages);
  const int end =
      std::min(FirstBlock(stage + 1, stages), static_cast<int>(inputs.size()));
  for (int i = first; i < end; ++i) {
    const Layer& layer = kDigitsLayers[i];
    const std::vector<int64_t> shape = TensorShapeOf(options_.batch, inputs[i]);
    if (layer.kind == LayerKind::kConvolution) {
      // Rows of the neighbours above and below, and zeros at the sides.
      auto halo = session_.Halo(
          {.name = layer.name,
           .tensors = {
               {.dtype = DType::kF64,
                .shape = shape,
                .dims = {{.dim = 1, .axis = kDomainAxis, .low = 1, .high = 1},
                         {.dim = 2, .low = 1, .high = 1}}}}});
      if (!halo.ok()) return halo.status();
      frames_.emplace(layer.name, *std::move(halo));
    }
    if (layer.kind == LayerKind::kDense) {
      auto group = session_.Group({kDomainAxis});
      if (!group.ok()) return group.status();
      group_ = *std::move(group);
      auto gather = group_->Prepare(
          {.kind = AxisCollectiveKind::kAllGather, .axis = 1, .tiled = true},
          {{DType::kF64, shape}});
      if (!gather.ok()) return gather.status();
      gather_ = *std::move(gather);
    }
  }
  return absl::OkStatus();
}

Tensor<double> SessionDomain::Frame(const std::string& layer,
                                    const Tensor<double>& rows) {
  if (options_.without_halos) return digits::Frame(rows);
  const auto [height, width, channels] = rows.shape();
  Tensor<double> frame(rows.batch(), {height + 2, width + 2, channels});
  if (status_.ok()) {
    status_ = frames_.at(layer).Forward({rows.values().data()},
                                        {frame.values().data()});
  }
  return frame;
}

Tensor<double> SessionDomain::FrameAdjoint(const std::string& layer,
                                           const Tensor<double>& d_frame) {
  const auto [height, width, channels] = d_frame.shape();
  Tensor<double> d_rows(d_frame.batch(), {height - 2, width - 2, channels});
  if (options_.without_halos) {
    for (int n = 0; n < d_rows.batch(); ++n) {
      const int row = (width - 2) * channels;
      for (int y = 0; y < height - 2; ++y) {
        std::copy_n(d_frame.sample(n) + ((y + 1) * width + 1) * channels, row,
                    d_rows.sample(n) + y * row);
      }
    }
  } else if (status_.ok()) {
    Tensor<double> padded = d_frame;
    status_ = frames_.at(layer).Backward({padded.values().data()},
                                         {d_rows.values().data()});
  }
  return d_rows;
}

Tensor<double> SessionDomain::Gather(const Tensor<double>& rows) {
  const auto [height, width, channels] = rows.shape();
  Tensor<double> all(rows.batch(), {height * size_, width, channels});
  if (status_.ok()) {
    status_ =
        gather_->RunAndWait({rows.values().data()}, {all.values().data()});
  }
  return all;
}

}  // namespace lockstep::digits
