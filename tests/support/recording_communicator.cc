#include "tests/support/recording_communicator.h"

namespace lockstep {

using plan::TransferKind;
using transport::CollectiveKind;
using transport::CollectiveOp;

namespace {

TransferKind KindOf(const CollectiveOp& call) {
  switch (call.kind) {
    case CollectiveKind::kAllReduce:
      return call.in_pairs ? TransferKind::kAllReducePairs
                           : TransferKind::kAllReduce;
    case CollectiveKind::kReduceScatter: return TransferKind::kReduceScatter;
    case CollectiveKind::kAllGather: return TransferKind::kAllGather;
    case CollectiveKind::kBroadcast: return TransferKind::kBroadcast;
    case CollectiveKind::kAllToAll:
    case CollectiveKind::kAllToAllV: return TransferKind::kAllToAll;
    case CollectiveKind::kSend: return TransferKind::kSend;
    case CollectiveKind::kRecv: return TransferKind::kRecv;
    case CollectiveKind::kBarrier: return TransferKind::kBarrier;
  }
  return TransferKind::kBarrier;
}

}  // namespace

absl::Status RecordingCommunicator::Before(const CollectiveOp& call, Stream&) {
  if (call.kind == CollectiveKind::kAllToAllV) {
    return absl::UnimplementedError("no plan has an all-to-all of such a kind");
  }
  RecordedCall recorded{.communicator = name_, .kind = KindOf(call)};
  if (call.kind != CollectiveKind::kBarrier) recorded.dtype = call.dtype;
  const bool of_all_ranks = call.kind == CollectiveKind::kReduceScatter ||
                            call.kind == CollectiveKind::kAllToAll;
  recorded.count = call.count * (of_all_ranks ? size() : 1);
  recorded.op = call.op;
  if (call.kind == CollectiveKind::kBroadcast) recorded.root = call.peer;
  if (call.is_point_to_point()) recorded.peer = call.peer;
  recorder_.Add(std::move(recorded));
  return absl::OkStatus();
}

absl::Status RecordingCommunicator::Group(
    absl::FunctionRef<absl::Status()> body) {
  recorder_.BeginGroup(name_);
  const absl::Status status = inner().Group(body);
  recorder_.EndGroup(name_);
  return status;
}

namespace {

using transport::GroupSpec;
using transport::PendingGroup;
using transport::Transport;

class RecordingGroup final : public PendingGroup {
 public:
  RecordingGroup(std::string name, std::unique_ptr<PendingGroup> inner,
                 Recorder* recorder)
      : name_(std::move(name)), inner_(std::move(inner)), recorder_(recorder) {}

  const std::string& handle() const override { return inner_->handle(); }
  absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      const std::vector<std::string>& handles,
      absl::Duration timeout) override {
    auto comm = inner_->Connect(handles, timeout);
    if (!comm.ok()) return comm;
    return std::make_unique<RecordingCommunicator>(name_, *std::move(comm),
                                                   recorder_);
  }
  void Abort(std::string_view cause) override { inner_->Abort(cause); }

 private:
  const std::string name_;
  const std::unique_ptr<PendingGroup> inner_;
  Recorder* const recorder_;
};

class RecordingTransport final : public Transport {
 public:
  RecordingTransport(std::unique_ptr<Transport> inner, Recorder* recorder)
      : inner_(std::move(inner)), recorder_(recorder) {}

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
    return std::make_unique<RecordingGroup>(group.name, *std::move(pending),
                                            recorder_);
  }

 private:
  const std::unique_ptr<Transport> inner_;
  Recorder* const recorder_;
};

}  // namespace

std::unique_ptr<Transport> MakeRecordingTransport(
    std::unique_ptr<Transport> inner, Recorder* recorder) {
  return std::make_unique<RecordingTransport>(std::move(inner), recorder);
}

}  // namespace lockstep
