// Brings later revisions of the plan to an engine, beside its steps.
//
//   coordinator   OrderWanted(2)              PlanReady(2)
//   ls-revise     └▶ watch the order          └▶ fetch, check, lay out, hold
//   steps         ... Finish ─▶ ReadyOrder    ... verdict: all hold ─▶ switch
//
// A rank that cannot move its gradients (LayoutVersions) neither answers nor
// holds: the job goes on with the revision that it has. So does one that cannot
// get the plan, or the memory.
//
// Threads: one of its own, "ls-revise", which sleeps until there is news. No
//          step call waits for it. Look from any thread; the destructor waits
//          for it, at most for laying out the plan that is being held.
// Ownership: session and engine must outlive it.

#ifndef LOCKSTEP_CLIENT_GRADIENT_BUCKET_REBUILDER_H_
#define LOCKSTEP_CLIENT_GRADIENT_BUCKET_REBUILDER_H_

#include <atomic>
#include <thread>

#include "absl/time/time.h"
#include "client/gradient/engine.h"
#include "client/session/backoff.h"
#include "client/session/session_impl.h"

namespace lockstep::gradient {

class BucketRebuilder {
 public:
  BucketRebuilder(Session::Impl* session, Engine* engine);
  ~BucketRebuilder();

  // The engine may be able to do more than before.
  void Look() { session_.Nudge(); }

 private:
  using News = Session::Impl::RevisionNews;

  void Run();
  bool WantsOrder(const News& news) const;
  bool WantsPlan(const News& news) const;
  void WatchOrder(Revision revision);
  void TakePlan(Revision revision);
  // Does nothing about plans until a moment later.
  void Pause();

  Session::Impl& session_;
  Engine& engine_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> watching_{false};
  // The thread's own: a revision that this rank will never hold, and when to
  // try again to get one.
  Revision refused_;
  absl::Time retry_at_ = absl::InfinitePast();
  session::Backoff backoff_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_BUCKET_REBUILDER_H_
