#include "client/gradient/steps_in_flight.h"

#include <utility>

namespace lockstep::gradient {

void StepsInFlight::Close(const Step& step, Layout* layout) {
  Number(step, layout);
  waiting_.push_back(step);
  last_graph_ = {};
}

void StepsInFlight::Launch(const Step& step, Layout* layout) {
  Number(step, layout);
  last_launched_ = step;
  undecided_ += 1;
}

void StepsInFlight::Number(const Step& step, Layout* layout) {
  step->launch = launches_++;
  step->layout = layout;
  in_flight_ += 1;
  if (on_device_) recent_[step->launch % recent_.size()] = step;
}

StepsInFlight::Step StepsInFlight::TakeWaiting() {
  if (waiting_.empty()) return nullptr;
  last_launched_ = std::move(waiting_.front());
  waiting_.pop_front();
  if (on_device_) undecided_ += 1;
  return last_launched_;
}

StepsInFlight::Step StepsInFlight::Find(uint64_t launch) const {
  for (const Step& step : {last_launched_, recent_[launch % recent_.size()]}) {
    if (step != nullptr && step->launch == launch) return step;
  }
  return nullptr;
}

StepsInFlight::Step StepsInFlight::AwaitedByNext() const {
  const auto launch = effects_.AwaitedBy(launches_);
  return launch.has_value() ? recent_[*launch % recent_.size()] : nullptr;
}

}  // namespace lockstep::gradient
