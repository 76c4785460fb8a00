#include "server/runtime/watches.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace lockstep::runtime {
namespace {

bool IsOver(JobState state) {
  return state == JobState::kCompleted || state == JobState::kFailed ||
         state == JobState::kStopped;
}

void LeaveOutTheModel(JobView* view) {
  view->parameters.clear();
  view->buckets.clear();
}

// The view without elapsed times: a difference in the rest is shown.
JobView AsOfNoTime(JobView view) {
  for (WorkerView& worker : view.workers) {
    worker.silent_for = absl::ZeroDuration();
    worker.no_progress_for = absl::ZeroDuration();
  }
  for (EventView& event : view.events) event.ago = absl::ZeroDuration();
  return view;
}

}  // namespace

void Watches::Add(uint64_t id, const JobName& job,
                  std::shared_ptr<Watcher> watcher, absl::Time now) {
  absl::StatusOr<JobView> view = describe_(job, now);
  if (!view.ok()) return watcher->End(view.status());
  LeaveOutTheModel(&*view);
  watcher->Show(*view);
  if (IsOver(view->state)) return watcher->End(absl::OkStatus());

  Watched& watched = jobs_[job];
  watched.next = now + kInterval;
  // Other watchers may not have seen this view: keep their difference.
  if (watched.watchers.empty()) watched.shown = AsOfNoTime(*std::move(view));
  watched.watchers.emplace(id, std::move(watcher));
}

void Watches::Remove(uint64_t id) {
  for (auto job = jobs_.begin(); job != jobs_.end(); ++job) {
    if (job->second.watchers.erase(id) == 0) continue;
    if (job->second.watchers.empty()) jobs_.erase(job);
    return;
  }
}

void Watches::Touch(const JobName& job) {
  const auto found = jobs_.find(job);
  if (found != jobs_.end()) found->second.touched = true;
}

void Watches::TouchAll() {
  for (auto& [job, watched] : jobs_) watched.touched = true;
}

void Watches::Update(absl::Time now) {
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    const bool due = job->second.touched && job->second.next <= now;
    const bool goes_on = !due || Refresh(job->first, &job->second, now);
    job = goes_on ? std::next(job) : jobs_.erase(job);
  }
}

bool Watches::Refresh(const JobName& job, Watched* watched, absl::Time now) {
  watched->touched = false;
  watched->next = now + kInterval;
  absl::StatusOr<JobView> view = describe_(job, now);
  if (!view.ok()) {
    for (auto& [id, watcher] : watched->watchers) watcher->End(view.status());
    return false;
  }
  LeaveOutTheModel(&*view);
  JobView timeless = AsOfNoTime(*view);
  if (timeless == watched->shown) return true;
  watched->shown = std::move(timeless);
  for (auto& [id, watcher] : watched->watchers) watcher->Show(*view);
  if (!IsOver(view->state)) return true;
  for (auto& [id, watcher] : watched->watchers) watcher->End(absl::OkStatus());
  return false;
}

absl::Time Watches::NextUpdate() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [job, watched] : jobs_) {
    if (watched.touched) next = std::min(next, watched.next);
  }
  return next;
}

void Watches::EndAll(const absl::Status& status) {
  for (auto& [job, watched] : jobs_) {
    for (auto& [id, watcher] : watched.watchers) watcher->End(status);
  }
  jobs_.clear();
}

}  // namespace lockstep::runtime
