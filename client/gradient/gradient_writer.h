// Writes submitted gradients to their buckets, and tells the executor which
// buckets are ready.
//
//   Write ─▶ pack, add, or a leaf ─▶ flag ─▶ Executor: MarkReady(bucket)
//
// In negotiated mode the coordinator decides when a bucket is reduced: it is
// told of the gradient instead.
//
// Threads: the training thread, or the stream that runs the work; calls of one
//          step do not overlap. TakeCopyTime: any.

#ifndef LOCKSTEP_CLIENT_GRADIENT_GRADIENT_WRITER_H_
#define LOCKSTEP_CLIENT_GRADIENT_GRADIENT_WRITER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "client/executor/executor.h"
#include "client/gradient/gradient_tracker.h"
#include "client/gradient/layout_versions.h"
#include "client/transport/device_context.h"
#include "lockstep/stream.h"

namespace lockstep::gradient {

class GradientWriter {
 public:
  using KernelQueue = transport::DeviceContext::KernelQueue;

  struct Options {
    LayoutVersions* versions = nullptr;
    executor::Executor* executor = nullptr;
    const Clock* clock = nullptr;
    // Negotiated mode: this rank has the gradient. Null in static mode.
    std::function<void(int parameter)> submitted = {};
  };

  explicit GradientWriter(Options options) : options_(std::move(options)) {}

  // A gradient to write to its bucket.
  struct SubmittedGradient {
    int parameter = -1;
    const void* gradient = nullptr;  // null: it is in its view
    double weight = 1;
    GradientTracker::Submission submission;
    bool caller_waits = false;  // until the copy is done
  };
  absl::Status Write(const SubmittedGradient& one, KernelQueue& kernel_queue);
  // The same for several of one bucket, from buffers, with one weight.
  absl::Status WriteTogether(absl::Span<const SubmittedGradient> gradients,
                             KernelQueue& kernel_queue);

  // At the end of a step: a gradient of which nothing, or (`any`) not
  // everything, was submitted. The rest is zeros.
  absl::Status Complete(int parameter, bool any, KernelQueue& kernel_queue);

  // How long copies have blocked the training thread since the last call.
  absl::Duration TakeCopyTime() {
    return absl::Nanoseconds(copying_.exchange(0));
  }

 private:
  // Copies from the caller's buffer to the bucket.
  absl::Status Copy(const SubmittedGradient& one, KernelQueue& kernel_queue);
  // Tells the executor of a gradient whose work is enqueued.
  absl::Status Written(const SubmittedGradient& one, KernelQueue& kernel_queue);
  // The gradient is complete: sets its flag, then marks its bucket ready.
  absl::Status MarkReady(int parameter, bool contributed, Event done);
  BucketStore& store() { return options_.versions->current().store(); }

  const Options options_;
  std::atomic<int64_t> copying_{0};  // nanoseconds
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_GRADIENT_WRITER_H_
