#include "tests/gpu/nccl/gradient_exercise.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "client/gradient/engine.h"
#include "client/transport/nccl/cuda_arena.h"
#include "client/transport/nccl/cuda_stream.h"
#include "client/transport/nccl/device_scope.h"
#include "client/transport/nccl/gpu_status.h"
#include "client/transport/nccl/nccl.h"
#include "plan/compile.h"

namespace lockstep::gpu {
namespace {

using gradient::Engine;
using transport::nccl::Check;
using transport::nccl::CudaStream;
using transport::nccl::CudaStreamHandle;
using transport::nccl::Tables;

constexpr double kNoClipping = std::numeric_limits<double>::infinity();

size_t ElementsOf(const GradientShape& shape, int parameter) {
  // Sizes differ, and most are no multiple of what a kernel works on at once.
  const size_t share = shape.elements / 4;
  return shape.elements - share + parameter * share * 2 / shape.parameters + 1;
}

std::vector<Parameter> ParametersOf(const GradientShape& shape) {
  std::vector<Parameter> parameters;
  for (int p = 0; p < shape.parameters; ++p) {
    parameters.push_back({.name = absl::StrCat("p", p),
                          .shape = {static_cast<int64_t>(ElementsOf(shape, p))},
                          .op = p % 2 == 0 ? ReduceOp::kSum : ReduceOp::kMean});
  }
  return parameters;
}

// Every element of a gradient has one value, exact in f32.
float GradientOf(int rank, uint64_t step, int parameter) {
  return static_cast<float>((rank + 1) * (step + 1) + parameter);
}

float ReducedOf(int world, uint64_t step, int parameter) {
  float sum = 0;
  for (int rank = 0; rank < world; ++rank) {
    sum += GradientOf(rank, step, parameter);
  }
  return parameter % 2 == 0 ? sum : sum / static_cast<float>(world);
}

// What the host spent in the calls of some steps.
struct Cost {
  absl::Duration submits, finish, all;
  int steps = 0;

  std::string Text(const char* form, int parameters) const {
    return absl::StrFormat(
        "%s: step %.0f us, Submit %.2f us, Finish or Launch %.1f us; ", form,
        absl::ToDoubleMicroseconds(all) / steps,
        absl::ToDoubleMicroseconds(submits) / steps / parameters,
        absl::ToDoubleMicroseconds(finish) / steps);
  }
};

class GradientRank {
 public:
  GradientRank(const Tables& tables, const Place& place,
               const GradientShape& shape)
      : tables_(tables),
        scope_(*tables_.cuda),
        place_(place),
        shape_(shape),
        parameters_(ParametersOf(shape)),
        arena_(transport::nccl::MakeCudaArena(tables.nccl, tables.cuda)),
        batches_(static_cast<size_t>(shape.run_ahead) + 2) {
    for (int p = 0; p < shape.parameters; ++p) {
      offsets_.push_back(elements_);
      elements_ += ElementsOf(shape, p);
    }
  }
  ~GradientRank() {
    if (stream_ != nullptr) (void)stream_->Synchronize();
    if (exec_ != nullptr) (void)tables_.cuda->GraphExecDestroy(exec_);
    engine_.reset();
    batches_.push_back(read_);
    batches_.push_back(replayed_batch_);
    for (void* memory : batches_) {
      if (memory != nullptr) tables_.cuda->FreeHost(memory);
    }
  }

  absl::Status Open() {
    auto transport = transport::nccl::MakeTransport(tables_);
    if (!transport.ok()) return transport.status();
    transport_ = *std::move(transport);
    auto stream = CudaStream::Create(tables_.cuda.get());
    if (!stream.ok()) return stream.status();
    stream_ = *std::move(stream);
    auto weights = arena_->Allocate(bytes());
    if (!weights.ok()) return weights.status();
    weights_ = *std::move(weights);
    absl::Status made;
    std::vector<void**> pinned{&read_, &replayed_batch_};
    for (void*& batch : batches_) pinned.push_back(&batch);
    for (void** memory : pinned) {
      made.Update(Check(*tables_.cuda, tables_.cuda->HostAlloc(memory, bytes()),
                        "HostAlloc"));
    }
    if (made.ok()) made = MakeEngine();
    return made;
  }

  // Blocking steps on the stream: each is checked before the next begins.
  absl::StatusOr<Cost> TrainBlocking() {
    Cost cost;
    for (int i = 0; i < shape_.steps; ++i) {
      const uint64_t step = engine_->step();
      Load(step);
      const absl::Time begun = absl::Now();
      const auto pending = EnqueueStep({.samples = 1}, &cost);
      if (!pending.ok()) return pending.status();
      if (auto verdict = (*pending)->Wait(); !verdict.ok()) {
        return verdict.status();
      }
      cost.all += absl::Now() - begun;
      ++cost.steps;
      if (absl::Status right = ExpectWeights(step); !right.ok()) return right;
    }
    return cost;
  }

  // The host enqueues each step, and run_ahead more, before it looks at the one
  // before.
  absl::StatusOr<Cost> TrainAhead() {
    Cost cost;
    std::deque<std::shared_ptr<PendingVerdict::State>> in_flight;
    uint64_t step = engine_->step();
    const absl::Time begun = absl::Now();
    for (int i = 0; i < shape_.steps; ++i, ++step) {
      Load(step);
      const auto pending = EnqueueStep({.samples = 1}, &cost);
      if (!pending.ok()) return pending.status();
      in_flight.push_back(*pending);
      if (absl::Status over = AwaitAllBut(shape_.run_ahead + 1, &in_flight);
          !over.ok()) {
        return over;
      }
      ++cost.steps;
    }
    absl::Status over = AwaitAllBut(0, &in_flight);
    if (!over.ok()) return over;
    cost.all = absl::Now() - begun;
    absl::Status right = ExpectWeights(step - 1);
    if (!right.ok()) return right;
    return cost;
  }

  // Each launch before it looks at the one run_ahead before.
  absl::StatusOr<Cost> TrainCaptured() {
    uint64_t step = engine_->step();
    // One for each step that may be in flight; they own their scalars.
    std::vector<std::shared_ptr<PendingVerdict::State>> captured;
    const auto graph = engine_->Capture(*stream_, [&]() -> absl::Status {
      Cost ignored;
      batch_ = batches_[captured.size()];
      const auto pending = EnqueueStep({}, &ignored);
      if (!pending.ok()) return pending.status();
      captured.push_back(*pending);
      return absl::OkStatus();
    });
    if (!graph.ok()) return graph.status();
    Cost cost;
    std::deque<std::shared_ptr<PendingVerdict::State>> in_flight;
    const absl::Time begun = absl::Now();
    for (int i = 0; i < shape_.steps; ++i, ++step) {
      // A graph reads the batch of its capture. The former launch that did so
      // has been waited for.
      Fill(batches_[i % captured.size()], step);
      const absl::Time launched = absl::Now();
      const auto pending = engine_->Launch(*graph, {.samples = 1}, *stream_);
      cost.finish += absl::Now() - launched;
      if (!pending.ok()) return pending.status();
      in_flight.push_back(*pending);
      ++cost.steps;
      absl::Status right = AwaitAllBut(shape_.run_ahead, &in_flight);
      if (right.ok() && in_flight.empty()) right = ExpectWeights(step);
      if (!right.ok()) return right;
    }
    absl::Status right = AwaitAllBut(0, &in_flight);
    cost.all = absl::Now() - begun;
    if (right.ok()) right = ExpectWeights(step - 1);
    if (!right.ok()) return right;
    return cost;
  }

  // The program captures a step, and launches it without a call of the engine.
  absl::StatusOr<Cost> TrainReplayed() {
    uint64_t step = engine_->step();
    absl::Status begun = engine_->BeginReplays();
    batch_ = replayed_batch_;
    if (begun.ok()) begun = CaptureReplay();
    if (!begun.ok()) return begun;
    transport::nccl::CudaApi& cuda = *tables_.cuda;
    Cost cost;
    const absl::Time first = absl::Now();
    for (int i = 0; i < shape_.steps; ++i, ++step) {
      void* const batch = batches_[i % batches_.size()];
      // The launch that read it last has been waited for.
      if (i >= static_cast<int>(batches_.size())) {
        if (absl::Status passed = NextReplay(); !passed.ok()) return passed;
      }
      Fill(batch, step);
      const absl::Time launched = absl::Now();
      absl::Status done = Check(
          cuda,
          cuda.MemcpyAsync(replayed_batch_, batch, bytes(), stream_->handle()),
          "MemcpyAsync");
      done.Update(Check(cuda, cuda.GraphLaunch(exec_, stream_->handle()),
                        "GraphLaunch"));
      cost.finish += absl::Now() - launched;
      if (!done.ok()) return done;
      ++cost.steps;
    }
    while (replays_passed_ < static_cast<uint64_t>(shape_.steps)) {
      if (absl::Status passed = NextReplay(); !passed.ok()) return passed;
    }
    cost.all = absl::Now() - first;
    absl::Status right = ExpectWeights(step - 1);
    if (!right.ok()) return right;
    return cost;
  }

  double exposed_seconds() { return engine_->exposed_seconds(); }
  int buckets() const { return buckets_; }

 private:
  absl::Status CaptureReplay() {
    transport::nccl::CudaApi& cuda = *tables_.cuda;
    absl::Status done = Check(cuda, cuda.StreamBeginCapture(stream_->handle()),
                              "StreamBeginCapture");
    if (done.ok()) done = engine_->JoinCapture(*stream_);
    Cost ignored;
    if (done.ok()) done = EnqueueStep({.samples = 1}, &ignored).status();
    engine_->LeaveCapture();
    transport::nccl::CudaGraphHandle graph = nullptr;
    done.Update(Check(cuda, cuda.StreamEndCapture(stream_->handle(), &graph),
                      "StreamEndCapture"));
    if (done.ok()) {
      done =
          Check(cuda, cuda.GraphInstantiate(&exec_, graph), "GraphInstantiate");
    }
    if (graph != nullptr) (void)cuda.GraphDestroy(graph);
    return done;
  }
  absl::Status NextReplay() {
    const auto next = engine_->replays().Next(absl::Seconds(60));
    if (!next.ok()) return next.status();
    if (next->launch != replays_passed_) {
      return absl::DataLossError(absl::StrFormat(
          "launch %d passed, and launch %d was expected: some were void",
          next->launch, replays_passed_));
    }
    ++replays_passed_;
    return absl::OkStatus();
  }

  static absl::Status AwaitAllBut(
      int count,
      std::deque<std::shared_ptr<PendingVerdict::State>>* in_flight) {
    while (static_cast<int>(in_flight->size()) > count) {
      auto verdict = in_flight->front()->Wait();
      in_flight->pop_front();
      if (!verdict.ok()) return verdict.status();
    }
    return absl::OkStatus();
  }

  size_t bytes() const { return elements_ * sizeof(float); }
  float* WeightOf(int p) const {
    return weights_.as<float>().data() + offsets_[p];
  }

  absl::Status MakeEngine() {
    plan::PlanInput input{.mesh = {{{"data", place_.size}}},
                          .policy = {.first_bytes_max = shape_.bucket_bytes,
                                     .bytes_max = shape_.bucket_bytes}};
    input.registrations.assign(place_.size, parameters_);
    input.transports.assign(place_.size, transport_->facts());
    auto plan = plan::Compile(input);
    if (!plan.ok()) return plan.status();
    buckets_ = static_cast<int>(plan->buckets.size());
    std::vector<std::unique_ptr<Communicator>> communicators;
    for (const plan::CommunicatorSpec& spec : plan->communicators) {
      const bool is_world = communicators.empty();
      auto pending = transport_->Prepare(
          {.name = spec.name,
           .rank = place_.rank,
           .size = place_.size,
           .traffic = is_world ? transport::TrafficClass::kSmall
                               : transport::TrafficClass::kBulk});
      if (!pending.ok()) return pending.status();
      auto connected = (*pending)->Connect(
          place_.exchange((*pending)->handle()), absl::Seconds(60));
      if (!connected.ok()) return connected.status();
      communicators.push_back(*std::move(connected));
    }
    auto device = transport_->MakeDeviceContext();
    if (!device.ok()) return device.status();
    auto executor = executor::Executor::Create(std::move(communicators),
                                               *std::move(device));
    if (!executor.ok()) return executor.status();
    executor_ = *std::move(executor);
    gradient::EngineOptions options{
        .epoch = {1},
        .run_ahead = shape_.run_ahead,
        .plan = *std::move(plan),
        .rank = place_.rank,
        .executor = executor_,
        .uses = std::vector<int>(parameters_.size(), 1),
        .allocate = [this](size_t size) { return arena_->Allocate(size); },
        .register_buffer =
            [this](Communicator& communicator, const ArenaBuffer& buffer) {
              return transport_->RegisterBuffer(communicator, buffer,
                                                absl::Seconds(60));
            },
        .clock = &clock_,
        .on_failure = [](int, const absl::Status&) {},
        .explain = [](const absl::Status& error) { return error; },
    };
    for (const Parameter& parameter : parameters_) {
      options.names.push_back(parameter.name);
    }
    auto engine = Engine::Create(std::move(options));
    if (!engine.ok()) return engine.status();
    engine_ = *std::move(engine);
    return absl::OkStatus();
  }

  void Load(uint64_t step) {
    batch_ = batches_[step % batches_.size()];
    Fill(batch_, step);
  }
  void Fill(void* batch, uint64_t step) {
    for (int p = 0; p < shape_.parameters; ++p) {
      float* const at = static_cast<float*>(batch) + offsets_[p];
      std::fill_n(at, ElementsOf(shape_, p), GradientOf(place_.rank, step, p));
    }
  }

  // One step on the stream, and the update behind its verdict.
  absl::StatusOr<std::shared_ptr<PendingVerdict::State>> EnqueueStep(
      const FinishOptions& options, Cost* cost) {
    transport::nccl::CudaApi& cuda = *tables_.cuda;
    for (int p = shape_.parameters - 1; p >= 0; --p) {
      const auto handle = stream_->handle();
      const auto got = engine_->View(p);
      if (!got.ok()) return got.status();
      const absl::Span<std::byte> view = *got;
      absl::Status done =
          Check(cuda,
                cuda.MemcpyAsync(view.data(),
                                 static_cast<float*>(batch_) + offsets_[p],
                                 view.size(), handle),
                "MemcpyAsync");
      const absl::Time begun = absl::Now();
      done.Update(engine_->Submit(p, nullptr, 0, stream_.get()));
      cost->submits += absl::Now() - begun;
      if (!done.ok()) return done;
    }
    std::vector<absl::Span<std::byte>> reduced;
    for (int p = 0; p < shape_.parameters; ++p) {
      const auto view = engine_->View(p);
      if (!view.ok()) return view.status();
      reduced.push_back(*view);
    }
    const absl::Time begun = absl::Now();
    auto pending = engine_->Finish(options, kNoClipping, stream_.get());
    cost->finish += absl::Now() - begun;
    if (!pending.ok()) return pending.status();
    const auto handle = stream_->handle();
    for (int p = 0; p < shape_.parameters; ++p) {
      const absl::Span<std::byte> view = reduced[p];
      absl::Status done =
          Check(cuda,
                tables_.kernels->CommitCopy((*pending)->scalars(), view.data(),
                                            WeightOf(p), view.size(), handle),
                "kernel CommitCopy");
      if (!done.ok()) return done;
    }
    return pending;
  }

  absl::Status ExpectWeights(uint64_t step) {
    const auto handle = stream_->handle();
    absl::Status done =
        Check(*tables_.cuda,
              tables_.cuda->MemcpyAsync(read_, WeightOf(0), bytes(), handle),
              "MemcpyAsync");
    done.Update(stream_->Synchronize());
    if (!done.ok()) return done;
    for (int p = 0; p < shape_.parameters; ++p) {
      const float want = ReducedOf(place_.size, step, p);
      const float* const at = static_cast<float*>(read_) + offsets_[p];
      for (size_t i = 0; i < ElementsOf(shape_, p); ++i) {
        if (at[i] == want) continue;
        return absl::DataLossError(absl::StrFormat(
            "step %d: element %d of parameter %d is %g and should be %g", step,
            i, p, at[i], want));
      }
    }
    return absl::OkStatus();
  }

  const Tables tables_;
  const transport::nccl::DeviceScope scope_;  // for the rank's thread
  const Place place_;
  const GradientShape shape_;
  const std::vector<Parameter> parameters_;
  SystemClock clock_;
  std::vector<size_t> offsets_;
  size_t elements_ = 0;
  int buckets_ = 0;
  const std::unique_ptr<Arena> arena_;
  std::unique_ptr<transport::Transport> transport_;
  std::unique_ptr<CudaStream> stream_;
  ArenaBuffer weights_;
  std::vector<void*> batches_;      // one more than steps may be in flight
  void* batch_ = nullptr;           // of the step being enqueued
  void* replayed_batch_ = nullptr;  // which the program's graph reads
  void* read_ = nullptr;
  transport::nccl::CudaGraphExecHandle exec_ = nullptr;
  uint64_t replays_passed_ = 0;
  std::shared_ptr<executor::Executor> executor_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace

absl::StatusOr<std::string> SynchroniseGradients(const Tables& tables,
                                                 const Place& place,
                                                 const GradientShape& shape) {
  GradientRank rank(tables, place, shape);
  if (absl::Status opened = rank.Open(); !opened.ok()) return opened;
  std::string text = absl::StrFormat(
      "%d parameters, %d buckets, %.1f MiB; ", shape.parameters, rank.buckets(),
      static_cast<double>(shape.parameters * shape.elements * sizeof(float)) /
          (1 << 20));
  using Form = absl::StatusOr<Cost> (GradientRank::*)();
  using NamedForm = std::pair<const char*, Form>;
  std::vector<NamedForm> forms = {{"blocking", &GradientRank::TrainBlocking},
                                  {"ahead", &GradientRank::TrainAhead}};
  forms.push_back(shape.replays
                      ? NamedForm{"replayed", &GradientRank::TrainReplayed}
                      : NamedForm{"captured", &GradientRank::TrainCaptured});
  forms.emplace_back("blocking again", &GradientRank::TrainBlocking);
  for (const auto& [name, form] : forms) {
    const absl::StatusOr<Cost> cost = (rank.*form)();
    if (!cost.ok()) {
      return absl::Status(cost.status().code(),
                          absl::StrCat(name, ": ", cost.status().message()));
    }
    absl::StrAppend(&text, cost->Text(name, shape.parameters));
  }
  absl::StrAppendFormat(&text, "exposed %.3f ms in all",
                        rank.exposed_seconds() * 1e3);
  return text;
}

}  // namespace lockstep::gpu
