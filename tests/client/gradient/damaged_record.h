// A rank that receives a damaged record in one launch of each epoch, once rank
// 0 has passed it: so the other ranks are a step ahead, and it is rolled
// forward.

#ifndef LOCKSTEP_TESTS_CLIENT_GRADIENT_DAMAGED_RECORD_H_
#define LOCKSTEP_TESTS_CLIENT_GRADIENT_DAMAGED_RECORD_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "kernels/step_gate.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/forwarding_tables.h"

namespace lockstep::gradient {

// Where rank 0's gate counts; null: it has none yet.
using FirstControl = std::atomic<const kernels::StepControl*>;

// The kernels of one device. All devices share `first`.
class DamagedRecord final : public fake::ForwardingKernels {
 public:
  static constexpr int kRank = 1;

  DamagedRecord(std::shared_ptr<KernelApi> inner, fake::FakeGpus* gpus,
                FirstControl* first, uint64_t launch)
      : ForwardingKernels(std::move(inner)),
        gpus_(*gpus),
        first_(*first),
        launch_(launch) {}

  Result GateStep(const kernels::GateContext& context,
                  const kernels::StepRecord* own,
                  const kernels::StepRecord* records, VerdictScalars* scalars,
                  StreamHandle stream) override {
    const auto* const control = gpus_.Reach(context.control);
    const bool is_step = context.world > 1;  // not a kernel's first launch
    if (is_step && context.rank == 0) first_ = control;
    if (is_step && context.rank == kRank) {
      auto* const all = gpus_.Reach(const_cast<kernels::StepRecord*>(records));
      gpus_.StallUntil(stream, [&first = first_, control, launch = launch_] {
        if (control->sequence != launch) return true;
        const kernels::StepControl* const other = first;
        return other != nullptr && other->sequence > launch;
      });
      gpus_.LaunchKernel(stream, [control, all, launch = launch_] {
        if (control->sequence == launch) all[0].checksum ^= 1;
      });
    }
    return ForwardingKernels::GateStep(context, own, records, scalars, stream);
  }

 private:
  fake::FakeGpus& gpus_;
  FirstControl& first_;
  const uint64_t launch_;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_TESTS_CLIENT_GRADIENT_DAMAGED_RECORD_H_
