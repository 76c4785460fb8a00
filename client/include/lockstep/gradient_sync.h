// Keeps the gradients of all ranks in step: the API of a training loop.
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
//   Submit(9) Submit(8)      Submit(7)             Finish
//   └─ bucket 0 complete     └─ bucket 1 complete  └─ the rest, zeros for what
//       └─ all-reduce ────▶      └─ all-reduce ──▶     is missing ─▶ verdict
//
// The job's policy groups gradients into buckets. Buckets are reduced in the
// order of the plan, the same on all ranks, while the backward pass runs. A
// gradient is stored in its bucket (Gradient() is a view), or Submit copies it
// there from a buffer of the caller. After Finish the views contain the reduced
// gradients until they are overwritten. No step call waits for the coordinator,
// except in negotiated mode.
//
// docs/gradients.md describes what a step computes, and each mode: "Negotiated
// mode", "Reduce-scatter mode", "Reproducible leaves", "Uneven data", "Buckets
// that move", "Overlap", "Half-precision wire types", "Device memory", "Steps
// in flight", "Captured steps", "A loss scale on the device".
//
// Threads: Submit may be called from any thread, for one parameter by one
//          thread at a time. All other calls are made from one thread, with no
//          concurrent Submit.
// Ownership: the session must outlive this object. Views are valid as long as
//          this object or, with OnMoved, until the handler has returned. In a
//          job with run_ahead they are those of one step. Before
//          destruction, streams must have passed everything submitted on them
//          and every PendingVerdict::Wait must have returned. A rank whose
//          GradientSync is destroyed takes part in no further step: if another
//          rank needs it, the epoch ends with that cause.
// Errors:  no error ends the process. A wrong call is InvalidArgument or
//          FailedPrecondition and has no effect. After the last verdict
//          (Verdict::IsLast) every step call is Cancelled, and after one with
//          which the job grows (Verdict::Grows) Aborted. When the epoch has
//          ended, every call returns Session::status(). docs/gradients.md,
//          "Errors", has the details.

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
#include "lockstep/job_options.h"
#include "lockstep/loss_scale.h"
#include "lockstep/parameter_state.h"
#include "lockstep/stream.h"
#include "lockstep/verdict.h"
#include "lockstep/verdict_scalars.h"

namespace lockstep {

class Session;

struct ParameterOptions {
  std::string name;               // the same on all ranks, once on each
  std::vector<int64_t> shape;     // of the gradient; {} is a scalar
  DType dtype = DType::kF32;      // f16, bf16, f32 or f64
  ReduceOp op = ReduceOp::kMean;  // kSum or kMean
  // Mesh axes to reduce over; empty: the whole world.
  std::vector<std::string> axes = {};
  // Further axes along which other ranks have a copy of this parameter. The
  // global norm counts it once.
  std::vector<std::string> replicated_over = {};
  // In a pipeline: the stage whose backward passes compute the gradient. The
  // gradient is reduced as soon as that stage is done, and must be submitted
  // before PipelineStep::on_stage_done returns for that stage. -1: all of the
  // rank's gradients are reduced after all its work of the step.
  int stage = -1;
  // Submits per backward pass: 2 for a weight tied to two layers. The last one
  // completes the gradient. Submits inside NoSync are not counted.
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
  // Samples that this rank contributed. Each sample is counted by exactly one
  // rank of the world.
  double samples = 0;
  // 1 / loss scale, more than 0; the global norm is multiplied by it. Equal on
  // all ranks. 1 with ScaleLossOnDevice: the device knows its scale.
  double inverse_scale = 1;
  bool more_data = true;  // this rank has another batch
  // Gradients are sums over samples: the global norm and UpdateFactor refer to
  // the mean over the samples of all ranks. Equal on all ranks. Every parameter
  // must be registered with kSum.
  bool per_sample = false;
};

class CapturedStep;
class ReplayedSteps;

class LOCKSTEP_EXPORT PendingVerdict {
 public:
  class LOCKSTEP_HIDDEN State;
  explicit PendingVerdict(std::shared_ptr<State> state);

  // In host memory valid as long as this object or a copy of it. In device
  // memory, until the fourth FinishAsync after it and at most as long as the
  // GradientSync, for work on FinishAsync's stream. Another stream must wait
  // for that stream before it reads them.
  const VerdictScalars* scalars() const;

  // Blocks until the step has ended; returns what Finish returns. Must return
  // before the GradientSync is destroyed.
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

  // Errors: AlreadyExists (duplicate name), InvalidArgument (shape, dtype, op,
  // an axis that the mesh lacks), FailedPrecondition (after Seal).
  absl::StatusOr<ParameterId> Register(const ParameterOptions& options);

  // Registers the parameter's values and its optimizer's state for checkpoints,
  // as Session::RegisterState does: once, before Seal. All ranks that have the
  // parameter do so. Errors: those of Session::RegisterState, after which a
  // part may be registered; InvalidArgument (unknown parameter; a value with
  // sync: reduce_scatter, none in other modes).
  absl::Status RegisterState(ParameterId parameter,
                             const ParameterState& state);

  // Sets the memory of an OptimizerSlice, for the elements of Slice(parameter):
  // after Seal, before checkpoints are saved or loaded, and before Resume and
  // Check of StateReplicas. Errors: InvalidArgument (unknown parameter or
  // suffix).
  absl::Status SetSliceMemory(ParameterId parameter, const std::string& suffix,
                              void* data);

  // Keeps the loss scale in device memory, where the device changes it from
  // step to step (lockstep/loss_scale.h): for jobs whose device decides, which
  // have transport: nccl and no reproducible.leaves. Once, before Seal, on all
  // ranks with the same options; scales are rounded to f32. Every step's
  // gradients are then of a loss that was multiplied by the scale at
  // DeviceLossScale. Errors: InvalidArgument (options), FailedPrecondition (the
  // host decides, which Seal may find too: use LossScaler; a second call; after
  // Seal).
  absl::Status ScaleLossOnDevice(const LossScaler::Options& options = {});

  // Agrees with all ranks on the parameters and the plan, and connects the data
  // plane. Blocks until every rank has done so. Errors: InvalidArgument
  // (registrations differ; every differing rank is listed), Session::status().
  absl::Status Seal();

  // A view of the parameter's gradient in its bucket: row-major, aligned to 64
  // bytes, zeroed by Seal. Without OnMoved the view stays valid as long as this
  // object, and the first call may wait for a verdict that is being exchanged.
  // In a job with run_ahead each step has other views: call it in every step,
  // after FinishAsync of the step before; it may wait for a verdict. Then it
  // fails as a step call does, but for a step that Recover rolls forward.
  // Assign the view to a variable before a range-for over it: in C++20 the loop
  // outlives a temporary StatusOr. Errors: FailedPrecondition before Seal;
  // InvalidArgument for an unknown parameter, for a T whose size differs from
  // the dtype's, and for an integer T (16-bit integers are allowed for halves).
  template <typename T>
  absl::StatusOr<absl::Span<T>> Gradient(ParameterId parameter) {
    return ViewAs<T>(GradientBytes(parameter, sizeof(T), kIsCount<T>));
  }

  // Allows buckets to move (docs/gradients.md, "Buckets that move"). `handler`
  // fetches the views again. It is called after each move, before Finish
  // returns the verdict of that step and before work behind FinishAsync starts.
  // The new views contain the reduced gradients. The old views are valid until
  // the handler returns. A program that fetches its views in every step passes
  // an empty function.
  //
  // The handler runs at most once a step, on a thread of the library or on the
  // thread that waits in Finish. It may call Gradient and no other method of
  // this object, and must not throw. With steps in flight it may run
  // concurrently with the caller's thread: then only work on the stream may use
  // what it changes. In a job with run_ahead it never runs.
  //
  // Call OnMoved before the first Gradient. A later call replaces the handler.
  // A null function forbids moves from now on; that call may wait for a verdict
  // that is being exchanged.
  void OnMoved(std::function<void()> handler);

  // Compares this rank's values of the parameter, in host memory, with those of
  // the other ranks that have a copy. Once per parameter, before the first
  // Finish. The coordinator compares the digests during the first step; a
  // warning names the ranks that differ (`lockstepctl describe`, stderr of one
  // rank), and the job continues. With sync: reduce_scatter the comparison is
  // automatic (docs/gradients.md, "Reduce-scatter mode"). Errors:
  // FailedPrecondition before Seal and after the first Finish, InvalidArgument
  // (unknown parameter, null address, wrong size).
  absl::Status CompareValue(ParameterId parameter, const void* value,
                            size_t bytes);

  // The part of the parameter that this rank updates: with sync:
  // reduce_scatter its slice, else the whole parameter. The slices of all ranks
  // that reduce a parameter cover it without overlap. Errors:
  // FailedPrecondition before Seal, InvalidArgument (unknown parameter).
  absl::StatusOr<ParameterSlice> Slice(ParameterId parameter) const;

  // sync: reduce_scatter only: a view of the whole parameter, laid out like its
  // gradient, zeroed by Seal, valid as long as this object. The caller writes
  // this rank's slice, from Seal to the first GatherParameters and from each
  // verdict to the next gather; gathers write the rest. Errors: as Gradient,
  // and FailedPrecondition in other sync modes.
  template <typename T>
  absl::StatusOr<absl::Span<T>> Value(ParameterId parameter) {
    return ViewAs<T>(ValueBytes(parameter, sizeof(T), kIsCount<T>));
  }

  // ScaleLossOnDevice only: where kernels read the scale, in device memory, as
  // long as this object. Errors: FailedPrecondition (before Seal; without
  // ScaleLossOnDevice).
  absl::StatusOr<const LossScale*> DeviceLossScale() const;

  // ScaleLossOnDevice only: the scale of the step step(), behind all steps of
  // which the host has seen the verdict, or that Recover has rolled forward;
  // initially initial_scale. With steps in flight the device is ahead of it,
  // and Verdict::next_loss_scale belongs to a known step. Errors: as
  // DeviceLossScale.
  absl::StatusOr<LossScale> GetLossScale() const;

  // ScaleLossOnDevice only: continues with the scale of a checkpoint, or of an
  // epoch that has ended. Between two steps, with none in flight, on all ranks
  // with the same value: else the next step is committed on no rank, and the
  // epoch ends (Aborted). On return the device has it. Errors: InvalidArgument
  // (not between scale_min and scale_max), and without effect
  // FailedPrecondition (as DeviceLossScale; a step is in progress); as a step
  // call does.
  absl::Status SetLossScale(const LossScale& scale);

  // --- Every step ---

  // sync: reduce_scatter only. The first call of every step, also useful after
  // the last: starts to gather the slices of the other ranks. This rank's
  // slices are updated already or, with a stream, by the work enqueued on it so
  // far. Does not block. Errors: FailedPrecondition (another sync mode; a
  // second call in a step; without a stream, the previous step's verdict was
  // not awaited).
  absl::Status GatherParameters();
  absl::Status GatherParameters(Stream& stream);

  // Waits for the parameter's latest gather; with a stream, later work on that
  // stream waits instead. Until then the value may be that of the previous
  // step, or a mixture of both. Errors: FailedPrecondition (another sync mode;
  // no gather yet), InvalidArgument (unknown parameter).
  absl::Status AwaitParameter(ParameterId parameter);
  absl::Status AwaitParameter(ParameterId parameter, Stream& stream);

  // sync: negotiated only, at most once a step, before the first Submit:
  // announces the parameters that this rank submits in this step. Without it
  // the step submits none. An announced parameter that is not submitted before
  // Finish contributes zeros. Never blocks; the previous step's verdict must
  // have been awaited.
  //
  // Until Finish the library owns the views of parameters that are not
  // announced and writes zeros there, which are this rank's input to the
  // reductions of other ranks. The caller must not write them, and every reader
  // of the previous step's gradients (an optimizer on a stream) must be done.
  // Errors: InvalidArgument (unknown or repeated parameter), FailedPrecondition
  // (another sync mode; a second call in a step).
  absl::Status BeginPass(absl::Span<const ParameterId> parameters);

  // States that the gradient in the view is complete or, with a stream, that
  // the work enqueued on `stream` so far completes it. Never blocks for host
  // memory; for device memory see docs/gradients.md, "Device memory".
  absl::Status Submit(ParameterId parameter);
  absl::Status Submit(ParameterId parameter, Stream& stream);

  // As above, for a gradient in a buffer of the caller, `bytes` long, which
  // must not change until the call returns or, with a stream, until the stream
  // has passed it. The gradient is multiplied by the micro-batch weight.
  absl::Status Submit(ParameterId parameter, const void* gradient,
                      size_t bytes);
  absl::Status Submit(ParameterId parameter, const void* gradient, size_t bytes,
                      Stream& stream);
  // Several gradients in buffers, as one Submit of each in this order, with the
  // same results. In device memory those of a bucket are copied by one kernel,
  // so submit them together where the backward pass allows it. An error ends
  // the call at the gradient that has it: those before are submitted.
  struct Buffer {
    ParameterId parameter;
    const void* gradient = nullptr;
    size_t bytes = 0;
  };
  absl::Status Submit(absl::Span<const Buffer> gradients, Stream& stream);

  // While the scope exists, Submit accumulates and nothing is sent: for all
  // micro-batches but the last. A scope covers any number of backward passes,
  // and a parameter may be submitted any number of times in it. The first
  // buffer of a step is copied, later ones are added in the gradient's dtype;
  // the caller accumulates into views. Finish sends parameters that were
  // submitted only inside scopes. Errors: FailedPrecondition inside another
  // scope, and once a gradient of this step is complete.
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

  // Sets the factor of gradients that later Submits copy from buffers: 1/M for
  // the mean over M micro-batches. Initially 1. The weight is rounded to f32
  // (f64 for f64 gradients), and each product and each sum is rounded
  // separately. Views are not weighted.
  void SetMicroBatchWeight(double weight);

  // Zeros all gradients, for callers that accumulate into views. Call it
  // between Finish and the next BeginPass or Submit. A later call skips
  // gradients that may be in use by the library: those submitted (including
  // buffers that were accumulated under NoSync) and, after BeginPass, those not
  // announced. Has no effect before Seal and with steps in flight.
  void ZeroGradients();

  // Ends the step: waits for all transfers and the verdict. While the operator
  // has paused the job it returns on resume or, with the committed verdict,
  // when the epoch ends. A parameter that was not submitted contributes zeros;
  // one that was submitted fewer times than its `uses`, or only inside NoSync,
  // contributes what was submitted. FailedPrecondition without effect during
  // Pipeline::Run, and on a rank that has a Pipeline and data but did not call
  // Run in this step.
  absl::StatusOr<Verdict> Finish(const FinishOptions& options = {});

  // As Finish, without waiting for the verdict: later work on `stream` starts
  // after it and can read its scalars. In device memory the call does wait for
  // it where the host has to know it first: if gradients are in their views and
  // the job has no run_ahead, and with reproducible.leaves; an error is then
  // the step's, and later work must not write to the views. An error of the
  // step is otherwise that of PendingVerdict::Wait, not of the stream. The next
  // step's Submits and Finish must be on that stream, or follow
  // PendingVerdict::Wait; without a stream on a GPU they must also follow the
  // work on that stream that reads gradients (Stream::Synchronize). Several
  // steps may be in flight on it; in device memory the Submits of a step wait
  // for the verdict of the one run_ahead + 1 before. VerdictScalars::clip is
  // UpdateFactor(max_norm), max_norm > 0 or infinity; all ranks that call
  // FinishAsync must pass the same max_norm.
  absl::StatusOr<PendingVerdict> FinishAsync(const FinishOptions& options,
                                             double max_norm, Stream& stream);

  // Captures one step into a CUDA graph (captured_step.h). `body` submits the
  // step and ends it with FinishAsync, on `stream` or on streams that `stream`
  // forks and joins; of calls without a stream only Gradient. Nothing runs
  // during the capture, and the PendingVerdict in `body` has no verdict.
  // Errors: those of `body`; FailedPrecondition for host memory, in the middle
  // of a step, for modes that cannot be captured (docs/gradients.md, "Captured
  // steps"), and for a body that does not finish; Internal for what CUDA cannot
  // capture, which may end the epoch.
  absl::StatusOr<std::unique_ptr<CapturedStep>> Capture(
      Stream& stream, absl::FunctionRef<absl::Status()> body);

  // From now on the program may launch steps in CUDA graphs that it captures
  // itself (replayed_steps.h). On every rank, at the same step, before the
  // captures; allocates memory. Errors: FailedPrecondition as Capture, and in a
  // job with run_ahead, a pipeline, halo exchanges or step-scoped state;
  // ResourceExhausted.
  absl::StatusOr<std::unique_ptr<ReplayedSteps>> BeginReplays();

  // The number of the step in progress, which is also the number of steps
  // committed so far, in all epochs of the job, of which the host has seen the
  // verdict.
  uint64_t step() const;

  // Parameter names, indexed by ParameterId::index.
  const std::vector<std::string>& names() const;

  // The thread that runs the transfers of the current step: kInline or kThread.
  // Before Seal: the value in the job spec.
  Overlap overlap() const;

  // Exposed communication of the last finished step: the seconds in which
  // communication blocked the training thread instead of overlapping the
  // backward pass. Includes copies in Submit and the time from the call of
  // Finish to the verdict, without an operator's pause. With streams it is the
  // time for which the stream was blocked: by copies, and from where it reached
  // FinishAsync (on a device from the call; for a captured step from its
  // launch, because nothing is measured inside a graph). `lockstepctl describe`
  // shows the mean of recent steps.
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
  // An integer type that cannot stand for the bits of a half.
  template <typename T>
  static constexpr bool kIsCount = std::is_integral_v<T> && sizeof(T) != 2;
  absl::StatusOr<absl::Span<std::byte>> GradientBytes(ParameterId parameter,
                                                      size_t element_bytes,
                                                      bool is_count);
  absl::StatusOr<absl::Span<std::byte>> ValueBytes(ParameterId parameter,
                                                   size_t element_bytes,
                                                   bool is_count);
  // `stream` null: act immediately, or block.
  absl::Status Gather(Stream* stream);
  absl::Status Await(ParameterId parameter, Stream* stream);
  // `gradient` null: it is in its view. `stream` null: it is complete now.
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
