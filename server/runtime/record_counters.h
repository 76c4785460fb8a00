// Counts what happens to jobs, by the records that say so: epochs that begin
// and end, jobs that begin and end, checkpoints.
//
// Records of an earlier run, which are replayed, are not counted: a counter
// begins at 0 with the process, as Prometheus wants it.
//
// Threads: one at a time.

#ifndef LOCKSTEP_SERVER_RUNTIME_RECORD_COUNTERS_H_
#define LOCKSTEP_SERVER_RUNTIME_RECORD_COUNTERS_H_

#include <map>
#include <string_view>

#include "base/telemetry.h"
#include "protocol/record.h"
#include "protocol/types.h"

namespace lockstep::runtime {

// "process_died", "lease_expired", ...
std::string_view LabelOf(protocol::CauseKind kind);

class RecordCounters {
 public:
  // All counters are there from the beginning, so that the first event of a
  // kind is an increase. `metrics` must outlive it.
  explicit RecordCounters(MetricSink* metrics);

  void Add(const record::Record& record);

 private:
  Counter* const jobs_created_;
  Counter* const jobs_adopted_;
  Counter* const epochs_begun_;
  Counter* const saves_committed_;
  std::map<record::JobOutcome, Counter*> jobs_ended_;
  std::map<protocol::CauseKind, Counter*> epochs_ended_;
};

}  // namespace lockstep::runtime

#endif  // LOCKSTEP_SERVER_RUNTIME_RECORD_COUNTERS_H_
