#include "lockstep/axis_group.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "client/collectives/axis_group_impl.h"
#include "client/collectives/pending_collective.h"
#include "client/collectives/prepared_collective.h"
#include "client/collectives/signature_check.h"
#include "protocol/axis_group.h"

namespace lockstep {

// --- PendingCollective ------------------------------------------------------

PendingCollective::PendingCollective(std::shared_ptr<State> state)
    : state_(std::move(state)) {}
bool PendingCollective::Done() const { return state_->done().Done(); }
Event PendingCollective::event() const { return state_->done(); }
absl::Status PendingCollective::Wait() const { return state_->Wait(); }

// --- PreparedCollective -----------------------------------------------------

PreparedCollective::PreparedCollective(std::shared_ptr<const Impl> impl)
    : impl_(std::move(impl)) {}

const std::vector<TensorType>& PreparedCollective::outputs() const {
  return impl_->outputs();
}

namespace {

// Enqueues a call, and notes it as the group's newest.
absl::StatusOr<std::shared_ptr<Communicator>> RunNoted(
    const PreparedCollective::Impl& prepared,
    absl::Span<const void* const> inputs, absl::Span<void* const> outputs,
    Stream& stream, std::shared_ptr<collectives::CallOutcome> outcome,
    Event* done) {
  MutexLock lock(&prepared.group().call_mutex());
  prepared.BeginCall();
  auto communicator = prepared.Run(inputs, outputs, stream, std::move(outcome));
  // What is captured runs later, any number of times.
  const bool captured = communicator.ok() &&
                        prepared.group().device_calls() != nullptr &&
                        prepared.group().memory().device->Captures(stream);
  if (communicator.ok() && !captured) *done = stream.Record();
  prepared.group().EndCall(communicator.ok() ? done : nullptr);
  return communicator;
}

}  // namespace

absl::StatusOr<PendingCollective> PreparedCollective::Start(
    absl::Span<const void* const> inputs, absl::Span<void* const> outputs,
    absl::Span<const Event> after) const {
  const auto stream = impl_->group().OwnStream(impl_->name());
  if (!stream.ok()) return stream.status();
  for (const Event& event : after) (*stream)->WaitFor(event);
  auto outcome = std::make_shared<collectives::CallOutcome>();
  Event done;
  auto communicator =
      RunNoted(*impl_, inputs, outputs, **stream, outcome, &done);
  if (!communicator.ok()) return communicator.status();
  return PendingCollective(std::make_shared<PendingCollective::State>(
      *std::move(communicator),
      [prepared = impl_](const absl::Status& error) {
        return prepared->group().Explained(prepared->name(), error);
      },
      std::move(outcome), std::move(done)));
}

absl::Status PreparedCollective::Run(absl::Span<const void* const> inputs,
                                     absl::Span<void* const> outputs,
                                     Stream& stream) const {
  Event done;
  return RunNoted(*impl_, inputs, outputs, stream, nullptr, &done).status();
}

absl::Status PreparedCollective::RunAndWait(
    absl::Span<const void* const> inputs,
    absl::Span<void* const> outputs) const {
  const auto pending = Start(inputs, outputs);
  return pending.ok() ? pending->Wait() : pending.status();
}

// --- AxisGroup --------------------------------------------------------------

AxisGroup::AxisGroup(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

const std::vector<std::string>& AxisGroup::axes() const {
  return impl_->options().axes;
}
const std::vector<std::vector<int>>& AxisGroup::index_groups() const {
  return impl_->options().index_groups;
}
int AxisGroup::size() const { return impl_->options().size; }
int AxisGroup::index() const { return impl_->options().index; }

absl::StatusOr<PreparedCollective> AxisGroup::Prepare(
    const AxisCollective& op, absl::Span<const TensorType> inputs) const {
  const AxisGroupOptions& options = impl_->options();
  AxisCollective named = op;
  if (op.axes.empty() && op.index_groups.empty()) {
    named.axes = options.axes;
    named.index_groups = options.index_groups;
  }
  const bool is_of_group =
      named.axes == options.axes && named.index_groups == options.index_groups;
  if (options.checks_axes && !is_of_group) {
    return absl::InvalidArgumentError(
        absl::StrCat(AbslView(Name(op.kind)), " over ",
                     protocol::Describe({op.axes, op.index_groups}),
                     " was prepared with the group over ",
                     protocol::Describe({options.axes, options.index_groups})));
  }
  auto made = PreparedCollective::Impl::Make(impl_, std::move(named), inputs);
  if (!made.ok()) return made.status();
  return PreparedCollective(*std::move(made));
}

// --- AxisGroup::Impl --------------------------------------------------------

AxisGroup::Impl::Impl(AxisGroupOptions options, Causes causes)
    : options_([&options] {
        for (int i = 0;
             options.ranks.size() < static_cast<size_t>(options.size); ++i) {
          options.ranks.push_back(i);
        }
        return std::move(options);
      }()),
      causes_(std::move(causes)) {}

void AxisGroup::Impl::Connect(std::shared_ptr<Communicator> communicator,
                              GroupMemory memory) {
  MutexLock lock(&mutex_);
  communicator_ = std::move(communicator);
  memory_ = std::move(memory);
  if (memory_.device == nullptr) return;
  device_calls_ = std::make_unique<collectives::DeviceCalls>(memory_.device,
                                                             memory_.allocate);
  connected_device_.store(device_calls_.get(), std::memory_order_release);
}

void AxisGroup::Impl::Close() {
  std::shared_ptr<Communicator> dropped;  // destroyed without the lock
  MutexLock lock(&mutex_);
  closed_ = true;
  dropped.swap(communicator_);
}

absl::StatusOr<std::shared_ptr<Communicator>> AxisGroup::Impl::CommunicatorFor(
    const std::string& call) {
  std::shared_ptr<Communicator> communicator;
  {
    MutexLock lock(&mutex_);
    if (communicator_ == nullptr) return NotConnected(call);
    communicator = communicator_;
  }
  const absl::Status failed = communicator->status();
  if (!failed.ok()) return Explained(call, failed);
  return communicator;
}

absl::StatusOr<Stream*> AxisGroup::Impl::OwnStream(const std::string& call) {
  MutexLock lock(&mutex_);
  if (communicator_ == nullptr) return NotConnected(call);
  if (stream_ != nullptr) return stream_.get();
  constexpr char kName[] = "ls-group";
  if (memory_.device == nullptr) {
    stream_ = std::make_unique<HostStream>(kName);
  } else {
    auto made = memory_.device->MakeStream(kName);
    if (!made.ok()) return made.status();
    stream_ = *std::move(made);
  }
  return stream_.get();
}

absl::Status AxisGroup::Impl::RunAndWait(
    const std::string& call, const std::string& signature,
    absl::FunctionRef<absl::Status(Communicator&, Stream&)> enqueue) {
  const auto stream = OwnStream(call);
  if (!stream.ok()) return stream.status();
  const auto communicator = CommunicatorFor(call);
  if (!communicator.ok()) return communicator.status();
  absl::Status compared, enqueued;
  Event done;
  {
    MutexLock lock(&call_mutex_);
    BeginCall(std::make_shared<const std::string>(call));
    compared = CompareSignatures(signature, *communicator, **stream);
    enqueued = compared.ok() ? enqueue(**communicator, **stream) : compared;
    done = (*stream)->Record();
    EndCall(&done);
  }
  enqueued.Update(done.Wait());
  const absl::Status failed = (*communicator)->status();
  if (!failed.ok()) return Explained(call, failed);
  // On a device a difference leaves the communicator as it is.
  return absl::IsInvalidArgument(compared) ? Explained(call, compared)
                                           : enqueued;
}

absl::Status AxisGroup::Impl::Explained(const std::string& call,
                                        const absl::Status& error) {
  {
    MutexLock lock(&mutex_);
    if (closed_) return NotConnected(call);
  }
  return causes_.of_communicator == nullptr
             ? error
             : causes_.of_communicator(call, error);
}

absl::Status AxisGroup::Impl::Refused(const std::string& call,
                                      const absl::Status& error) {
  return causes_.of_values == nullptr ? error : causes_.of_values(call, error);
}

absl::Status AxisGroup::Impl::CompareSignatures(
    const std::string& signature,
    const std::shared_ptr<Communicator>& communicator, Stream& stream) {
  if (!options_.checked || options_.size == 1) return absl::OkStatus();
  if (collectives::DeviceCalls* const device = device_calls()) {
    return device->CompareSignatures(signature, ranks(), *communicator, stream);
  }
  collectives::CallStream host(static_cast<HostStream&>(stream), nullptr);
  return collectives::EnqueueSignatureCheck(
      std::make_shared<const std::string>(signature), ranks(), communicator,
      pool_, host);
}

absl::Status AxisGroup::Impl::NotConnected(const std::string& call) const {
  return absl::FailedPreconditionError(absl::StrCat(
      call, closed_ ? ": this worker has left the job"
                    : ": the group is not connected yet: GradientSync::Seal "
                      "connects it, or Session::Connect"));
}

void AxisGroup::Impl::BeginCall(std::shared_ptr<const std::string> call) {
  MutexLock lock(&mutex_);
  ++calls_;
  outstanding_.push_back({std::move(call), std::nullopt});
}

void AxisGroup::Impl::EndCall(const Event* done) {
  MutexLock lock(&mutex_);
  if (done == nullptr) {
    --calls_;
    outstanding_.pop_back();
    return;
  }
  outstanding_.back().done = *done;
  DropCompleted();
}

void AxisGroup::Impl::DropCompleted() const {
  while (!outstanding_.empty() && outstanding_.front().done.has_value() &&
         outstanding_.front().done->Done()) {
    outstanding_.pop_front();
  }
}

protocol::GroupProgress AxisGroup::Impl::progress() const {
  MutexLock lock(&mutex_);
  DropCompleted();
  protocol::GroupProgress progress{.calls = calls_};
  progress.completed = calls_ - outstanding_.size();
  if (progress.waits()) progress.call = *outstanding_.front().call;
  return progress;
}

GroupMemory AxisGroup::Impl::memory() const {
  MutexLock lock(&mutex_);
  return memory_;
}

AxisGroup MakeAxisGroup(Communicator* communicator, AxisGroupOptions options,
                        GroupMemory memory) {
  options.size = communicator->size();
  options.index = communicator->rank();
  auto impl = std::make_shared<AxisGroup::Impl>(std::move(options));
  impl->Connect(
      std::shared_ptr<Communicator>(communicator, [](Communicator*) {}),
      std::move(memory));
  return AxisGroup(std::move(impl));
}

}  // namespace lockstep
