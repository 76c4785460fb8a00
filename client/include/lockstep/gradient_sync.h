// Keeps gradients in step: what a worker's training loop calls.
//
//   auto sync = GradientSync::Create(*session);
//   for (auto& p : model)
//     p.id = *sync->Register({.name = p.name, .shape = p.shape});
//   sync->Seal();                        // all ranks agree; buckets exist
//   for (auto& p : model) sync->CompareValue(p.id, p.value, p.bytes);
//   for (auto& p : model) p.grad = *sync->Gradient<float>(p.id);
//   for (;;) {
//     backward([&](auto& p) { sync->Submit(p.id); });   // as each is ready
//     auto verdict = sync->Finish({.samples = batch});
//     if (verdict->finite) optimizer.Step(verdict->UpdateFactor(1.0));
//     if (verdict->IsLast()) break;      // an operator's stop, or no more data
//   }
//   session->Leave();
//
//   Submit(9) Submit(8)      Submit(7)            Finish
//   └─ bucket 0 complete     └─ bucket 1 complete  └─ the rest, zeros where
//       └─ all-reduce ────▶      └─ all-reduce ──▶     nothing came ─▶ verdict
//
// Buckets are cut by the job's policy and travel in the plan's order, the same
// on all ranks, while the backward pass goes on. A step call never waits for
// the coordinator.
//
// Negotiated mode (sync: negotiated) is for graphs that change from step to
// step. A step is a pass then, and each rank says first what it will submit:
//
//   sync->BeginPass(ids);                     // of this pass, on this rank
//   backward([&](auto& p) { sync->Submit(p.id); });
//   auto verdict = sync->Finish();
//
// A parameter is reduced once all who announced it have submitted it, by every
// rank of its group, and a mean is over those who announced it: their sum is
// divided by their number before it is rounded. Who did not gives zeros, and
// its view holds zeros after Finish. The coordinator decides the order, so
// steps wait for it, for as long as it takes.
//
// A gradient lives in its bucket (Gradient() is a view), or is packed into it
// from a buffer of the caller's. After Finish the views hold the reduced
// gradients until they are written again.
//
// Moving. Buckets are cut for the order in which gradients are expected to
// become ready, the reverse of the registration. Once steps run the job sees
// the real order, and may cut them anew (`buckets.rebuild` of the spec,
// `lockstepctl rebuild`): then the first transfer starts earlier. Gradients
// move with them, between two steps, on all ranks after the same verdict. A
// program that allows it says how it fetches its views again:
//
//   const auto fetch = [&] {
//     for (auto& p : model) p.grad = *sync->Gradient<float>(p.id);
//   };
//   sync->OnMoved(fetch);
//   fetch();
//
// One that does not keeps the buckets it has, and so do all other ranks. On the
// host gradients have the same bits in any buckets. The global norm is added up
// in the order of the buckets, so its last bits, and those of an update that it
// clips, may change when they move (docs/gradients.md).
//
// Overlap (`overlap` in the job spec). On the host, transfers are run by a
// helper thread beside the backward pass, or by the training thread in Finish:
// where the backward pass needs every core, a helper hides nothing and takes
// time from it. `auto` measures both on the job itself, and all ranks change
// together; the gradients have the same bits either way.
//
// Uneven data: ranks may have batches of different sizes, and different numbers
// of them. Register gradients as sums over samples (ReduceOp::kSum) and say so:
// the global norm and UpdateFactor then divide by the samples of all ranks, and
// all ranks apply what one process would have made of the same samples. With
// ReduceOp::kMean every rank counts alike, however few samples it had, and one
// without data pulls the mean towards zero.
//
//   for (bool more = true;;) {
//     if (more) backward(batch);         // sums; Submit
//     const double samples = more ? batch.size() : 0;
//     if (more) more = loader.Next(&batch);
//     auto verdict = sync->Finish(
//         {.samples = samples, .more_data = more, .per_sample = true});
//     if (verdict->finite) optimizer.Step(verdict->UpdateFactor(1.0));
//     if (verdict->IsLast()) break;
//   }
//
// The job spec's `uneven` says when it is the last: with `stop`, the first step
// after which some rank has no more data; with `join`, the first after which
// none has. A rank that has said more_data = false may go on only as the loop
// above: a Submit, samples or more data from it are InvalidArgument.
//
// Slices (sync: reduce_scatter). Each rank updates a part of every parameter,
// and so needs the optimizer's state of that part alone (ZeRO-1): the
// gradients are reduced and scattered instead of reduced for all. Values then
// live here too, and travel at the beginning of the next step, while its
// forward pass goes on:
//
//   for (auto& p : model) Initialise(*sync->Value<float>(p.id));
//   for (;;) {
//     sync->GatherParameters();          // the other ranks' parts; at once
//     forward([&](auto& p) { sync->AwaitParameter(p.id); });  // before its use
//     backward([&](auto& p) { sync->Submit(p.id); });
//     auto verdict = sync->Finish();
//     for (auto& p : model) {            // this rank's part of each
//       if (!verdict->finite) break;     // every rank skips the update
//       const auto slice = *sync->Slice(p.id);
//       optimizer.Step(*sync->Value<float>(p.id), *sync->Gradient<float>(p.id),
//                      slice, verdict->UpdateFactor(1.0));
//     }
//     if (verdict->IsLast()) break;
//   }
//   sync->GatherParameters();            // to read what the last step made
//
//   Finish ─▶ update ─▶ GatherParameters ─▶ [gather, last bucket]...[bucket 0]
//                       └ forward: AwaitParameter(conv1) ◀┘
//
// A gradient is reduced in its slice alone; what its view holds elsewhere after
// Finish is not specified. The first gather makes all ranks start with the same
// values. A step that is not committed, and a gather that is interrupted, have
// changed nothing of a rank's own slices. Every rank gathers once in every
// step, also one that has no more data, and waits for what it gathered last
// (AwaitParameter) before it leaves. Buckets do not move.
//
// Leaves (reproducible.leaves: L): gradients, norm and verdict have the same
// bits on 1, 2, 4 ... L ranks, on every transport. The batch of a step is cut
// into L leaves, each computed by itself; of n ranks, rank r has the leaves
// r * L / n to (r + 1) * L / n - 1, and submits every parameter once for each,
// in order:
//
//   for (int leaf : mine) {
//     sync->ZeroGradients();             // of views: a leaf is no sum
//     backward(batch_of(leaf), [&](auto& p) { sync->Submit(p.id); });
//   }
//   auto verdict = sync->Finish();
//
// They are added in one tree, halves in f32, rounded once; a mean is over the
// leaves. What was not submitted are a rank's last leaves: zeros. A view that
// was submitted is the caller's again, for the next leaf, as soon as Submit
// returns (or its stream has passed it). Leaves of a buffer are added up in the
// view, from the parameter's first Submit of a step on: its later leaves then
// come from buffers, too, and ZeroGradients leaves it alone. There is no
// NoSync, and `uses` is 1.
//
// Device memory. In a job whose transport moves it (nccl), views and buffers
// are the device's: the host passes their addresses and never looks. Streams
// are CUDA's (device_stream.h). Behind FinishAsync the caller launches nothing
// before the host has seen the verdict, which DeviceStream::AwaitQueued waits
// for; so does a Submit on that stream. A Submit without a stream returns once
// the buffer has been copied. A step may be captured into a CUDA graph and
// launched again and again: captured_step.h. A stream that somebody else
// captures is refused.
//
// Pause: Finish (or FinishAsync's Wait and stream) returns when the operator
// resumes, or with the verdict, which is committed, when the epoch ends.
//
// Threads: Submit from any threads, for one parameter by one at a time; all
//          else from one thread, with no Submit at the same time.
// Ownership: the session must outlive it. A rank whose GradientSync is gone
//          takes part in no further step: if another needs it, the epoch ends
//          and the cause says so. Views live as long as it does, or,
//          with OnMoved, until the handler has returned.
//          Streams must have passed what was submitted on them, and every
//          PendingVerdict::Wait have returned, before it is destroyed.
// Errors:  none ends the process. A wrong call (unknown parameter, a second
//          Submit, one that BeginPass did not announce, a buffer of another
//          size, a view of another type) is InvalidArgument, a step call before
//          Seal is FailedPrecondition, and neither changes anything: correct
//          it and go on. Ranks whose calls end a step on different terms
//          (FinishOptions::inverse_scale or per_sample, max_norm) get Aborted:
//          the step is committed on none, and the epoch is over. After a
//          verdict that is the
//          last (Verdict::IsLast) every step call is Cancelled. When the epoch
//          has ended, every call returns why: Session::status(). A call that
//          meets the failure first waits for the coordinator to say what is
//          behind it, moments as a rule, seconds at most.

#ifndef LOCKSTEP_GRADIENT_SYNC_H_
#define LOCKSTEP_GRADIENT_SYNC_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lockstep/dtype.h"
#include "lockstep/export.h"
#include "lockstep/session.h"
#include "lockstep/stream.h"
#include "lockstep/verdict.h"
#include "lockstep/verdict_scalars.h"

namespace lockstep {

struct ParameterOptions {
  std::string name;               // the same on all ranks, once on each
  std::vector<int64_t> shape;     // of the gradient; {} is a scalar
  DType dtype = DType::kF32;      // f16, bf16, f32 or f64
  ReduceOp op = ReduceOp::kMean;  // kSum or kMean
  // Mesh axes to reduce over; empty: the whole world.
  std::vector<std::string> axes;
  // Further axes along which other ranks hold this same parameter, so that the
  // global norm counts it once.
  std::vector<std::string> replicated_over;
  // In a pipeline, the stage whose backward passes make the gradient: it then
  // travels as soon as that stage is done, and is submitted at the latest when
  // PipelineStep::on_stage_done is told so. -1: it travels once the rank has
  // done all its work of the step, and so do the rank's others.
  int stage = -1;
  // How many times it is submitted in each backward pass: 2 for a weight tied
  // to two layers. The gradient is complete at the last. Submits inside of
  // NoSync are not counted.
  int uses = 1;
};

struct ParameterId {
  int index = -1;  // in the order of registration
};

// Elements of a parameter; count may be 0.
struct ParameterSlice {
  size_t offset = 0;
  size_t count = 0;
};

struct FinishOptions {
  // Samples that this rank contributed; one rank in the world counts each.
  double samples = 0;
  // 1 / loss scale: the global norm is unscaled by it. The same on all ranks.
  double inverse_scale = 1;
  bool more_data = true;  // this rank has another batch
  // Gradients are sums over samples: the global norm and UpdateFactor are of
  // their mean over the samples of all ranks. The same on all ranks; every
  // parameter must be a kSum.
  bool per_sample = false;
};

class CapturedStep;

class LOCKSTEP_EXPORT PendingVerdict {
 public:
  class LOCKSTEP_HIDDEN State;
  explicit PendingVerdict(std::shared_ptr<State> state);

  // Valid as long as this object or a copy lives. In device memory also for
  // work that was launched before on the stream that FinishAsync got; another
  // stream that reads them must be joined to that one first.
  const VerdictScalars* scalars() const;

  // Blocks until the step has ended. As Finish. Must have returned before the
  // GradientSync is destroyed.
  absl::StatusOr<Verdict> Wait();

 private:
  std::shared_ptr<State> state_;
};

class LOCKSTEP_EXPORT GradientSync {
 public:
  static absl::StatusOr<std::unique_ptr<GradientSync>> Create(Session& session);
  ~GradientSync();
  GradientSync(const GradientSync&) = delete;
  GradientSync& operator=(const GradientSync&) = delete;

  // --- Once, before training ---

  // Errors: AlreadyExists (the name was registered before), InvalidArgument
  // (shape, dtype, op, an axis that the mesh lacks), FailedPrecondition
  // (sealed).
  absl::StatusOr<ParameterId> Register(const ParameterOptions& options);

  // Agrees with all ranks on the parameters and the plan and connects the data
  // plane; blocks until every rank has. Errors: InvalidArgument (registrations
  // differ: every differing rank is listed), what Session::status() says.
  absl::Status Seal();

  // The parameter's gradient in its bucket; row-major, aligned to 64 bytes.
  // Zeroed by Seal. Without OnMoved the view stays valid for good; the first
  // such call may wait for a verdict that is being exchanged. Keep it in a
  // variable before a range-for over it (in C++20 the loop outlives the
  // StatusOr that it is taken from). Errors:
  // FailedPrecondition before Seal; InvalidArgument for an unknown parameter,
  // and for a T of another size than the dtype's, or an integer (but one of 16
  // bits, for a half).
  template <typename T>
  absl::StatusOr<absl::Span<T>> Gradient(ParameterId parameter) {
    return ViewAs<T>(GradientBytes(parameter, sizeof(T), kIsCount<T>));
  }

  // Allows buckets to move. `handler` fetches the views again: it is called
  // after each move, before anybody gets the verdict after which it happened:
  // Finish has not returned, and what was enqueued behind FinishAsync has not
  // begun. The new views hold the reduced gradients, the old are valid until it
  // returns, and then no more. A program that fetches its views anew in every
  // step gives an empty function.
  //
  // It runs on a thread of the library, or on the one that waits in Finish, at
  // most once a step; it may call
  // Gradient and nothing else of this object, and must not throw. With steps in
  // flight the caller's thread may run meanwhile: then only work on the stream
  // may use what it changes. Best called before the first Gradient; replaces
  // the handler before it. A null function forbids buckets to move, from now
  // on; that call may wait for a verdict that is being exchanged.
  void OnMoved(std::function<void()> handler);

  // Has this rank's values of the parameter, in host memory, compared with
  // those that the other ranks which hold it give: once, before the first
  // Finish. The digests are compared by the coordinator while the first step
  // goes on; ranks whose values differ are named in a warning
  // (`lockstepctl describe`, one rank's stderr), and the job goes on. With
  // sync: reduce_scatter the values live here, and GatherParameters of the
  // first step does it by itself, with those that were there before;
  // AwaitParameter, with those that it brought, where a rank had set its own
  // slice alone. Errors: FailedPrecondition before Seal and behind the first
  // Finish, InvalidArgument (unknown parameter, a null address, another size
  // than the parameter's).
  absl::Status CompareValue(ParameterId parameter, const void* value,
                            size_t bytes);

  // The part of the parameter that this rank updates: all of it, unless the
  // job's spec says sync: reduce_scatter. The parts of all ranks that reduce
  // the parameter together make it up. Errors: FailedPrecondition before Seal,
  // InvalidArgument (unknown parameter).
  absl::StatusOr<ParameterSlice> Slice(ParameterId parameter) const;

  // sync: reduce_scatter only: the parameter itself, laid out like its
  // gradient, all of it. The slice is this rank's to write, from Seal to the
  // first GatherParameters and from a verdict to the next; the rest is written
  // by the gathers. Zeroed by Seal; valid for good. Errors: as Gradient, and
  // FailedPrecondition in another sync mode.
  template <typename T>
  absl::StatusOr<absl::Span<T>> Value(ParameterId parameter) {
    return ViewAs<T>(ValueBytes(parameter, sizeof(T), kIsCount<T>));
  }

  // --- Every step ---

  // sync: reduce_scatter only, once in every step, first: this rank's slices
  // are updated (or will be, once the work enqueued on `stream` so far has
  // run), and those of the other ranks travel here. Returns at once. Also after
  // the last step. Errors: FailedPrecondition (another sync mode; called before
  // in this step; the verdict of the step before was not waited for, without a
  // stream).
  absl::Status GatherParameters();
  absl::Status GatherParameters(Stream& stream);

  // Waits for the parameter's gather, the newest that was asked for; with a
  // stream, later work on it does. Until then the value may be of the step
  // before, or half of each. Errors: FailedPrecondition (another sync mode;
  // nothing was gathered yet), InvalidArgument (unknown parameter).
  absl::Status AwaitParameter(ParameterId parameter);
  absl::Status AwaitParameter(ParameterId parameter, Stream& stream);

  // Negotiated mode only, at most once a step, before the first Submit: what
  // this rank will submit in it. Without it a step submits nothing. What was
  // announced and not submitted when Finish is called contributes zeros, so
  // that nobody waits for it. Never blocks; the verdict of the step before must
  // have been waited for. From here to Finish the views of what is not
  // announced are the library's: it writes zeros there, which this rank gives
  // to the reductions of others. The program must not write them, or the
  // others' sums are wrong; and whoever reads the gradients of the step before
  // (an optimizer on a stream) must be done. Errors: InvalidArgument (an
  // unknown parameter, one that comes twice), FailedPrecondition (sync: static,
  // or called before in this step).
  absl::Status BeginPass(absl::Span<const ParameterId> parameters);

  // The gradient in the view is complete, or will be once the work enqueued on
  // `stream` so far has run. Never blocks, but for device memory as said above.
  absl::Status Submit(ParameterId parameter);
  absl::Status Submit(ParameterId parameter, Stream& stream);

  // As above with the gradient in a buffer of the caller's, `bytes` long, which
  // must stay untouched until the call returns, or until `stream` has passed
  // it. The micro-batch weight multiplies it.
  absl::Status Submit(ParameterId parameter, const void* gradient,
                      size_t bytes);
  absl::Status Submit(ParameterId parameter, const void* gradient, size_t bytes,
                      Stream& stream);

  // While the scope lives, Submit accumulates and nothing is sent: for all
  // micro-batches but the last. A scope holds any number of backward passes,
  // and inside it a parameter may be submitted any number of times. The first
  // buffer of a step is copied, the next are added in the gradient's type;
  // views are the caller's to accumulate into. What was submitted only inside
  // of scopes is sent by Finish. FailedPrecondition inside another scope, or
  // once a gradient of this step is complete.
  class NoSyncScope {
   public:
    NoSyncScope(NoSyncScope&& other) noexcept;
    ~NoSyncScope();

   private:
    friend class GradientSync;
    explicit NoSyncScope(GradientSync* sync) : sync_(sync) {}
    GradientSync* sync_;
  };
  absl::StatusOr<NoSyncScope> NoSync();

  // Multiplies what later Submits pack from external buffers, until changed:
  // 1/M for the mean over M micro-batches. Starts as 1. The weight is rounded
  // to f32 (f64 for f64 gradients), and each product and sum is rounded by
  // itself. Views are not weighted.
  void SetMicroBatchWeight(double weight);

  // Zeros all gradients, for callers that accumulate into views: between Finish
  // and the next BeginPass or Submit. Later it leaves alone what may be
  // travelling: what was submitted (from buffers, also what was added up of it
  // under NoSync), and after BeginPass what was not announced.
  // With steps in flight, and before Seal, it does nothing.
  void ZeroGradients();

  // Ends the step. A parameter that was not submitted contributes zeros; one
  // that was submitted fewer times than its `uses`, or only inside of NoSync,
  // contributes what was submitted. Waits for all transfers and the verdict.
  // FailedPrecondition, and nothing has
  // changed, during Pipeline::Run, and without it on a rank that has a Pipeline
  // and data.
  absl::StatusOr<Verdict> Finish(const FinishOptions& options = {});

  // As Finish without waiting: later work on `stream` starts after the verdict
  // and can read its scalars. The next step's Submits and Finish must be on
  // that stream, or after Wait; several steps may be in flight on it. The
  // scalars' clip is UpdateFactor(max_norm), which is the same on all ranks
  // that call it.
  absl::StatusOr<PendingVerdict> FinishAsync(const FinishOptions& options,
                                             double max_norm, Stream& stream);

  // Captures into a CUDA graph the one step that `body` submits and finishes
  // with FinishAsync on `stream`, or on streams that wait for it and that it
  // waits for again; nothing of it runs, and its verdict has none. In `body` no
  // call without such a stream. Errors: `body`'s; FailedPrecondition for host
  // memory, in the middle of a step, for sync: negotiated and for uneven: join
  // (a graph with gradients cannot give none), and for a body that does not
  // finish; Internal for what CUDA cannot capture, which may end the epoch.
  absl::StatusOr<std::unique_ptr<CapturedStep>> Capture(
      Stream& stream, absl::FunctionRef<absl::Status()> body);

  // Steps committed so far; the number of the step in progress.
  uint64_t step() const;

  // Names of the parameters, by ParameterId::index.
  const std::vector<std::string>& names() const;

  // Who runs the transfers of the step in progress: kInline or kThread. Before
  // Seal: what the job's spec says.
  Overlap overlap() const;

  // Exposed communication: the seconds for which communication held the
  // training thread in the last finished step, and so was not hidden behind the
  // backward pass. It is the time in which Submit copied gradients out of the
  // caller's buffers, and that from the call of Finish to the verdict, without
  // what an operator's pause adds. With a stream, the time for which it was
  // held: by the copies, and from where it got to FinishAsync (on a device:
  // from the call; of a captured step from its launch, for nobody measures
  // inside a graph). `lockstepctl describe` shows the mean of the last steps.
  double exposed_seconds() const;

 private:
  class LOCKSTEP_HIDDEN Impl;
  explicit GradientSync(std::unique_ptr<Impl> impl);
  template <typename T>
  static absl::StatusOr<absl::Span<T>> ViewAs(
      const absl::StatusOr<absl::Span<std::byte>>& bytes) {
    if (!bytes.ok()) return bytes.status();
    return absl::Span<T>(reinterpret_cast<T*>(bytes->data()),
                         bytes->size() / sizeof(T));
  }
  // An integer that cannot be meant as the bits of a half.
  template <typename T>
  static constexpr bool kIsCount = std::is_integral_v<T> && sizeof(T) != 2;
  absl::StatusOr<absl::Span<std::byte>> GradientBytes(ParameterId parameter,
                                                      size_t element_bytes,
                                                      bool is_count);
  absl::StatusOr<absl::Span<std::byte>> ValueBytes(ParameterId parameter,
                                                   size_t element_bytes,
                                                   bool is_count);
  // `stream` null: now, or wait.
  absl::Status Gather(Stream* stream);
  absl::Status Await(ParameterId parameter, Stream* stream);
  // `gradient` null: in its view. `stream` null: complete now.
  absl::Status Submit(ParameterId parameter, const void* gradient, size_t bytes,
                      Stream* stream);
  absl::Status SubmitBuffer(ParameterId parameter, const void* gradient,
                            size_t bytes, Stream* stream);
  absl::StatusOr<PendingVerdict> FinishOn(const FinishOptions& options,
                                          double max_norm, Stream* stream);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_GRADIENT_SYNC_H_
