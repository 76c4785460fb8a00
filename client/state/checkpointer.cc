#include "lockstep/checkpointer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "client/session/session_impl.h"
#include "client/state/checkpoint_job.h"
#include "client/state/saver.h"
#include "client/transport/device_context.h"
#include "lockstep/session.h"

namespace lockstep {
namespace {

absl::Status CheckOptions(const CheckpointerOptions& options) {
  if (options.directory.empty()) {
    return absl::InvalidArgumentError(
        "CheckpointerOptions::directory is empty");
  }
  if (options.keep_last < 1 || options.keep_every < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("checkpoints are kept with keep_last ", options.keep_last,
                     " and keep_every ", options.keep_every,
                     "; these must be at least 1 and 0"));
  }
  return absl::OkStatus();
}

// This rank's part of the state, if the options are valid and it has a device.
absl::StatusOr<state::CheckpointJob> JobOf(Session::Impl& session,
                                           const CheckpointerOptions& options,
                                           absl::Status valid) {
  valid.Update(CheckOptions(options));
  if (!valid.ok()) return valid;
  const auto registered = session.state().Registered();
  if (!registered.ok()) return registered.status();
  if (registered->tensors->empty()) {
    return absl::FailedPreconditionError(
        "no state is registered: Session::RegisterState");
  }
  return state::WithPlannedState(
      {.name = session.spec().name,
       .epoch = static_cast<int64_t>(session.epoch().value),
       .mesh = session.spec().mesh,
       .rank = session.rank()},
      *registered->tensors, registered->memory);
}

}  // namespace

// What the saver needs, in the order of its construction.
class AsyncCheckpointer::Impl {
 public:
  static absl::StatusOr<std::unique_ptr<Impl>> Open(
      Session::Impl& session, const CheckpointerOptions& options) {
    // A rank that is not connected takes part in nothing.
    const auto registered = session.state().Registered();
    if (absl::IsFailedPrecondition(registered.status())) {
      return registered.status();
    }
    if (!session.TakeCheckpoints()) {
      return absl::FailedPreconditionError(
          "this session has an AsyncCheckpointer already, or had one: join "
          "again for another");
    }
    auto impl = OpenTaken(session, options);
    // All ranks have failed, or the session is over.
    if (!impl.ok()) session.ReturnCheckpoints();
    return impl;
  }

  state::Saver& saver() { return *saver_; }
  Session::Impl& session() { return *session_; }

 private:
  static absl::StatusOr<std::unique_ptr<Impl>> OpenTaken(
      Session::Impl& session, const CheckpointerOptions& options) {
    auto device = session.transport().MakeDeviceContext();
    auto impl = std::make_unique<Impl>();
    if (device.ok()) impl->device_ = *std::move(device);
    // Open gives the error to all ranks, which would wait for this one.
    auto job = JobOf(session, options, device.status());
    const absl::Status ready = job.status();
    auto saver = state::Saver::Open(
        job.ok() ? *std::move(job)
                 : state::CheckpointJob{.rank = session.rank()},
        {&impl->files_, &session.checkpoints(), impl->device_.get(),
         &session.checkpoint_nonce()},
        {.directory = options.directory,
         .retention = {.keep_last = options.keep_last,
                       .keep_every = options.keep_every}},
        ready);
    if (!saver.ok()) return saver.status();
    impl->saver_ = *std::move(saver);
    // A save in progress needs this rank.
    session.SetBeforeLeave([saver = std::weak_ptr<state::Saver>(impl->saver_)] {
      if (const auto alive = saver.lock()) alive->AwaitOutcomes();
    });
    impl->session_ = &session;
    return impl;
  }

  PosixFileSystem files_;
  std::shared_ptr<transport::DeviceContext> device_;
  std::shared_ptr<state::Saver> saver_;
  Session::Impl* session_ = nullptr;
};

absl::StatusOr<std::unique_ptr<AsyncCheckpointer>> AsyncCheckpointer::Create(
    Session& session, const CheckpointerOptions& options) {
  auto impl = Impl::Open(session.impl(), options);
  if (!impl.ok()) return impl.status();
  return std::unique_ptr<AsyncCheckpointer>(
      new AsyncCheckpointer(*std::move(impl)));
}

AsyncCheckpointer::AsyncCheckpointer(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}
AsyncCheckpointer::~AsyncCheckpointer() = default;

absl::Status AsyncCheckpointer::Save(const TrainingState& training) {
  return impl_->saver().Save(training, /*stream=*/nullptr);
}

absl::Status AsyncCheckpointer::Save(const TrainingState& training,
                                     Stream& stream) {
  return impl_->saver().Save(training, &stream);
}

absl::Status AsyncCheckpointer::Wait() { return impl_->saver().Wait(); }

std::optional<CheckpointName> AsyncCheckpointer::newest() const {
  return impl_->saver().newest();
}

absl::StatusOr<TrainingState> AsyncCheckpointer::Load(
    const LoadCheckpointOptions& options) {
  auto training = impl_->saver().Load(options);
  if (training.ok()) impl_->session().state().NoteLoaded();
  return training;
}

SaveProgress AsyncCheckpointer::progress() const {
  return impl_->saver().progress();
}

}  // namespace lockstep
