// The digits network on a device: the layers of layers.h, their activations and
// weights in the device's memory.
//
//   host    images, labels ─Upload─▶ device   forward ─▶ loss ─▶ backward
//   host    loss ◀──────────Download───────────────────────┘
//
// Made from a network of the host's, whose weights it starts with and to which
// it brings back what it has learnt. Gradients are written where they are bound
// (into a bucket, say), never added to, so nobody needs to zero them.
//
// Threads: one. Errors: the device's.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_DEVICE_DEVICE_NETWORK_H_
#define LOCKSTEP_EXAMPLES_DIGITS_DEVICE_DEVICE_NETWORK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "examples/digits/device/device.h"
#include "examples/digits/layers.h"
#include "examples/digits/network.h"
#include "examples/digits/sgd.h"
#include "lockstep/verdict_scalars.h"

namespace lockstep::digits {

// A weight or bias. The gradient has memory of its own until it is bound.
template <typename T>
class DeviceParameter {
 public:
  // The same name and shape as on the host.
  const std::string& name() const { return host_->name(); }
  const std::vector<int64_t>& shape() const { return host_->shape(); }

  T* gradient() const { return gradient_; }
  void BindGradient(T* memory) { gradient_ = memory; }

 private:
  template <typename U>
  friend class DeviceNetwork;

  Parameter<T>* host_ = nullptr;
  ArenaBuffer value_, velocity_, own_gradient_;
  T* gradient_ = nullptr;
};

template <typename T>
class DeviceNetwork {
 public:
  using Ready = absl::FunctionRef<absl::Status(DeviceParameter<T>&)>;

  // `host`, all layers of it, and `device` must outlive it. `batch_max`:
  // samples of one step on this device.
  static absl::StatusOr<std::unique_ptr<DeviceNetwork>> Create(
      Network<T>* host, int64_t batch_max, const SgdOptions& sgd,
      Device* device);

  // In the order of the forward pass.
  const std::vector<DeviceParameter<T>*>& parameters() const {
    return parameters_;
  }

  // Enqueues both passes; `ready` is told of each parameter whose gradient is
  // complete once the stream has passed what it holds then, in the reverse
  // order of parameters(). An error of it ends the step.
  absl::Status ComputeGradients(const Tensor<T>& images,
                                absl::Span<const int> labels,
                                int64_t global_samples, Ready ready);

  // The loss of the last ComputeGradients, as loss.h says. Waits for it.
  absl::StatusOr<double> FetchLoss();

  // Enqueues the update. With a verdict, in memory that the stream reads: only
  // if that allows it.
  absl::Status Update(const VerdictScalars* verdict);

  // A step on nothing that changes nothing, and waits for its end: a device
  // loads each kernel when it is first launched, which it must not do while a
  // reduction waits for a peer that waits for us. Before gradients are bound.
  absl::Status Rehearse();

  // Brings the weights to the host's network.
  absl::Status FetchWeights();

 private:
  // A layer and what it gives.
  struct Stage {
    Layer layer;
    Plane input;
    Plane output;
    ArenaBuffer activation;
    ArenaBuffer d_activation;
    DeviceParameter<T>* weight = nullptr;
    DeviceParameter<T>* bias = nullptr;
  };

  DeviceNetwork(const SgdOptions& sgd, Device* device)
      : sgd_(sgd), device_(*device) {}

  absl::Status Build(Network<T>* host, int64_t batch_max);
  absl::Status Adopt(Parameter<T>* host, DeviceParameter<T>* parameter);
  absl::Status Forward(const Stage& stage, const T* input);
  absl::Status Backward(const Stage& stage, const T* input, T* d_input,
                        Ready ready);
  absl::Status Gradients(const Stage& stage, const T* input, Ready ready);

  const SgdOptions sgd_;
  Device& device_;
  std::vector<std::unique_ptr<DeviceParameter<T>>> owned_;
  std::vector<DeviceParameter<T>*> parameters_;
  std::vector<Stage> stages_;
  ArenaBuffer images_;
  ArenaBuffer labels_;
  ArenaBuffer losses_;
  int64_t batch_ = 0;
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_DEVICE_DEVICE_NETWORK_H_
