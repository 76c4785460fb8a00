#include "client/gradient/overlap_choice.h"

#include <algorithm>

namespace lockstep::gradient {
namespace {

double Median(std::vector<double> values) {
  const auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// A B B A A B B A ...
bool IsOthersTurn(size_t turn) { return turn % 4 == 1 || turn % 4 == 2; }

}  // namespace

OverlapChoice::OverlapChoice(Overlap wanted)
    : measures_(wanted == Overlap::kAuto),
      best_(measures_ ? Overlap::kInline : wanted),
      form_(best_) {}

void OverlapChoice::Passed(double seconds) {
  if (!measures_) return;
  if (until_trial_ > 0) {
    --until_trial_;
    return;
  }
  (form_ == best_ ? in_best_ : in_other_).push_back(seconds);
  const size_t turn = in_best_.size() + in_other_.size();
  if (turn == kTurns) return Judge();
  form_ = IsOthersTurn(turn) ? Other() : best_;
}

void OverlapChoice::Judge() {
  const bool gives_way = Median(in_other_) < (1 - kMargin) * Median(in_best_);
  if (gives_way) best_ = Other();
  rest_ = gives_way ? kRestMin : std::min(2 * rest_, kRestMax);
  form_ = best_;
  until_trial_ = rest_;
  in_best_.clear();
  in_other_.clear();
}

Overlap OverlapChoice::Other() const {
  return best_ == Overlap::kInline ? Overlap::kThread : Overlap::kInline;
}

}  // namespace lockstep::gradient
