// Who comes last in a step, how late, and with which gradient.
//
//   step 412   first rank has submitted all ──── patience ────▶ name who has
//   not
//                 │◀── lag of rank 3 ──▶│ (its last: layers.7.weight)
//                 w0 w2 w1              w3
//
// A rank *arrives* in a step when it waits for transfers or is further. Told
// from coalesced progress, so a lag is known to a tenth of a second; a step
// that passed between two words of a rank counts as no lag.
//
// Costs O(log n) a word. Threads: none.

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
#include "plan/words/protocol.h"

namespace lockstep::core {

class StragglerTracker {
 public:
  // How long the first rank of a step may wait before who is late is named.
  static constexpr absl::Duration kPatience = absl::Seconds(2);
  // A rank that is late in every step is named this often.
  static constexpr absl::Duration kNamedAgain = absl::Minutes(1);
  // Of the mean: how much the newest step counts.
  static constexpr double kNewest = 0.1;

  // The newest word of a rank.
  void Update(int rank, const protocol::Progress& progress, absl::Time now);
  // All patience begins anew: nobody was heard for a while.
  void BeginAnew(absl::Time now);

  // The step that ranks wait in, and since when. Nothing before the first
  // arrival.
  struct Waiting {
    uint64_t step = 0;
    absl::Time since;
  };
  const std::optional<Waiting>& waiting() const { return waiting_; }
  bool HasArrived(int rank) const;

  // True once for each step, when patience has ended: name who is late.
  bool TakeDue(absl::Time now);
  absl::Time NextDue() const;
  // Takes note that the rank is named. False if it was a moment ago.
  bool Name(int rank, absl::Time now);

  // Behind the first rank, in the mean of the last steps.
  double Seconds(int rank) const;

  struct Lag {
    int rank = -1;
    std::string parameter;
    double seconds = 0;  // in all
  };
  // What was waited for the longest, at most `max`.
  std::vector<Lag> Longest(size_t max) const;

 private:
  struct Standing {
    std::optional<uint64_t> arrived;  // in which step
    double seconds = 0;
    std::string last;  // the gradient it lacked when it was last heard
    absl::Time named = absl::InfinitePast();
  };
  // Names that are kept; the least waited for makes place for a new one.
  static constexpr size_t kKept = 256;

  void Arrive(int rank, uint64_t step, absl::Time now);
  void Blame(int rank, const std::string& parameter, double seconds);

  std::optional<Waiting> waiting_;
  bool named_ = false;  // who is late in this step
  std::map<int, Standing> standings_;
  std::map<std::pair<int, std::string>, double> waited_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_STRAGGLER_TRACKER_H_
