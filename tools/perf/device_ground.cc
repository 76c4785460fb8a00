#include "tools/perf/device_ground.h"

#include <utility>

#include "client/transport/nccl/cuda_stream.h"
#include "client/transport/nccl/nccl.h"

namespace lockstep::perf {

absl::StatusOr<Ground> MakeDeviceGround(const transport::nccl::Tables& tables) {
  auto transport = transport::nccl::MakeTransport(tables);
  if (!transport.ok()) return transport.status();
  auto device = (*transport)->MakeCompute();
  if (!device.ok()) return device.status();
  auto stream = transport::nccl::CudaStream::Create(tables.cuda.get());
  if (!stream.ok()) return stream.status();
  Ground ground;
  ground.arena = (*transport)->MakeArena();
  ground.transport = *std::move(transport);
  ground.device = *std::move(device);
  ground.stream = *std::move(stream);
  return ground;
}

}  // namespace lockstep::perf
