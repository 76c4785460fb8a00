// Prepares later revisions of the plan for an engine while its steps run.
//
//   coordinator   OrderWanted(2)              PlanReady(2)
//   ls-revise     └▶ watch the order          └▶ fetch, check, lay out, stage
//   steps         ... Finish ─▶ ReadyOrder    ... verdict: all staged ─▶ switch
//
// A rank that cannot move its gradients (LayoutVersions) sends no order and
// stages no plan: the job keeps its current revision. The same holds for a rank
// that cannot fetch the plan or allocate its memory.
//
// Threads: one thread, "ls-revise", sleeps until there are news. No step call
//          waits for it. Look may be called from any thread; the destructor
//          joins the thread, and waits at most until the plan is laid out.
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

  // Call when Engine::CanMove may have become true.
  void Look() { session_.Notify(); }

 private:
  using News = Session::Impl::RevisionNews;

  void Run();
  bool WantsOrder(const News& news) const;
  bool WantsPlan(const News& news) const;
  void WatchOrder(Revision revision);
  void TakePlan(Revision revision);
  // Ignores announced plans for one backoff interval.
  void Pause();

  Session::Impl& session_;
  Engine& engine_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> watching_{false};
  // Used by the thread only: a revision that this rank will never stage, and
  // when to retry a fetch.
  Revision refused_;
  absl::Time retry_at_ = absl::InfinitePast();
  session::Backoff backoff_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_BUCKET_REBUILDER_H_
