// A client of the Admin service, in terms of the plain structs of protocol/.
//
// Threads: one at a time, except CancelWatch. Calls block.
// Errors:  Unavailable, with the addresses, if no coordinator answers in time.
//          CreateJob, CommandJob, StopJob and DeleteJob may then have been
//          carried out, if one failed that had been asked: they are not asked
//          again, and the message says so. Else the
//          status of the service. A TLS folder that cannot be used at first
//          fails each call; later the former certificates stay in use.

#ifndef LOCKSTEP_TOOLS_RPC_ADMIN_CLIENT_H_
#define LOCKSTEP_TOOLS_RPC_ADMIN_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "protocol/evidence.h"
#include "protocol/job_command.h"
#include "protocol/job_view.h"
#include "protocol/limit_use.h"

namespace lockstep::ctl {

struct AdminClientOptions {
  std::string addresses;  // HOST:PORT, comma separated, tried in turn
  std::string token;
  std::string tls_folder;                      // empty: plaintext
  absl::Duration deadline = absl::Seconds(5);  // of a call to one of them
  // How long to go on when none of several coordinators answers: another one
  // leads a few seconds after the leader has failed. A call to one that is
  // silent may take longer, and all are asked once more after it.
  absl::Duration search = absl::ZeroDuration();
  // Receives a line when the certificates in `tls_folder` were replaced by ones
  // that cannot be used. May be empty.
  std::function<void(const std::string&)> on_warning;
};

// What a coordinator says of itself (proto/introduction.h), and whom it takes
// the caller for.
struct Introduction {
  // The outcome of an operator's call: OK; PermissionDenied for a worker;
  // Unauthenticated for a token that no operator has, which may be a worker's.
  absl::Status as_operator;
  absl::Status as_worker;  // the outcome of AskAsWorker
  std::string version;     // empty: not said
  std::optional<int64_t> protocol;
  std::optional<absl::Time> time;  // of its clock
  absl::Duration round_trip;       // of the call
};

class AdminClient {
 public:
  explicit AdminClient(const AdminClientOptions& options);
  ~AdminClient();

  absl::Status CreateJob(const JobSpec& spec);
  absl::StatusOr<std::vector<JobSummary>> ListJobs();
  absl::StatusOr<std::vector<LimitUse>> ListLimits();
  // Changes nothing. `job`: the one whose worker the caller may be; it need not
  // exist. Unavailable if nobody answers; Unimplemented if what answers is no
  // coordinator.
  absl::StatusOr<Introduction> Meet(const JobName& job);
  // A worker's call that changes nothing: OK for who may join the job, which
  // need not exist.
  absl::Status AskAsWorker(const JobName& job);
  absl::StatusOr<JobView> DescribeJob(const JobName& job);
  // Calls `on_view` for each view until it returns false, or the job is over.
  // A coordinator that answers no more is left for the next one, or for itself
  // if it starts again: Unavailable after a minute without.
  absl::Status WatchJob(const JobName& job,
                        const std::function<bool(const JobView&)>& on_view);
  // WatchJob returns Cancelled, now and from now on. From any thread.
  void CancelWatch();
  absl::Status CommandJob(const JobName& job, JobCommand command,
                          const std::string& reason);
  absl::Status StopJob(const JobName& job, const std::string& reason);
  // Deletes a job that is over; `keep`: only frees its name.
  absl::Status DeleteJob(const JobName& job, bool keep);
  // Has all ranks save, or asks only how saving stands: the epoch, the state
  // and the checkpoints of the job, before the request. A worker's token
  // suffices.
  absl::StatusOr<JobView> SaveJob(const JobName& job,
                                  const std::string& reason);
  absl::StatusOr<JobView> AskOfSaves(const JobName& job);

  absl::Status ReportEvidence(const JobName& job,
                              const protocol::Evidence& evidence);

 private:
  absl::StatusOr<JobView> CallSaveJob(const JobName& job, bool ask_only,
                                      const std::string& reason);

  struct Stubs;
  const AdminClientOptions options_;
  std::unique_ptr<Stubs> stubs_;
};

}  // namespace lockstep::ctl

#endif  // LOCKSTEP_TOOLS_RPC_ADMIN_CLIENT_H_
