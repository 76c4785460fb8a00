#include "tools/ctl/stall_watch.h"

#include <utility>

#include "absl/time/clock.h"
#include "base/thread.h"
#include "tools/ctl/stall_log.h"

namespace lockstep::ctl {
namespace {

constexpr absl::Duration kAskAgain = absl::Milliseconds(500);

}  // namespace

StallWatch::StallWatch(const JobName& job,
                       const AdminClientOptions& coordinator,
                       std::function<void(const std::string&)> on_stall)
    : job_(job),
      on_stall_(std::move(on_stall)),
      admin_(coordinator),
      thread_(StartThread("ls-stalls", [this] { Run(); })) {}

StallWatch::~StallWatch() {
  {
    MutexLock lock(&mutex_);
    ended_ = true;
    ends_.NotifyAll();
  }
  admin_.CancelWatch();
  thread_.join();
}

void StallWatch::Run() {
  StallLog log;
  absl::Status watched;
  do {
    watched = admin_.WatchJob(job_, [&](const JobView& view) {
      for (const std::string& stall : log.Take(view, absl::Now())) {
        on_stall_(stall);
      }
      return true;
    });
  } while (!watched.ok() && !absl::IsPermissionDenied(watched) &&
           !absl::IsUnauthenticated(watched) && Pause());
}

// Returns false when the watch is to end.
bool StallWatch::Pause() {
  MutexLock lock(&mutex_);
  if (!ended_) ends_.WaitFor(&mutex_, kAskAgain);
  return !ended_;
}

}  // namespace lockstep::ctl
