#include "tests/support/recording_communicator.h"

namespace lockstep {

using plan::TransferKind;

absl::Status RecordingCommunicator::AllReduce(const void* in, void* out,
                                              size_t count, DType dtype,
                                              ReduceOp op, Stream& stream) {
  recorder_.Add({name_, TransferKind::kAllReduce, count, dtype, op});
  return inner_->AllReduce(in, out, count, dtype, op, stream);
}

absl::Status RecordingCommunicator::ReduceScatter(const void* in, void* out,
                                                  size_t count, DType dtype,
                                                  ReduceOp op, Stream& stream) {
  recorder_.Add(
      {name_, TransferKind::kReduceScatter, count * size(), dtype, op});
  return inner_->ReduceScatter(in, out, count, dtype, op, stream);
}

absl::Status RecordingCommunicator::AllGather(const void* in, void* out,
                                              size_t count, DType dtype,
                                              Stream& stream) {
  recorder_.Add({name_, TransferKind::kAllGather, count, dtype});
  return inner_->AllGather(in, out, count, dtype, stream);
}

absl::Status RecordingCommunicator::Broadcast(void* buffer, size_t count,
                                              DType dtype, int root,
                                              Stream& stream) {
  recorder_.Add({.communicator = name_,
                 .kind = TransferKind::kBroadcast,
                 .count = count,
                 .dtype = dtype,
                 .root = root});
  return inner_->Broadcast(buffer, count, dtype, root, stream);
}

absl::Status RecordingCommunicator::AllToAll(const void* in, void* out,
                                             size_t count, DType dtype,
                                             Stream& stream) {
  recorder_.Add({name_, TransferKind::kAllToAll, count * size(), dtype});
  return inner_->AllToAll(in, out, count, dtype, stream);
}

absl::Status RecordingCommunicator::AllToAllV(
    const void*, absl::Span<const size_t>, absl::Span<const size_t>, void*,
    absl::Span<const size_t>, absl::Span<const size_t>, DType, Stream&) {
  return absl::UnimplementedError("no plan has an all-to-all of such a kind");
}

absl::Status RecordingCommunicator::Send(const void* buffer, size_t count,
                                         DType dtype, int peer,
                                         Stream& stream) {
  recorder_.Add({.communicator = name_,
                 .kind = TransferKind::kSend,
                 .count = count,
                 .dtype = dtype,
                 .peer = peer});
  return inner_->Send(buffer, count, dtype, peer, stream);
}

absl::Status RecordingCommunicator::Recv(void* buffer, size_t count,
                                         DType dtype, int peer,
                                         Stream& stream) {
  recorder_.Add({.communicator = name_,
                 .kind = TransferKind::kRecv,
                 .count = count,
                 .dtype = dtype,
                 .peer = peer});
  return inner_->Recv(buffer, count, dtype, peer, stream);
}

absl::Status RecordingCommunicator::Barrier(Stream& stream) {
  recorder_.Add({.communicator = name_, .kind = TransferKind::kBarrier});
  return inner_->Barrier(stream);
}

absl::Status RecordingCommunicator::Group(
    absl::FunctionRef<absl::Status()> body) {
  recorder_.BeginGroup(name_);
  const absl::Status status = inner_->Group(body);
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
  absl::StatusOr<std::unique_ptr<transport::Compute>> MakeCompute() override {
    return inner_->MakeCompute();
  }
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
