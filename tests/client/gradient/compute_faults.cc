#include "tests/client/gradient/compute_faults.h"

#include <string>
#include <utility>

#include "lockstep/verdict_scalars.h"

namespace lockstep::gradient {
namespace {

using transport::Compute;

class SpoiledSite final : public Compute::Site {
 public:
  SpoiledSite(ComputeFault fault, Site* inner) : fault_(fault), to_(*inner) {}

  void Copy(const void* from, void* to, size_t bytes) override {
    to_.Copy(from, to, bytes);
  }
  void Zero(void* data, size_t bytes) override {
    const bool norm = bytes == sizeof(kernels::FiniteCheck);
    if (norm && fault_ == ComputeFault::kKeepsTheLastNorm) return;
    to_.Zero(data, bytes);
  }
  void Pack(std::span<const kernels::Slot> slots, DType dtype, double weight,
            bool add, void* bucket) override {
    to_.Pack(slots, dtype, weight, add, bucket);
  }
  void WriteFlags(std::span<const uint8_t> on, DType dtype,
                  void* flags) override {
    if (fault_ == ComputeFault::kForgetsTheFlags) return;
    to_.WriteFlags(on, dtype, flags);
  }
  void Scale(void* data, DType dtype, double factor, size_t count) override {
    to_.Scale(data, dtype, factor, count);
  }
  void AddFiniteCheck(const void* data, DType dtype,
                      std::span<const kernels::ElementRange> ranges,
                      kernels::FiniteCheck* total) override {
    to_.AddFiniteCheck(data, dtype, ranges, total);
  }
  Event Done() override {
    return fault_ == ComputeFault::kReadsBeforeTheCopyIsThere ? Event()
                                                              : to_.Done();
  }
  absl::Status status() const override { return to_.status(); }

 private:
  const ComputeFault fault_;
  Site& to_;
};

Compute::Work SpoilWork(ComputeFault fault, Compute::Work work) {
  if (!work) return work;
  return [fault, work = std::move(work)](Compute::Site& site) mutable {
    SpoiledSite spoiled(fault, &site);
    return work(spoiled);
  };
}

class SpoiledQueue final : public Compute::Queue {
 public:
  SpoiledQueue(ComputeFault fault, std::unique_ptr<Queue> inner)
      : fault_(fault), inner_(std::move(inner)) {}

  void Launch(Compute::Transfer transfer) override {
    if (fault_ == ComputeFault::kReducesBeforeTheGradients) {
      transfer.after.clear();
    }
    transfer.before = SpoilWork(fault_, std::move(transfer.before));
    transfer.then = [fault = fault_, then = std::move(transfer.then)](
                        Compute::Site& site,
                        const absl::Status& status) mutable {
      SpoiledSite spoiled(fault, &site);
      then(spoiled, status);
    };
    inner_->Launch(std::move(transfer));
  }

 private:
  const ComputeFault fault_;
  const std::unique_ptr<Queue> inner_;
};

// Let go before the verdict; later words come too late.
class EarlyHold final : public Compute::Hold {
 public:
  explicit EarlyHold(std::shared_ptr<Hold> inner) : inner_(std::move(inner)) {
    const VerdictScalars yes{.commit = 1, .finite = 1};
    inner_->Release(absl::OkStatus(), &yes);
  }
  const void* message() const override { return inner_->message(); }
  void Release(const absl::Status&, const void*) override {}

 private:
  const std::shared_ptr<Hold> inner_;
};

class SpoiledCompute final : public Compute {
 public:
  SpoiledCompute(ComputeFault fault, std::unique_ptr<Compute> inner,
                 std::unique_ptr<Stream> other_stream)
      : fault_(fault),
        inner_(std::move(inner)),
        other_stream_(std::move(other_stream)) {}

  absl::StatusOr<ArenaBuffer> AllocateStaging(size_t bytes) override {
    return inner_->AllocateStaging(bytes);
  }
  absl::Status CheckStream(const Stream& stream) const override {
    return inner_->CheckStream(stream);
  }
  absl::Status Perform(Stream* stream, Work work) override {
    return inner_->Perform(stream, SpoilWork(fault_, std::move(work)));
  }
  absl::StatusOr<std::shared_ptr<Hold>> HoldBack(Stream& stream,
                                                 size_t bytes) override {
    if (fault_ == ComputeFault::kHoldsNothing) {
      return inner_->HoldBack(*other_stream_, bytes);
    }
    auto hold = inner_->HoldBack(stream, bytes);
    if (!hold.ok() || fault_ != ComputeFault::kUpdatesBeforeTheVerdict) {
      return hold;
    }
    return std::shared_ptr<Hold>(std::make_shared<EarlyHold>(*hold));
  }
  absl::StatusOr<std::unique_ptr<Queue>> MakeQueue(std::string name) override {
    auto queue = inner_->MakeQueue(std::move(name));
    if (!queue.ok()) return queue;
    return std::make_unique<SpoiledQueue>(fault_, *std::move(queue));
  }

 private:
  const ComputeFault fault_;
  const std::unique_ptr<Compute> inner_;
  const std::unique_ptr<Stream> other_stream_;  // that nobody uses
};

}  // namespace

std::unique_ptr<Compute> Spoil(ComputeFault fault,
                               std::unique_ptr<Compute> inner,
                               std::unique_ptr<Stream> other_stream) {
  return std::make_unique<SpoiledCompute>(fault, std::move(inner),
                                          std::move(other_stream));
}

}  // namespace lockstep::gradient
