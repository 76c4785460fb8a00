#include "tests/support/faulty_communicator.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace lockstep {

absl::Status FaultyCommunicator::Before(const transport::CollectiveOp&,
                                        Stream& stream) {
  const int call = calls_++;
  if (call == faults_.abort_at) inner().Abort(absl::StrCat("fault at ", call));
  if (call == faults_.refuse_at) {
    return absl::InternalError(absl::StrCat("call ", call, " was refused"));
  }
  const bool late =
      std::uniform_real_distribution<double>()(random_) < faults_.late;
  const absl::Duration delay =
      faults_.late_max * std::uniform_real_distribution<double>()(random_);
  auto* const host = dynamic_cast<HostStream*>(&stream);
  if (late && host != nullptr) {
    host->Enqueue([delay] {
      absl::SleepFor(delay);
      return absl::OkStatus();
    });
  }
  return absl::OkStatus();
}

namespace {

using transport::GroupSpec;
using transport::PendingGroup;
using transport::Transport;

class FaultyGroup final : public PendingGroup {
 public:
  FaultyGroup(std::unique_ptr<PendingGroup> inner, const Faults& faults)
      : inner_(std::move(inner)), faults_(faults) {}

  const std::string& handle() const override { return inner_->handle(); }

  absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      const std::vector<std::string>& handles,
      absl::Duration timeout) override {
    auto comm = inner_->Connect(handles, timeout);
    if (!comm.ok()) return comm;
    return std::make_unique<FaultyCommunicator>(*std::move(comm), faults_);
  }

  void Abort(std::string_view cause) override { inner_->Abort(cause); }

 private:
  const std::unique_ptr<PendingGroup> inner_;
  const Faults faults_;
};

class FaultyTransport final : public Transport {
 public:
  FaultyTransport(std::unique_ptr<Transport> inner, const Faults& faults)
      : inner_(std::move(inner)), faults_(faults) {}

  std::string_view name() const override { return inner_->name(); }
  TransportFacts facts() const override { return inner_->facts(); }
  std::unique_ptr<Arena> MakeArena() override { return inner_->MakeArena(); }
  absl::StatusOr<std::unique_ptr<transport::DeviceContext>> MakeDeviceContext()
      override {
    return inner_->MakeDeviceContext();
  }
  std::optional<int> device() const override { return inner_->device(); }
  absl::StatusOr<std::unique_ptr<DeviceStream>> WrapStream(
      void* cuda_stream) override {
    return inner_->WrapStream(cuda_stream);
  }

  absl::StatusOr<std::unique_ptr<PendingGroup>> Prepare(
      const GroupSpec& group) override {
    auto pending = inner_->Prepare(group);
    if (!pending.ok()) return pending;
    Faults faults = faults_;
    faults.seed = faults_.seed * 1'000'003 + group.rank;
    return std::make_unique<FaultyGroup>(*std::move(pending), faults);
  }

 private:
  const std::unique_ptr<Transport> inner_;
  const Faults faults_;
};

}  // namespace

std::unique_ptr<Transport> MakeFaultyTransport(std::unique_ptr<Transport> inner,
                                               const Faults& faults) {
  return std::make_unique<FaultyTransport>(std::move(inner), faults);
}

}  // namespace lockstep
