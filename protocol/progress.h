// What a worker reports while it trains.

#ifndef LOCKSTEP_PROTOCOL_PROGRESS_H_
#define LOCKSTEP_PROTOCOL_PROGRESS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/job_options.h"
#include "protocol/ids.h"
#include "protocol/types.h"

namespace lockstep::protocol {

// Parameters of a rank, for people: their number, and the newest names.
struct ParameterNames {
  uint32_t count = 0;
  std::vector<std::string> names;  // at most 8, the newest first
  bool operator==(const ParameterNames&) const = default;
};

// The operations that a rank has called on a declared group. All members call
// the same, so the numbers show who is behind.
struct GroupProgress {
  int communicator = 0;  // index in the plan
  uint64_t calls = 0;
  uint64_t completed = 0;  // the first of them
  std::string call;        // the next one's name, for people
  bool waits() const { return completed < calls; }
  bool operator==(const GroupProgress&) const = default;
};

// The worker's position; each message replaces all earlier ones.
struct Progress {
  Position position;
  // While computing: the number of submitted parameters, and the first few that
  // are missing.
  uint32_t submitted = 0;
  std::vector<std::string> missing;  // at most 8 names
  // Means over the steps since the last Progress: the step's time, and how long
  // the training thread waited for communication
  // (GradientSync::exposed_seconds).
  double step_seconds = 0;
  double exposed_seconds = 0;
  // The executor of the current step's transfers; kAuto: no step.
  Overlap overlap = Overlap::kAuto;
  Revision revision;    // of the plan in use
  bool paused = false;  // between steps, by command
  // How transfers access the gradients' memory, for people: "symmetric", or "12
  // symmetric, 1 plain" buffers; empty if there is only one way.
  std::string memory;
  // Parameters of the rank that it did not submit in several consecutive steps:
  // no rank did, or only other ranks did. They only grow in an epoch; empty
  // with on_unsubmitted: ignore.
  ParameterNames unsubmitted_by_all;
  ParameterNames unsubmitted_here;
  // In a pipeline: the next task, for people, and the rank whose message it
  // waits for; -1: none.
  std::string task;
  int awaits = -1;
  // The rank's GradientSync was destroyed: it takes part in no further step.
  bool withdrawn = false;
  // The declared groups that it has called operations on (Session::Group).
  std::vector<GroupProgress> groups;
  bool operator==(const Progress&) const = default;
};

// Digests of this rank's initial values: digests[i] is of the plan's parameter
// parameters[i]. Sent once, with the first step, and again on a new stream.
struct ValueDigests {
  std::vector<uint32_t> parameters;
  std::vector<uint64_t> digests;
  bool operator==(const ValueDigests&) const = default;
};

struct Heartbeat {
  bool operator==(const Heartbeat&) const = default;
};

// The worker will make no progress for a while; `reason` says why.
struct Busy {
  std::string reason;  // empty: not busy any more
  absl::Duration max;
  bool operator==(const Busy&) const = default;
};

// A message for people about a job that continues. Sent to one rank, which
// prints it.
struct Warning {
  std::string text;
  bool operator==(const Warning&) const = default;
};

}  // namespace lockstep::protocol

#endif  // LOCKSTEP_PROTOCOL_PROGRESS_H_
