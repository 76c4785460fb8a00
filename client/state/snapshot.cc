#include "client/state/snapshot.h"

#include <utility>

#include "base/mutex.h"

namespace lockstep::state {

struct Snapshot::Copies {
  Mutex mutex;
  Event done ABSL_GUARDED_BY(mutex);
  // Until the work has run.
  absl::Status status ABSL_GUARDED_BY(mutex) =
      absl::AbortedError("the stream did not copy the state");
};

Snapshot::Snapshot(const CheckpointJob* job, transport::DeviceContext* device)
    : job_(job), device_(device) {
  size_t at = 0;
  for (const StatePart& part : job->written) {
    at_.push_back(at);
    const size_t bytes = BytesOf(*job, part);
    bytes_ += bytes;
    at +=
        (bytes + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
  }
  at_.push_back(at);
}

absl::Status Snapshot::Take(Stream* stream) {
  if (job_->written.empty()) return absl::OkStatus();
  if (stream != nullptr) {
    absl::Status fits = device_->CheckStream(*stream);
    if (!fits.ok()) return fits;
  }
  if (buffer_.data() == nullptr) {
    auto allocated = device_->AllocateStaging(at_.back());
    if (!allocated.ok()) return allocated.status();
    buffer_ = *std::move(allocated);
  }
  copies_ = std::make_shared<Copies>();
  absl::Status performed = device_->Perform(
      stream,
      [this, copies = copies_](transport::DeviceContext::KernelQueue& queue) {
        return CopyAll(queue, copies.get());
      });
  if (!performed.ok()) return performed;
  enqueued_ = stream == nullptr ? Event() : stream->Record();
  return stream == nullptr ? Wait() : absl::OkStatus();
}

absl::Status Snapshot::CopyAll(transport::DeviceContext::KernelQueue& queue,
                               Copies* copies) {
  for (size_t i = 0; i < job_->written.size(); ++i) {
    const StatePart& part = job_->written[i];
    queue.Copy(part.data, buffer_.data() + at_[i], BytesOf(*job_, part));
  }
  MutexLock lock(&copies->mutex);
  copies->done = queue.Done();
  copies->status = queue.status();
  return copies->status;
}

absl::Status Snapshot::Wait() {
  if (copies_ == nullptr) return absl::OkStatus();
  absl::Status status = enqueued_.Wait();
  if (!status.ok()) return status;
  Event done;
  {
    MutexLock lock(&copies_->mutex);
    done = copies_->done;
    status = copies_->status;
  }
  status.Update(done.Wait());
  return status;
}

}  // namespace lockstep::state
