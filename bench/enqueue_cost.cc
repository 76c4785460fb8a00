#include "bench/enqueue_cost.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/transport/nccl/cuda_arena.h"
#include "client/transport/nccl/device_scope.h"
#include "client/transport/nccl/gpu_status.h"
#include "client/transport/nccl/nccl.h"

namespace lockstep::bench {
namespace {

using transport::nccl::Check;
using transport::nccl::CudaStream;
using transport::nccl::NcclComm;
using transport::nccl::NcclConfig;
using transport::nccl::NcclResult;
using transport::nccl::NcclUniqueId;
using transport::nccl::Tables;

constexpr size_t kCount = 256;

class Stopwatch {
 public:
  double Microseconds() const {
    return absl::ToDoubleMicroseconds(absl::Now() - begin_);
  }

 private:
  const absl::Time begin_ = absl::Now();
};

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2,
                   values.end());
  return values[values.size() / 2];
}

// Plain NCCL: one thread, one stream.
class Raw {
 public:
  Raw(const Tables& tables, const EnqueuePlace& place, float* in, float* out)
      : tables_(tables),
        place_(place),
        scope_(*tables_.cuda),
        in_(in),
        out_(out) {}
  ~Raw() {
    if (comm_ != nullptr) tables_.nccl->CommDestroy(comm_);
  }

  absl::Status Connect() {
    auto stream = CudaStream::Create(tables_.cuda.get());
    if (!stream.ok()) return stream.status();
    stream_ = *std::move(stream);
    const absl::StatusOr<NcclUniqueId> id = ShareId();
    if (!id.ok()) return id.status();
    NcclConfig config;
    config.blocking = 1;
    absl::Status made =
        Check(*tables_.nccl,
              tables_.nccl->CommInitRankConfig(&comm_, place_.size, *id,
                                               place_.rank, &config),
              "CommInitRankConfig");
    return made;
  }

  absl::StatusOr<double> Run(int calls) {
    const auto handle = stream_->handle();
    absl::Status done;
    const Stopwatch stopwatch;
    for (int i = 0; i < calls; ++i) {
      done.Update(Check(
          *tables_.nccl,
          tables_.nccl->AllReduce(in_, out_, kCount,
                                  transport::nccl::NcclDType::kFloat32,
                                  transport::nccl::NcclOp::kSum, comm_, handle),
          "AllReduce"));
    }
    const double us = stopwatch.Microseconds();
    done.Update(stream_->Synchronize());
    if (!done.ok()) return done;
    return us / calls;
  }

 private:
  // Sends rank 0's id to all ranks.
  absl::StatusOr<NcclUniqueId> ShareId() {
    NcclUniqueId id{};
    absl::Status made;
    if (place_.rank == 0) {
      made =
          Check(*tables_.nccl, tables_.nccl->GetUniqueId(&id), "GetUniqueId");
    }
    const std::string bytes = absl::HexStringToBytes(place_.exchange(
        absl::BytesToHexString({id.bytes, sizeof id.bytes}))[0]);
    if (!made.ok()) return made;
    if (bytes.size() != sizeof id.bytes) {
      return absl::UnavailableError("rank 0 has gone");
    }
    std::memcpy(id.bytes, bytes.data(), sizeof id.bytes);
    return id;
  }

  const Tables tables_;
  const EnqueuePlace& place_;
  const transport::nccl::DeviceScope scope_;  // for the measuring thread
  float* const in_;
  float* const out_;
  std::unique_ptr<CudaStream> stream_;
  NcclComm comm_ = nullptr;
};

absl::StatusOr<double> RunOurs(Communicator& communicator, CudaStream& stream,
                               float* in, float* out, int calls) {
  absl::Status done;
  const Stopwatch stopwatch;
  for (int i = 0; i < calls; ++i) {
    done.Update(communicator.AllReduce(in, out, kCount, DType::kF32,
                                       ReduceOp::kSum, stream));
  }
  const double us = stopwatch.Microseconds();
  done.Update(stream.Synchronize());
  if (!done.ok()) return done;
  return us / calls;
}

absl::StatusOr<std::unique_ptr<Communicator>> Connect(
    transport::Transport& transport, const EnqueuePlace& place) {
  auto pending = transport.Prepare(
      {.name = "bench", .rank = place.rank, .size = place.size});
  if (!pending.ok()) return pending.status();
  return (*pending)->Connect(place.exchange((*pending)->handle()),
                             absl::Seconds(60));
}

}  // namespace

absl::StatusOr<EnqueueCost> MeasureEnqueue(const Tables& tables,
                                           const EnqueuePlace& place,
                                           const EnqueueLoad& load) {
  const auto arena = transport::nccl::MakeCudaArena(tables.nccl, tables.cuda);
  auto memory = arena->Allocate(2 * kCount * sizeof(float));
  if (!memory.ok()) return memory.status();
  float* const in = memory->as<float>().data();
  float* const out = in + kCount;

  Raw raw(tables, place, in, out);
  if (load.with_raw) {
    if (absl::Status made = raw.Connect(); !made.ok()) return made;
  }
  auto transport = transport::nccl::MakeTransport(tables);
  if (!transport.ok()) return transport.status();
  auto communicator = Connect(**transport, place);
  if (!communicator.ok()) return communicator.status();
  auto stream = CudaStream::Create(tables.cuda.get());
  if (!stream.ok()) return stream.status();

  std::vector<double> raws, ours;
  for (int batch = -1; batch < load.batches; ++batch) {  // the first warms up
    if (load.with_raw) {
      const auto raw_us = raw.Run(load.calls);
      if (!raw_us.ok()) return raw_us.status();
      if (batch >= 0) raws.push_back(*raw_us);
    }
    const auto us = RunOurs(**communicator, **stream, in, out, load.calls);
    if (!us.ok()) return us.status();
    if (batch >= 0) ours.push_back(*us);
  }
  (void)place.exchange("measured");  // no rank leaves before all have measured
  return EnqueueCost{.raw_us = load.with_raw ? Median(raws) : 0,
                     .call_us = Median(ours)};
}

}  // namespace lockstep::bench
