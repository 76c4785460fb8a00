#include "tests/gpu/nccl/state_exercise.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/state/recovery.h"
#include "client/state/replica_check.h"
#include "client/transport/nccl/cuda_arena.h"
#include "client/transport/nccl/cuda_stream.h"
#include "client/transport/nccl/device_scope.h"
#include "client/transport/nccl/gpu_status.h"
#include "client/transport/nccl/nccl.h"

namespace lockstep::gpu {
namespace {

using transport::nccl::CudaStream;
using transport::nccl::Tables;
using KernelQueue = transport::DeviceContext::KernelQueue;

// More than a window.
constexpr size_t kDeviceCount = 1'000'003;
constexpr size_t kHostCount = 1001;

std::vector<float> Contents(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 9973);
  return values;
}

class StateRank {
 public:
  StateRank(const Tables& tables, const Place& place)
      : tables_(tables),
        scope_(*tables_.cuda),
        place_(place),
        arena_(transport::nccl::MakeCudaArena(tables.nccl, tables.cuda)),
        mesh_{{{"data", place.size}}} {
    std::vector<int> ranks;
    for (int rank = 0; rank < place.size; ++rank) ranks.push_back(rank);
    for (const auto& [name, count] :
         {std::pair{"device", kDeviceCount}, std::pair{"host", kHostCount}}) {
      tensors_.push_back(
          {.name = name,
           .dtype = DType::kF32,
           .dims = {{.bounds = {0, static_cast<int64_t>(count)}}},
           .ranks = ranks});
    }
  }
  ~StateRank() {
    if (on_device_ != nullptr) tables_.cuda->Free(on_device_);
  }

  absl::Status Open() {
    auto transport = transport::nccl::MakeTransport(tables_);
    if (!transport.ok()) return transport.status();
    transport_ = *std::move(transport);
    auto device = transport_->MakeDeviceContext();
    if (!device.ok()) return device.status();
    device_ = *std::move(device);
    auto stream = CudaStream::Create(tables_.cuda.get());
    if (!stream.ok()) return stream.status();
    stream_ = *std::move(stream);
    auto pending = transport_->Prepare(
        {.name = "state", .rank = place_.rank, .size = place_.size});
    if (!pending.ok()) return pending.status();
    auto comm = (*pending)->Connect(place_.exchange((*pending)->handle()),
                                    absl::Seconds(60));
    if (!comm.ok()) return comm.status();
    comm_ = *std::move(comm);
    return Check(
        *tables_.cuda,
        tables_.cuda->Malloc(&on_device_, kDeviceCount * sizeof(float)),
        "Malloc");
  }

  absl::Status Write(const std::vector<float>& device,
                     const std::vector<float>& host) {
    on_host_ = host;
    return Copy(device.data(), on_device_);
  }

  absl::Status Compare() {
    return state::ReplicaCheck(tensors_, mesh_, {on_device_, on_host_.data()},
                               wire())
        .Check(*comm_, *stream_);
  }

  absl::Status Recover() {
    std::vector<int> healthy;
    for (int rank = 1; rank < place_.size; ++rank) healthy.push_back(rank);
    const auto plan = plan::PlanRecovery(tensors_, mesh_, {0}, healthy);
    if (!plan.ok()) return plan.status();
    void* const memory[] = {on_device_, on_host_.data()};
    return state::Recover(tensors_, *plan, memory, *comm_, *stream_,
                          {.wire = wire()});
  }

  absl::Status ExpectContents() {
    std::vector<float> device(kDeviceCount);
    absl::Status copied = Copy(on_device_, device.data());
    if (!copied.ok()) return copied;
    if (device == Contents(kDeviceCount) && on_host_ == Contents(kHostCount)) {
      return absl::OkStatus();
    }
    return absl::DataLossError("the recovered state has other values");
  }

 private:
  state::WireMemory wire() const {
    return {device_, [this](size_t bytes) { return arena_->Allocate(bytes); }};
  }

  // The tensor on the device.
  absl::Status Copy(const void* from, void* to) {
    absl::Status status =
        device_->Perform(stream_.get(), [&](KernelQueue& queue) {
          queue.Copy(from, to, kDeviceCount * sizeof(float));
          return queue.status();
        });
    status.Update(stream_->Synchronize());
    return status;
  }

  const Tables tables_;
  const transport::nccl::DeviceScope scope_;  // for the rank's thread
  const Place place_;
  const std::unique_ptr<Arena> arena_;
  const Mesh mesh_;
  std::vector<plan::StateTensor> tensors_;
  std::unique_ptr<transport::Transport> transport_;
  std::shared_ptr<transport::DeviceContext> device_;
  std::unique_ptr<CudaStream> stream_;
  std::unique_ptr<Communicator> comm_;
  void* on_device_ = nullptr;
  std::vector<float> on_host_;
};

// `status` must be a DataLoss that has this text.
absl::Status ExpectDifference(const absl::Status& status,
                              const std::string& text) {
  if (absl::IsDataLoss(status) && absl::StrContains(status.message(), text)) {
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat("the comparison did not find ", text,
                                          ": ", status.ToString()));
}

}  // namespace

absl::Status RecoverState(const Tables& tables, const Place& place) {
  StateRank rank(tables, place);
  const std::vector<float> device = Contents(kDeviceCount);
  const std::vector<float> host = Contents(kHostCount);
  absl::Status status = rank.Open();
  if (status.ok()) status = rank.Write(device, host);
  if (status.ok()) status = rank.Compare();
  if (!status.ok() || place.size == 1) return status;
  if (place.rank == 0) {
    status = rank.Write(std::vector<float>(kDeviceCount),
                        std::vector<float>(kHostCount));
  }
  if (status.ok()) {
    status = ExpectDifference(rank.Compare(), "tensor \"device\" of rank");
  }
  if (status.ok()) status = rank.Recover();
  if (status.ok()) status = rank.ExpectContents();
  if (status.ok()) status = rank.Compare();
  if (!status.ok() || place.size == 2) return status;
  const int last = place.size - 1;
  if (place.rank == last) {
    std::vector<float> flipped = device;
    flipped[kDeviceCount - 1] += 1;
    status = rank.Write(flipped, host);
  }
  if (!status.ok()) return status;
  return ExpectDifference(
      rank.Compare(), absl::StrCat("tensor \"device\" of rank ", last, " "));
}

}  // namespace lockstep::gpu
