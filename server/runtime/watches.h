// The watchers of each job, and when each job's next view is due.
//
// A view is made after something touched the job, at most five times a second,
// and shown if it differs from the last by more than elapsed times. It leaves
// out what grows with the model (parameters, buckets).
//
// Threads: the coordinator's loop owns the only instance, and calls watchers.

#ifndef LOCKSTEP_SERVER_RUNTIME_WATCHES_H_
#define LOCKSTEP_SERVER_RUNTIME_WATCHES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "protocol/ids.h"
#include "protocol/job_view.h"

namespace lockstep::runtime {

class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void Show(const JobView& view) = 0;
  // The last call, once.
  virtual void End(const absl::Status& status) = 0;
};

class Watches {
 public:
  using Describe =
      std::function<absl::StatusOr<JobView>(const JobName&, absl::Time)>;
  explicit Watches(Describe describe) : describe_(std::move(describe)) {}

  static constexpr absl::Duration kInterval = absl::Milliseconds(200);

  // Shows the job at once; ends at once if there is none, or it is over.
  void Add(uint64_t id, const JobName& job, std::shared_ptr<Watcher> watcher,
           absl::Time now);
  // Without calling End. Does nothing if the watch has ended.
  void Remove(uint64_t id);

  void Touch(const JobName& job);
  void TouchAll();

  // Shows the views that are due.
  void Update(absl::Time now);
  // The first time at which Update could do something.
  absl::Time NextUpdate() const;

  void EndAll(const absl::Status& status);

  bool empty() const { return jobs_.empty(); }

 private:
  struct Watched {
    std::map<uint64_t, std::shared_ptr<Watcher>> watchers;
    JobView shown;  // with elapsed times set to zero
    absl::Time next = absl::InfinitePast();
    bool touched = false;
  };

  // False once the job is over or deleted, after ending its watchers.
  bool Refresh(const JobName& job, Watched* watched, absl::Time now);

  const Describe describe_;
  std::map<JobName, Watched> jobs_;
};

}  // namespace lockstep::runtime

#endif  // LOCKSTEP_SERVER_RUNTIME_WATCHES_H_
