// What runs on the comm queue: the buckets' reductions, the norms of what came
// out, and the verdict's exchange.
//
//   ls-comm   [all-reduce 0][norm 0][all-reduce 1][norm 1] ... [verdict]
//                                                              └ encode, judge
//
// Where ranks update slices, a step begins with the gathers of what the last
// one changed.
//
// The norm of a bucket is taken by its reduction, where ranks fold in memory
// (extended_collectives.h), else right behind it, while the next one is still
// being filled. Norms, flags and the verdict's vectors are fetched
// before they are read: only the verdict waits for that, twice.
//
// Completed is not succeeded: where a queue runs on after an abort, what was
// fetched may be anything. So the communicators are asked after each wait.
//
// Threads: Launch calls come one at a time, in the lane's order; callbacks run
//          on the queue's thread, or on that of RunIfClosed; Abort from any
//          thread.
// Ownership: owns the communicators, which outlive every layout: a layout is
//          needed until the verdict behind its buckets has been judged.

#ifndef LOCKSTEP_CLIENT_GRADIENT_REDUCTION_H_
#define LOCKSTEP_CLIENT_GRADIENT_REDUCTION_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/gradient/ballot.h"
#include "client/gradient/captured.h"
#include "client/gradient/layout.h"
#include "client/gradient/leaf_norms.h"
#include "client/gradient/pending.h"
#include "client/transport/call.h"
#include "client/transport/compute.h"
#include "lockstep/communicator.h"

namespace lockstep::gradient {

// How a rank takes part in one reduction of negotiated mode.
struct Share {
  int announcers = 0;  // ranks that give a gradient
  bool gives = false;  // this one does; else it gives zeros, and keeps zeros
};

class Reduction {
 public:
  struct Options {
    // By index in the plan; null where this rank is not a member.
    std::vector<std::unique_ptr<Communicator>> communicators;
    transport::Compute* compute = nullptr;
    int leaves = 0;  // of the job's sums
    // Gets the error of a reduction, and in which communicator it was, or -1;
    // on the queue's thread.
    std::function<void(int, const absl::Status&)> on_failure;
  };

  // Errors of the compute and of `allocate`, which gives its memory.
  static absl::StatusOr<std::unique_ptr<Reduction>> Create(
      Options options,
      absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate);
  // Waits for the queue: abort first if peers may not come.
  ~Reduction() = default;

  // Null where this rank is not a member.
  Communicator* communicator(int c) const { return communicators_[c].get(); }

  // `after`: when the gradients are in the bucket.
  void LaunchBucket(Layout& layout, int item, std::vector<Event> after);

  // The same in negotiated mode, for a bucket of one parameter. A mean is over
  // those who announced: the sum times 1 / announcers, of f16 and bf16 summed
  // in f32 and rounded once. A wire of halves, where the sum may overflow, has
  // the mean over the group, and its f32 are multiplied by size / announcers.
  void LaunchShared(Layout& layout, int item, const Share& share,
                    std::vector<Event> after);

  // Zeroes the views of parameters that no reduction of the pass touched.
  void LaunchZeros(Layout& layout, std::vector<int> parameters);

  // Returns once all that was launched is enqueued on its communicators; in the
  // host, where those wait for their peers, once it is over.
  void Drain() { queue_->Drain(); }

  // Gathers the `parameters` of a sharded bucket, which are laid out like it,
  // once `after` has come; `arrived` gets the moment when they are there, on
  // the queue's thread. Not called if it fails.
  void LaunchGather(const Layout& layout, const Layout::Gather& gather,
                    std::byte* parameters, std::vector<Event> after,
                    absl::AnyInvocable<void(Event)> arrived);

  // Does `work` when the queue gets there.
  void Run(absl::AnyInvocable<void()> work);

  // `enter` says which step it is once all before it has run, and adds to the
  // ballot what only its owner knows; `judge` gets what all ranks said, or why
  // they could not.
  void LaunchVerdict(std::shared_ptr<PendingVerdict::State> verdict,
                     std::function<StepStamp(Ballot*)> enter,
                     std::function<void(absl::StatusOr<Verdict>)> judge);

  // --- A captured step: the verdict in parts (captured.h) ---

  // As LaunchVerdict, where nobody can wait: the host's parts are `enter` and
  // `judge`, and what `judge` writes at `staged` is copied to `scalars`. Then
  // tells `captured` when they are there.
  void CaptureVerdict(Captured& step,
                      absl::AnyInvocable<void(absl::StatusOr<Event>)> captured);
  // What `enter` reads and writes, and what `judge` reads.
  absl::StatusOr<Ballot> ReadBallot(const PendingVerdict::State& verdict);
  void StageBallot(const BallotVectors& ballot) { fetched().ballot = ballot; }
  absl::StatusOr<Verdict> ReadVerdict(PendingVerdict::State& verdict);

  // `ended` hears when `graph`, the end of a step's, has come, and the first
  // error of a communicator.
  void Await(Event graph, std::function<void(const absl::Status&)> ended);

  // Who runs what is launched from now on: RunIfClosed, or the queue's own
  // thread, as at first. Between a verdict and the first launch after it.
  void SetOnClose(bool on_close);
  // After each launch, without a lock that launches hold: runs the step if its
  // verdict has been launched, and nobody else does.
  void RunIfClosed();

  int world_size() const { return communicators_[0]->size(); }
  // Could the verdict not be exchanged?
  bool WorldFailed() const { return !communicators_[0]->status().ok(); }

  // Ends every communicator, the verdict's first.
  void Abort(const absl::Status& cause);

 private:
  using Site = transport::Compute::Site;

  // Where a step's numbers gather: the transport's memory, and staging.
  struct StepMemory {
    kernels::FiniteCheck norm;
    BallotVectors ballot;
  };

  explicit Reduction(Options options)
      : communicators_(std::move(options.communicators)),
        on_failure_(std::move(options.on_failure)) {}

  StepMemory& moved() { return memory_.as<StepMemory>()[0]; }
  StepMemory& fetched() { return staging_.as<StepMemory>()[0]; }

  using Checks = std::vector<transport::CheckedPart>;

  // What brings a bucket's reduced gradients to this rank, with these checks:
  // what this rank counts of it in the norm (extended_collectives.h).
  absl::Status Enqueue(const Layout& layout, const Layout::Item& item,
                       Checks checks, Stream& stream);
  // Instead, of a bucket with leaves, where the communicator sums in pairs: a
  // mean is over leaves.
  static absl::Status EnqueueSumInPairs(Communicator& communicator,
                                        const plan::Bucket& bucket,
                                        std::byte* sums, Checks checks,
                                        Stream& stream);
  // Of a bucket with leaves: its gradients are summed, in slices of ranks.
  void LaunchExchange(Layout& layout, const Layout::Item& item,
                      std::vector<Event> after);
  // Does the reduction itself take the norm of what it brings?
  bool IsChecked(Layout& layout, const Layout::Item& item);
  // What Count looks at, and where it adds that.
  Checks ChecksOf(const Layout::Item& item);
  // False, and told, if its communicator has failed; else it is unloaded.
  bool HasCome(const Layout::Item& item);
  bool Brought(Site& site, Layout& layout, const Layout::Item& item);
  void Count(Site& site, Layout& layout, const Layout::Item& item);
  void FailUnless(int communicator, const absl::Status& status);
  // The first error of a communicator has been told, if there is one.
  absl::Status CheckCommunicators();
  absl::StatusOr<Ballot> TakeBallot(Site& site,
                                    const PendingVerdict::State& verdict);
  Ballot FetchedBallot(const PendingVerdict::State& verdict);
  absl::StatusOr<BallotVectors> FetchBallot(Site& site);
  void FetchNorm(Site& site);
  absl::Status ExchangeBallots(Stream& stream);

  const std::vector<std::unique_ptr<Communicator>> communicators_;
  const std::function<void(int, const absl::Status&)> on_failure_;
  ArenaBuffer memory_;
  ArenaBuffer staging_;
  std::optional<LeafNorms> leaf_norms_;
  std::atomic<bool> on_close_{false};
  std::atomic<bool> closed_{false};  // and not run

  std::unique_ptr<transport::Compute::Queue>
      queue_;  // last: its work uses all of the above
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_REDUCTION_H_
