// The steps of an epoch that Finish was called for and that have not ended.
//
//   Close ──▶ waiting ──TakeWaiting──▶ launched ──Decided──▶ ──End──▶
//   Launch, of a graph ──────────────▶
//
// A step is known by the number of its launch, from 0. What verdicts bring
// about, and when, is counted in launches, too (late_effects.h).
//
// Not thread-safe.

#ifndef LOCKSTEP_CLIENT_GRADIENT_STEPS_IN_FLIGHT_H_
#define LOCKSTEP_CLIENT_GRADIENT_STEPS_IN_FLIGHT_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "client/gradient/captured.h"
#include "client/gradient/late_effects.h"
#include "client/gradient/layout.h"
#include "client/gradient/pending.h"
#include "client/gradient/step_gate.h"
#include "lockstep/job_options.h"
#include "lockstep/stream.h"

namespace lockstep::gradient {

class StepsInFlight {
 public:
  using Step = std::shared_ptr<PendingVerdict::State>;
  // The graph of a launch, null if the step was eager, and when it has run; an
  // error: it was not enqueued.
  struct GraphLaunch {
    std::shared_ptr<Captured> graph;
    absl::StatusOr<Event> ran = Event();
  };

  // `on_device`: whether the device decides. Only then decisions are counted,
  // and the newest steps are kept.
  StepsInFlight(bool on_device, int run_ahead, Uneven uneven)
      : on_device_(on_device), effects_(run_ahead, uneven) {}

  // Finish was called for the step, whose gradients are in `layout`.
  void Close(const Step& step, Layout* layout);
  // The next step is a launch of a graph.
  void Launch(const Step& step, Layout* layout);
  void Launched(GraphLaunch launch) { last_graph_ = std::move(launch); }

  // The oldest step that waits to be launched; null if there is none.
  Step TakeWaiting();
  // Takes those that wait: they will not be launched.
  std::deque<Step> GiveUpWaiting() { return std::exchange(waiting_, {}); }
  // The device has decided a launched step.
  void Decided() { undecided_ -= 1; }
  // A step has passed, or was void.
  void End() { in_flight_ -= 1; }

  int count() const { return in_flight_; }
  // Launched and not decided.
  int undecided() const { return undecided_; }
  // How many steps have begun.
  uint64_t launches() const { return launches_; }
  // The step of this launch, if it was launched last or is one of the newest.
  Step Find(uint64_t launch) const;
  // The step whose verdict the host must have acted on before the next one
  // begins; null: none.
  Step AwaitedByNext() const;
  // Behind the last step: all that other ranks launch, this rank has launched,
  // and the device has decided it.
  bool are_over() const {
    return undecided_ == 0 && waiting_.empty() &&
           launches_ > effects_.last_launch().value_or(0);
  }
  // The newest launch.
  const GraphLaunch& last_graph() const { return last_graph_; }

  LateEffects& effects() { return effects_; }

 private:
  void Number(const Step& step, Layout* layout);

  const bool on_device_;
  LateEffects effects_;
  std::deque<Step> waiting_;
  int in_flight_ = 0;
  int undecided_ = 0;
  uint64_t launches_ = 0;
  Step last_launched_;
  GraphLaunch last_graph_;
  std::array<Step, StepGate::kDepth> recent_;  // by launch
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_STEPS_IN_FLIGHT_H_
