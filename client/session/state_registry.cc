#include "client/session/state_registry.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "protocol/state.h"

namespace lockstep::session {
namespace {

// Tensors without memory that an error names.
constexpr size_t kNamedMax = 8;

}  // namespace

absl::StatusOr<StateId> StateRegistry::Register(const Mesh& mesh,
                                                const StateSpec& spec,
                                                void* data) {
  auto normalized = Normalized(spec, mesh);
  if (!normalized.ok()) return normalized.status();
  MutexLock lock(&mutex_);
  if (declared_) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "state \"%s\" is registered after GradientSync::Seal or "
        "Session::Connect: register all state before",
        spec.name));
  }
  if (entries_.size() == kStatesMax) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "a rank registers at most %d tensors of state", kStatesMax));
  }
  if (!index_.emplace(spec.name, entries_.size()).second) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "state \"%s\" is registered twice on this rank", spec.name));
  }
  entries_.push_back({.spec = *std::move(normalized), .data = data});
  return StateId{static_cast<int>(entries_.size()) - 1};
}

absl::Status StateRegistry::SetMemory(StateId id, void* data) {
  MutexLock lock(&mutex_);
  if (id.index < 0 || static_cast<size_t>(id.index) >= entries_.size()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "state %d is not registered: there are %d", id.index, entries_.size()));
  }
  entries_[static_cast<size_t>(id.index)].data = data;
  return absl::OkStatus();
}

absl::Status StateRegistry::SetStepScoped(StateId id) {
  MutexLock lock(&mutex_);
  if (id.index < 0 || static_cast<size_t>(id.index) >= entries_.size()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "state %d is not registered: there are %d", id.index, entries_.size()));
  }
  if (step_scoped_is_forbidden_) {
    return absl::FailedPreconditionError(
        "SetStepScoped after GradientSync::BeginReplays");
  }
  Entry& entry = entries_[static_cast<size_t>(id.index)];
  if (entry.spec.slice || !entry.spec.sliced_like.empty()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "state \"%s\" is a slice, which no step changes by itself: only whole "
        "blocks are step-scoped",
        entry.spec.name));
  }
  size_t bytes = SizeOf(entry.spec.dtype);
  for (const int64_t length : entry.spec.shape) {
    bytes *= static_cast<size_t>(length);
  }
  entry.is_step_scoped = true;
  entry.first.resize(bytes);
  if (entry.data != nullptr && bytes > 0) {
    std::memcpy(entry.first.data(), entry.data, bytes);
  }
  has_step_scoped_ = true;
  return absl::OkStatus();
}

absl::Status StateRegistry::ForbidStepScoped() {
  MutexLock lock(&mutex_);
  if (has_step_scoped_) {
    return absl::FailedPreconditionError(
        "state that changes within a step (SetStepScoped) is copied when a "
        "step ends, which the host does not see of a graph that the program "
        "launches");
  }
  step_scoped_is_forbidden_ = true;
  return absl::OkStatus();
}

void StateRegistry::KeepFirst() {
  if (!has_step_scoped_) return;
  MutexLock lock(&mutex_);
  kept_steps_ = {};
  for (Entry& entry : entries_) {
    if (!entry.is_step_scoped || entry.data == nullptr) continue;
    std::memcpy(entry.first.data(), entry.data, entry.first.size());
  }
}

void StateRegistry::KeepStepScoped(uint64_t next) {
  if (!has_step_scoped_) return;
  MutexLock lock(&mutex_);
  kept_steps_[next % kKept] = next;
  for (Entry& entry : entries_) {
    if (!entry.is_step_scoped || entry.data == nullptr) continue;
    const char* const data = static_cast<const char*>(entry.data);
    entry.kept[next % kKept].assign(data, data + entry.first.size());
  }
}

void StateRegistry::RestoreStepScoped(uint64_t next) {
  if (!has_step_scoped_) return;
  MutexLock lock(&mutex_);
  const bool was_kept = next > 0 && kept_steps_[next % kKept] == next;
  for (Entry& entry : entries_) {
    if (!entry.is_step_scoped || entry.data == nullptr) continue;
    const std::vector<char>& kept =
        was_kept ? entry.kept[next % kKept] : entry.first;
    std::memcpy(entry.data, kept.data(), kept.size());
  }
}

std::vector<StateSpec> StateRegistry::declarations() {
  MutexLock lock(&mutex_);
  declared_ = true;
  std::vector<StateSpec> declarations;
  declarations.reserve(entries_.size());
  for (const Entry& entry : entries_) declarations.push_back(entry.spec);
  return declarations;
}

bool StateRegistry::empty() const {
  MutexLock lock(&mutex_);
  return entries_.empty();
}

absl::Status StateRegistry::Connect(const plan::Plan& plan, int rank) {
  MutexLock lock(&mutex_);
  std::vector<bool> found(entries_.size(), false);
  for (size_t t = 0; t < plan.state.size(); ++t) {
    const auto entry = index_.find(plan.state[t].name);
    if (entry == index_.end()) continue;
    found[entry->second] = true;
    entries_[entry->second].tensor = t;
    entries_[entry->second].holds =
        !plan::BoxesOf(plan.state[t], plan.mesh, rank).empty();
  }
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (found[i]) continue;
    return absl::InternalError(
        absl::StrFormat("the plan has no state \"%s\"", entries_[i].spec.name));
  }
  tensors_ = std::make_shared<const std::vector<plan::StateTensor>>(plan.state);
  return absl::OkStatus();
}

absl::StatusOr<RegisteredState> StateRegistry::Agreed() const {
  MutexLock lock(&mutex_);
  if (tensors_ == nullptr) {
    return absl::FailedPreconditionError(
        "state is agreed on by GradientSync::Seal or Session::Connect, which "
        "was not called or has failed");
  }
  RegisteredState agreed{.tensors = tensors_};
  agreed.memory.resize(tensors_->size(), nullptr);
  for (const Entry& entry : entries_) {
    if (entry.holds) agreed.memory[entry.tensor] = entry.data;
  }
  return agreed;
}

absl::StatusOr<RegisteredState> StateRegistry::Registered() const {
  auto agreed = Agreed();
  if (!agreed.ok()) return agreed;
  MutexLock lock(&mutex_);
  std::string without;
  size_t count = 0;
  for (const Entry& entry : entries_) {
    if (!entry.holds || agreed->memory[entry.tensor] != nullptr) continue;
    if (++count > kNamedMax) continue;
    absl::StrAppend(&without, count > 1 ? ", \"" : "\"", entry.spec.name, "\"");
  }
  if (count == 0) return agreed;
  if (count > kNamedMax) {
    absl::StrAppend(&without, " and ", count - kNamedMax, " more");
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "state without memory (RegisterState, SetStateMemory): ", without));
}

}  // namespace lockstep::session
