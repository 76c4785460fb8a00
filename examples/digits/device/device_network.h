// The digits network on a device: the layers of layers.h, with activations and
// weights in device memory.
//
//   host    images, labels ─Upload─▶ device   forward ─▶ loss ─▶ backward
//   host    loss ◀──────────Download───────────────────────┘
//
// It is made from a network on the host, whose weights it starts with and to
// which it copies the trained weights back. Gradients are written to their
// bound memory (a bucket, for example), never accumulated, so they need not be
// zeroed.
//
// Threads: one. Errors: those of the device.

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

// A weight or bias. It owns the memory of the gradient until that is bound.
template <typename T>
class DeviceParameter {
 public:
  // The same name and shape as on the host.
  const std::string& name() const { return host_->name(); }
  const std::vector<int64_t>& shape() const { return host_->shape(); }

  // Device memory of as many elements each.
  T* value() const { return reinterpret_cast<T*>(value_.data()); }
  T* velocity() const { return reinterpret_cast<T*>(velocity_.data()); }
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

  // `host` (all layers of it) must outlive this object, and `device` its use.
  // `batch_max`: the largest number of samples per step on this device.
  static absl::StatusOr<std::unique_ptr<DeviceNetwork>> Create(
      Network<T>* host, int64_t batch_max, const SgdOptions& sgd,
      Device* device);

  // Another stream of the same device, from now on: the next epoch's.
  void Use(Device* device) { device_ = device; }

  // In the order of the forward pass.
  const std::vector<DeviceParameter<T>*>& parameters() const {
    return parameters_;
  }

  // Enqueues both passes. `ready` is called for each parameter, in the reverse
  // order of parameters(): its gradient is complete once the stream has passed
  // the work enqueued so far. An error of `ready` ends the step.
  absl::Status ComputeGradients(const Tensor<T>& images,
                                absl::Span<const int> labels,
                                int64_t global_samples, Ready ready);

  // The loss of the last ComputeGradients, as in loss.h. Blocks until it is
  // computed.
  absl::StatusOr<double> FetchLoss();

  // Enqueues the update. With a verdict, which is in memory that the stream can
  // read, it is applied only if the verdict allows it.
  absl::Status Update(const VerdictScalars* verdict);

  // Runs a step on zeros that changes nothing, and waits for its end. A device
  // loads each kernel at its first launch, which must not happen while a
  // reduction waits for a peer that waits for this rank. Call it before
  // gradients are bound.
  absl::Status WarmUp();

  // Copies the weights to the host's network.
  absl::Status FetchWeights();

 private:
  // A layer and its output.
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
      : sgd_(sgd), device_(device) {}

  absl::Status Build(Network<T>* host, int64_t batch_max);
  absl::Status Adopt(Parameter<T>* host, DeviceParameter<T>* parameter);
  absl::Status Forward(const Stage& stage, const T* input);
  absl::Status Backward(const Stage& stage, const T* input, T* d_input,
                        Ready ready);
  absl::Status Gradients(const Stage& stage, const T* input, Ready ready);

  const SgdOptions sgd_;
  Device* device_;
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
