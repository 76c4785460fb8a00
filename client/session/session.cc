#include "lockstep/session.h"

#include <utility>

#include "client/session/internals.h"

namespace lockstep {

Session::Session(std::unique_ptr<Internals> internals)
    : internals_(std::move(internals)) {}

Session::~Session() {
  internals_->Leave(/*clean=*/false, internals_->WhyDestroyed()).IgnoreError();
}

const JobSpec& Session::spec() const { return internals_->spec(); }
const std::string& Session::worker() const { return internals_->worker(); }
uint64_t Session::generation() const { return internals_->generation().value; }
uint64_t Session::epoch() const { return internals_->epoch().value; }
int Session::rank() const { return internals_->rank(); }
int Session::world_size() const {
  return static_cast<int>(internals_->members().size());
}

absl::Status Session::status() const { return internals_->status(); }

absl::StatusOr<ArenaBuffer> Session::Allocate(size_t bytes) {
  return internals_->arena().Allocate(bytes);
}

Session::BusyScope Session::Busy(const std::string& reason,
                                 absl::Duration max) {
  return BusyScope(this, internals_->BeginBusy(reason, max));
}

Session::BusyScope::~BusyScope() {
  if (session_ != nullptr) session_->internals_->EndBusy(number_);
}

void Session::ReportFailure(const std::string& call,
                            const absl::Status& failure) {
  internals_->ReportFailure(internals_->step(), call, failure);
}

absl::Status Session::Leave() { return internals_->Leave(/*clean=*/true, ""); }

}  // namespace lockstep
