#include "server/core/registry.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "protocol/chunks.h"
#include "protocol/state.h"

namespace lockstep::core {

absl::Status Registry::Add(int rank, const protocol::RegisterChunk& chunk,
                           Limits* limits) {
  Rank& of = ranks_[rank];
  if (of.complete && of.repeats) return absl::OkStatus();
  if (of.complete) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "sent chunk %d of its parameters after the last one", chunk.index));
  }
  if (chunk.index != of.next) {
    return absl::InvalidArgumentError(
        absl::StrFormat("sent chunk %d of its parameters where chunk %d was "
                        "due",
                        chunk.index, of.next));
  }
  const int64_t count =
      static_cast<int64_t>(of.parameters.size() + chunk.parameters.size());
  if (count > parameters_max_) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "registers at least %d parameters; limits.parameters_max is %d", count,
        parameters_max_));
  }
  if (of.states.size() + chunk.states.size() > kStatesMax) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("registers more than %d tensors of state", kStatesMax));
  }
  const auto added = static_cast<int64_t>(chunk.parameters.size());
  const int64_t bytes =
      of.bytes + static_cast<int64_t>(protocol::RegistrationBytes(chunk));
  absl::Status admitted = limits->AdmitRegistration(parameters_ + added, bytes);
  if (!admitted.ok()) return admitted;
  parameters_ += added;
  of.bytes = bytes;
  of.states.insert(of.states.end(), chunk.states.begin(), chunk.states.end());
  of.parameters.insert(of.parameters.end(), chunk.parameters.begin(),
                       chunk.parameters.end());
  ++of.next;
  if (chunk.last) {
    of.transport = chunk.transport;
    of.groups = chunk.groups;
    of.halos = chunk.halos;
    of.complete = true;
    ++completed_;
  }
  return absl::OkStatus();
}

void Registry::Repeat(int rank) {
  Rank& of = ranks_[rank];
  if (of.complete) {
    of.repeats = true;
  } else {
    parameters_ -= static_cast<int64_t>(of.parameters.size());
    of = {};
  }
}

Registrations Registry::Take() {
  Registrations registrations;
  registrations.parameters.reserve(ranks_.size());
  registrations.transports.reserve(ranks_.size());
  registrations.groups.reserve(ranks_.size());
  registrations.halos.reserve(ranks_.size());
  registrations.states.reserve(ranks_.size());
  for (Rank& rank : ranks_) {
    registrations.parameters.push_back(std::exchange(rank.parameters, {}));
    registrations.transports.push_back(std::exchange(rank.transport, {}));
    registrations.groups.push_back(std::exchange(rank.groups, {}));
    registrations.halos.push_back(std::exchange(rank.halos, {}));
    registrations.states.push_back(std::exchange(rank.states, {}));
  }
  parameters_ = 0;
  return registrations;
}

}  // namespace lockstep::core
