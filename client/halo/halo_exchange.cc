#include "lockstep/halo_exchange.h"

#include <utility>

#include "client/halo/halo_exchange_impl.h"

namespace lockstep {

using plan::HaloPass;

namespace {

halo::Pointers Mutable(absl::Span<const void* const> pointers) {
  halo::Pointers made;
  for (const void* pointer : pointers) {
    made.push_back(const_cast<void*>(pointer));  // inputs are only read
  }
  return made;
}
halo::Pointers Mutable(absl::Span<void* const> pointers) {
  return {pointers.begin(), pointers.end()};
}

}  // namespace

HaloExchange::HaloExchange(std::shared_ptr<Impl> impl)
    : impl_(std::move(impl)) {}

const HaloSpec& HaloExchange::spec() const { return impl_->spec(); }
absl::StatusOr<std::vector<HaloBlock>> HaloExchange::blocks() const {
  return impl_->blocks();
}
absl::StatusOr<std::vector<TensorType>> HaloExchange::padded_types() const {
  return impl_->padded_types();
}

absl::StatusOr<PendingCollective> HaloExchange::Start(
    absl::Span<const void* const> blocks, absl::Span<void* const> padded,
    absl::Span<const Event> after) const {
  return impl_->Start(HaloPass::kForward, {Mutable(padded), Mutable(blocks)},
                      after);
}
absl::Status HaloExchange::Run(absl::Span<const void* const> blocks,
                               absl::Span<void* const> padded,
                               Stream& stream) const {
  return impl_->Run(HaloPass::kForward, {Mutable(padded), Mutable(blocks)},
                    stream);
}
absl::Status HaloExchange::Forward(absl::Span<const void* const> blocks,
                                   absl::Span<void* const> padded) const {
  return impl_->RunAndWait(HaloPass::kForward,
                           {Mutable(padded), Mutable(blocks)});
}

absl::StatusOr<PendingCollective> HaloExchange::StartBackward(
    absl::Span<void* const> padded_gradients,
    absl::Span<void* const> block_gradients,
    absl::Span<const Event> after) const {
  return impl_->Start(HaloPass::kAdjoint,
                      {Mutable(padded_gradients), Mutable(block_gradients)},
                      after);
}
absl::Status HaloExchange::RunBackward(absl::Span<void* const> padded_gradients,
                                       absl::Span<void* const> block_gradients,
                                       Stream& stream) const {
  return impl_->Run(HaloPass::kAdjoint,
                    {Mutable(padded_gradients), Mutable(block_gradients)},
                    stream);
}
absl::Status HaloExchange::Backward(
    absl::Span<void* const> padded_gradients,
    absl::Span<void* const> block_gradients) const {
  return impl_->RunAndWait(HaloPass::kAdjoint, {Mutable(padded_gradients),
                                                Mutable(block_gradients)});
}

absl::Status HaloExchange::Trim(absl::Span<const void* const> padded,
                                absl::Span<void* const> blocks) const {
  return impl_->Trim({Mutable(padded), Mutable(blocks)}, nullptr);
}
absl::Status HaloExchange::RunTrim(absl::Span<const void* const> padded,
                                   absl::Span<void* const> blocks,
                                   Stream& stream) const {
  return impl_->Trim({Mutable(padded), Mutable(blocks)}, &stream);
}

}  // namespace lockstep
