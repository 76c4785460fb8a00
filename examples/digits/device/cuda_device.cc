#include "examples/digits/device/cuda_device.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "examples/digits/device/launch.h"
#include "lockstep/device_stream.h"

namespace lockstep::digits {
namespace {

absl::Status Check(int result, const char* call) {
  if (result == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      call, ": ", cudaGetErrorString(static_cast<cudaError_t>(result))));
}

class CudaDevice final : public Device {
 public:
  CudaDevice(Session& session, cudaStream_t cuda_stream,
             std::unique_ptr<DeviceStream> stream)
      : session_(session),
        cuda_stream_(cuda_stream),
        stream_(std::move(stream)) {}
  ~CudaDevice() override {
    stream_.reset();
    cudaStreamDestroy(cuda_stream_);
  }

  Stream& stream() override { return *stream_; }

  absl::StatusOr<ArenaBuffer> Allocate(size_t bytes) override {
    return session_.Allocate(bytes);
  }

  absl::Status Launch(const Body<double>& body, int64_t n) override {
    return LaunchBehind(body, n);
  }
  absl::Status Launch(const Body<float>& body, int64_t n) override {
    return LaunchBehind(body, n);
  }

  absl::Status Upload(const void* from, void* to, size_t bytes) override {
    return Copy(from, to, bytes, cudaMemcpyHostToDevice);
  }

  absl::Status Download(const void* from, void* to, size_t bytes) override {
    absl::Status done = Copy(from, to, bytes, cudaMemcpyDeviceToHost);
    if (!done.ok()) return done;
    return Check(cudaStreamSynchronize(cuda_stream_), "cudaStreamSynchronize");
  }

 private:
  template <typename T>
  absl::Status LaunchBehind(const Body<T>& body, int64_t n) {
    return Check(LaunchBody(body, n, cuda_stream_), "a kernel of the network");
  }

  // Host memory is not pinned, so the runtime has read it when the call
  // returns.
  absl::Status Copy(const void* from, void* to, size_t bytes,
                    cudaMemcpyKind kind) {
    if (bytes == 0) return absl::OkStatus();
    return Check(cudaMemcpyAsync(to, from, bytes, kind, cuda_stream_),
                 "cudaMemcpyAsync");
  }

  Session& session_;
  const cudaStream_t cuda_stream_;
  std::unique_ptr<DeviceStream> stream_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(Session& session) {
  if (!session.device()) {
    return absl::FailedPreconditionError("the job's gradients are not on GPUs");
  }
  absl::Status made = Check(cudaSetDevice(*session.device()), "cudaSetDevice");
  if (!made.ok()) return made;
  cudaStream_t cuda_stream = nullptr;
  made = Check(cudaStreamCreateWithFlags(&cuda_stream, cudaStreamNonBlocking),
               "cudaStreamCreateWithFlags");
  if (!made.ok()) return made;
  auto stream = DeviceStream::Wrap(session, cuda_stream);
  if (!stream.ok()) {
    cudaStreamDestroy(cuda_stream);
    return stream.status();
  }
  return std::make_unique<CudaDevice>(session, cuda_stream, *std::move(stream));
}

}  // namespace lockstep::digits
