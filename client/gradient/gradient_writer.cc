#include "client/gradient/gradient_writer.h"

#include <vector>

namespace lockstep::gradient {

absl::Status GradientWriter::Write(const SubmittedGradient& one,
                                   KernelQueue& kernel_queue) {
  if (one.gradient != nullptr) {
    if (absl::Status s = Copy(one, kernel_queue); !s.ok()) return s;
  } else if (store().LeavesOf(one.parameter) > 0) {
    store().AddLeaf(kernel_queue, one.parameter, nullptr, 1);
  }
  return Written(one, kernel_queue);
}

// A parameter that is submitted twice is packed, then added to.
absl::Status GradientWriter::WriteTogether(
    absl::Span<const SubmittedGradient> gradients, KernelQueue& kernel_queue) {
  const auto is_packed = [&](const SubmittedGradient& one) {
    return one.submission.first && store().LeavesOf(one.parameter) == 0;
  };
  std::vector<BucketStore::PackedGradient> packed;
  for (const SubmittedGradient& each : gradients) {
    if (is_packed(each)) packed.push_back({each.parameter, each.gradient});
  }
  const absl::Time begin = options_.clock->Now();
  store().PackTogether(kernel_queue, packed, gradients[0].weight);
  copying_ += absl::ToInt64Nanoseconds(options_.clock->Now() - begin);
  for (const SubmittedGradient& each : gradients) {
    if (is_packed(each)) continue;
    if (absl::Status s = Copy(each, kernel_queue); !s.ok()) return s;
  }
  for (const SubmittedGradient& each : gradients) {
    if (absl::Status s = Written(each, kernel_queue); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status GradientWriter::Complete(int parameter, bool any,
                                      KernelQueue& kernel_queue) {
  store().Complete(kernel_queue, parameter, any);
  Event done = kernel_queue.Done();
  absl::Status completed = kernel_queue.status();
  return completed.ok() ? MarkReady(parameter, any, std::move(done))
                        : completed;
}

absl::Status GradientWriter::Copy(const SubmittedGradient& one,
                                  KernelQueue& kernel_queue) {
  const absl::Time begin = options_.clock->Now();
  if (store().LeavesOf(one.parameter) > 0) {
    store().AddLeaf(kernel_queue, one.parameter, one.gradient, one.weight);
  } else {
    store().Pack(kernel_queue, one.parameter, one.gradient, one.weight,
                 /*add=*/!one.submission.first);
  }
  absl::Status copied = kernel_queue.status();
  if (copied.ok() && one.caller_waits) copied = kernel_queue.Done().Wait();
  copying_ += absl::ToInt64Nanoseconds(options_.clock->Now() - begin);
  return copied;
}

absl::Status GradientWriter::Written(const SubmittedGradient& one,
                                     KernelQueue& kernel_queue) {
  Event done = kernel_queue.Mark();
  if (!kernel_queue.status().ok()) return kernel_queue.status();
  if (one.submission.complete) {
    return MarkReady(one.parameter, true, std::move(done));
  }
  options_.executor->AddEvent(
      options_.versions->current().TransferOf(one.parameter), std::move(done));
  return absl::OkStatus();
}

absl::Status GradientWriter::MarkReady(int parameter, bool contributed,
                                       Event done) {
  store().SetFlag(parameter, contributed);
  const plan::TransferRef transfer =
      options_.versions->current().TransferOf(parameter);
  if (!options_.submitted) {
    return options_.executor->MarkReady(transfer, std::move(done));
  }
  options_.executor->AddEvent(transfer, std::move(done));
  options_.submitted(parameter);
  return absl::OkStatus();
}

}  // namespace lockstep::gradient
