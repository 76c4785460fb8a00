#include "lockstep/session.h"

#include <utility>

#include "client/session/session_impl.h"

namespace lockstep {

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Session::~Session() {
  impl_->Leave(/*clean=*/false, impl_->WhyDestroyed()).IgnoreError();
}

const JobSpec& Session::spec() const { return impl_->spec(); }
const std::string& Session::worker() const { return impl_->worker(); }
uint64_t Session::generation() const { return impl_->generation().value; }
uint64_t Session::epoch() const { return impl_->epoch().value; }
int Session::rank() const { return impl_->rank(); }
int Session::world_size() const {
  return static_cast<int>(impl_->members().size());
}

absl::Status Session::status() const { return impl_->status(); }

std::optional<int> Session::device() const {
  return impl_->transport().device();
}

absl::StatusOr<ArenaBuffer> Session::Allocate(size_t bytes) {
  return impl_->arena().Allocate(bytes);
}

absl::StatusOr<AxisGroup> Session::Group(
    const std::vector<std::string>& axes,
    const std::vector<std::vector<int>>& index_groups) {
  return impl_->Group({axes, index_groups});
}

absl::StatusOr<HaloExchange> Session::Halo(const HaloSpec& halo) {
  return impl_->Halo(halo);
}

absl::StatusOr<StateId> Session::RegisterState(const StateSpec& state,
                                               void* data) {
  return impl_->RegisterState(state, data);
}

absl::Status Session::SetStateMemory(StateId state, void* data) {
  return impl_->state().SetMemory(state, data);
}

absl::Status Session::SetStepScoped(StateId state) {
  return impl_->state().SetStepScoped(state);
}

LaneBytes Session::lane_bytes() const { return impl_->lane_bytes(); }

absl::Status Session::Connect() { return impl_->ConnectGroups(); }

Session::BusyScope Session::Busy(const std::string& reason,
                                 absl::Duration max) {
  return BusyScope(this, impl_->BeginBusy(reason, max));
}

Session::BusyScope::~BusyScope() {
  if (session_ != nullptr) session_->impl_->EndBusy(number_);
}

void Session::ReportFailure(const std::string& call,
                            const absl::Status& failure) {
  impl_->ReportFailure(impl_->step(), call, failure);
}

absl::StatusOr<Recovery> Session::Recover() { return impl_->Recover(); }

absl::Status Session::Leave() { return impl_->Leave(/*clean=*/true, ""); }

}  // namespace lockstep
