// Runs the exchanges of a HaloJob on the ranks of this process.

#ifndef LOCKSTEP_TESTS_CLIENT_HALO_JOB_RUN_H_
#define LOCKSTEP_TESTS_CLIENT_HALO_JOB_RUN_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/axis_group.h"
#include "tests/client/halo/random_halos.h"
#include "tests/conformance/cases/groups.h"
#include "tests/conformance/cases/placed_tensor.h"
#include "tests/conformance/halo/halo_ranks.h"

namespace lockstep::halo_model {

// A pass of one exchange, on all ranks.
struct PassCall {
  size_t exchange = 0;
  bool backward = false;
  bool in_place = false;
  bool on_stream = false;  // of the caller; else started
};

class JobRun {
 public:
  // `groups` must outlive it.
  static absl::StatusOr<std::unique_ptr<JobRun>> Make(
      const HaloJob& job, conformance::Groups& groups, bool checked = false);

  conformance::HaloRanks& ranks() { return *ranks_; }

  // Enqueues all calls, in this order on each rank, before it waits for the
  // first. Returns their outputs: padded blocks, or gradients of blocks.
  absl::StatusOr<std::vector<ExchangeBytes>> Run(
      const std::vector<PassCall>& calls,
      const std::vector<ExchangeValues>& values,
      conformance::Placement placement);

  // Empty if the handles of all ranks say where their blocks are as the model
  // does, and trim what they padded.
  std::string CheckBlocks(const std::vector<ExchangeValues>& values);

 private:
  struct RankCall;

  JobRun(const HaloJob& job, conformance::Groups& groups)
      : job_(job), groups_(groups) {}
  absl::Status Enqueue(const PassCall& call, const ExchangeValues& values,
                       int rank, conformance::Placement placement,
                       RankCall* made);
  std::vector<int64_t> Interior(const ExchangeValues& values, size_t exchange,
                                size_t tensor, int rank) const;

  const HaloJob& job_;
  conformance::Groups& groups_;
  std::unique_ptr<conformance::HaloRanks> ranks_;
  std::vector<std::unique_ptr<Stream>> streams_;  // of each rank
};

}  // namespace lockstep::halo_model

#endif  // LOCKSTEP_TESTS_CLIENT_HALO_JOB_RUN_H_
