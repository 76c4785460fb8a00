// --ha: etcd, three coordinators with their journal in it, and the death of two
// leaders.
//
//   etcd            keeps the journal, and says which coordinator leads
//   coordinator-1   leads ─ step S ─ SIGKILL
//   coordinator-2   waits ·········· leads ─ all resumed ─ SIGKILL
//   coordinator-3   waits ································ leads
//   lines of their logs ─▶ terms, and how long each failover took
//
// etcd and the coordinators listen on an address of 127.0.0.0/8 that other runs
// do not use, since workers know three addresses before anything listens there.
// Every user of this machine can connect to it: etcd admits only who has a
// certificate made for this run, and the coordinators have random tokens.
//
// Threads: the supervisor's.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_DEMO_COORDINATORS_H_
#define LOCKSTEP_EXAMPLES_DIGITS_DEMO_COORDINATORS_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "examples/digits/demo/flags.h"
#include "examples/digits/demo/job_files.h"
#include "tools/launch/supervisor.h"

namespace lockstep::digits {

class Coordinators {
 public:
  // All must outlive it; `supervisor` is not used before Start.
  Coordinators(const Flags& flags, const JobFiles& files,
               launch::Supervisor* const* supervisor);

  // Starts etcd, and the coordinators once it listens. NotFound: no etcd.
  absl::Status Start();

  // For workers: HOST:PORT of each, and a token that admits to this job.
  std::string addresses() const;
  std::string JoinTokenOf(const std::string& job) const;

  // So many steps are done.
  void Progress(int64_t steps);
  // A child has ended. True if that was to happen: it was killed here, or all
  // workers have ended.
  bool Ended(const std::string& name, const launch::ProcessExit& ending);
  // True if the line is one of a coordinator's.
  bool Take(const std::string& name, absl::string_view line);

  // Prints what happened. False if the training ended before two leaders had
  // been followed.
  bool Report(int64_t steps) const;

 private:
  struct Leader {
    std::string name;
    uint64_t term = 0;
    std::set<std::string> resumed;  // lines, one for each worker
    int64_t killed_after = -1;      // steps; -1: it was not killed
    absl::Time killed_at;
    // Since the leader before was killed.
    absl::Duration leads;
    absl::Duration first_resumed;
  };

  absl::Status WriteFiles();
  absl::Status StartEtcd();
  absl::Status StartCoordinator(int number);
  std::string AddressOf(int number) const;
  bool MayKill(const Leader& leader, int64_t steps) const;
  absl::Duration SinceTheKill() const;
  void NoteLeader(const std::string& name, uint64_t term);
  void NoteResumed(const std::string& name, absl::string_view line);

  const Flags& flags_;
  const JobFiles& files_;
  launch::Supervisor* const* const supervisor_;
  const std::string host_;
  const std::string worker_token_;
  int64_t steps_ = 0;
  std::vector<Leader> leaders_;  // in the order of their terms
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_DEMO_COORDINATORS_H_
