// The slowest ranks of each step: how late they are, and with which gradient.
//
//   step 412   first rank has submitted all ── kReportAfter ──▶ name late ranks
//                 │◀── lag of rank 3 ──▶│ (its last: layers.7.weight)
//                 w0 w2 w1              w3
//
// A rank *arrives* in a step when it waits for transfers or is further. Lags
// are derived from coalesced progress reports, so they are accurate to a tenth
// of a second; a step that passed between two reports of a rank counts as no
// lag.
//
// Costs O(log n) per report. Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_STRAGGLER_TRACKER_H_
#define LOCKSTEP_SERVER_CORE_STRAGGLER_TRACKER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "protocol/progress.h"

namespace lockstep::core {

class StragglerTracker {
 public:
  // How long the first rank of a step waits before late ranks are named.
  static constexpr absl::Duration kReportAfter = absl::Seconds(2);
  // A rank that is late in every step is named this often.
  static constexpr absl::Duration kNamedAgain = absl::Minutes(1);
  // The weight of the newest step in the moving average.
  static constexpr double kNewest = 0.1;

  // The newest report of a rank.
  void Update(int rank, const protocol::Progress& progress, absl::Time now);
  // Restarts the current wait: the coordinator was not running for a while.
  void BeginAnew(absl::Time now);

  // The step in which ranks wait, and since when. nullopt before the first
  // arrival.
  struct Waiting {
    uint64_t step = 0;
    absl::Time since;
  };
  const std::optional<Waiting>& waiting() const { return waiting_; }
  bool HasArrived(int rank) const;

  // True once for each step, when kReportAfter has passed: name the late ranks.
  bool TakeDue(absl::Time now);
  absl::Time NextDue() const;
  // Records that the rank is named. False if it was named recently.
  bool Name(int rank, absl::Time now);

  // The moving average of the rank's lag behind the first rank.
  double Seconds(int rank) const;

  struct Lag {
    int rank = -1;
    std::string parameter;
    double seconds = 0;  // total
  };
  // The parameters that ranks waited for longest, at most `max`.
  std::vector<Lag> Longest(size_t max) const;

 private:
  struct RankLag {
    std::optional<uint64_t> arrived;  // the step
    double seconds = 0;
    std::string last;  // the gradient that its last report lacked
    absl::Time named = absl::InfinitePast();
  };
  // Names kept; the one with the least waiting is dropped for a new one.
  static constexpr size_t kKept = 256;

  void Arrive(int rank, uint64_t step, absl::Time now);
  void Attribute(int rank, const std::string& parameter, double seconds);

  std::optional<Waiting> waiting_;
  bool named_ = false;  // late ranks of this step
  std::map<int, RankLag> standings_;
  std::map<std::pair<int, std::string>, double> waited_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_STRAGGLER_TRACKER_H_
