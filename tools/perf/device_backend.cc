#include "tools/perf/device_backend.h"

#include <utility>

#include "client/transport/nccl/cuda_stream.h"
#include "client/transport/nccl/nccl.h"

namespace lockstep::perf {

absl::StatusOr<Backend> MakeDeviceBackend(
    const transport::nccl::Tables& tables) {
  auto transport = transport::nccl::MakeTransport(tables);
  if (!transport.ok()) return transport.status();
  auto device = (*transport)->MakeDeviceContext();
  if (!device.ok()) return device.status();
  auto stream = transport::nccl::CudaStream::Create(tables.cuda.get());
  if (!stream.ok()) return stream.status();
  Backend backend;
  backend.arena = (*transport)->MakeArena();
  backend.transport = *std::move(transport);
  backend.device = *std::move(device);
  backend.stream = *std::move(stream);
  return backend;
}

}  // namespace lockstep::perf
