#include "server/rpc/watch_reactor.h"

#include <memory>
#include <utility>

#include "proto/codec.h"
#include "server/rpc/status.h"

namespace lockstep::rpc {

WatchReactor* WatchReactor::Start(const ServiceContext* context, JobName job,
                                  std::string token) {
  auto* reactor = new WatchReactor(context);
  reactor->self_.reset(reactor);
  reactor->watch_ =
      context->loop->Watch(std::move(job), std::move(token), reactor->self_);
  return reactor;
}

void WatchReactor::Show(const JobView& view) {
  MutexLock lock(&mutex_);
  next_ = view;
  Advance();
}

void WatchReactor::End(const absl::Status& status) {
  MutexLock lock(&mutex_);
  if (!last_word_) last_word_ = status;
  Advance();
}

void WatchReactor::OnWriteDone(bool ok) {
  MutexLock lock(&mutex_);
  writing_ = false;
  if (!ok) last_word_ = absl::CancelledError("the stream broke");
  Advance();
}

void WatchReactor::OnCancel() {
  context_->loop->Unwatch(watch_);
  MutexLock lock(&mutex_);
  last_word_ = absl::CancelledError("the watch was cancelled");
  next_.reset();
  Advance();
}

void WatchReactor::Advance() {
  if (writing_ || finished_) return;
  if (next_) {
    writing_ = true;
    *out_.mutable_header() =
        proto::ToProto(proto::Header{.job = {next_->spec.name},
                                     .epoch = next_->epoch,
                                     .term = context_->term});
    *out_.mutable_view() = proto::ToProto(*next_);
    next_.reset();
    StartWrite(&out_);
  } else if (last_word_) {
    finished_ = true;
    Finish(ToGrpc(*last_word_));
  }
}

void WatchReactor::OnDone() {
  counted_.End();
  const std::shared_ptr<WatchReactor> last = std::move(self_);
}

}  // namespace lockstep::rpc
