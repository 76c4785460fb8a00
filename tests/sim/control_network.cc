#include "tests/sim/control_network.h"

#include <algorithm>
#include <utility>

namespace lockstep::sim {
namespace {

// A stream that delivers nothing for so long is closed at both ends.
constexpr absl::Duration kKeepalive = absl::Milliseconds(1500);

}  // namespace

absl::Duration ControlNetwork::Latency() {
  if (latency_max_ == absl::ZeroDuration()) return absl::Milliseconds(1);
  return latency_max_ * std::uniform_real_distribution<double>(0, 1)(random_);
}

absl::Time ControlNetwork::ArrivalAtCoordinator(Stream& stream) {
  stream.to_coordinator =
      std::max({stream.to_coordinator, events_.now() + Latency(),
                blocked_[stream.host].to_coordinator});
  return stream.to_coordinator;
}

absl::Time ControlNetwork::ArrivalAtWorker(Stream& stream) {
  stream.to_worker = std::max({stream.to_worker, events_.now() + Latency(),
                               blocked_[stream.host].to_worker});
  return stream.to_worker;
}

uint64_t ControlNetwork::Open(std::shared_ptr<StreamUser> user,
                              uint64_t number) {
  const uint64_t id = ++last_stream_;
  Stream& stream = streams_[id];
  stream = {.user = user, .host = user->host(), .number = number};
  events_.At(ArrivalAtCoordinator(stream), [this, id] {
    Stream& stream = streams_.at(id);
    if (!stream.worker_end || stream.cut) return;
    if (!server_.Accepts()) {
      return EndAtWorker(id, absl::UnavailableError("connection refused"));
    }
    stream.coordinator_end = true;
    events_.At(ArrivalAtWorker(stream), [this, id] {
      const Stream& stream = streams_.at(id);
      const auto user = stream.user.lock();
      if (stream.cut || !stream.worker_end || user == nullptr) return;
      user->RunAwake([user, number = stream.number] {
        user->Receive(session::StreamOpened{number});
      });
    });
  });
  return id;
}

void ControlNetwork::ToCoordinator(uint64_t id,
                                   protocol::ToCoordinator message) {
  Stream& stream = streams_.at(id);
  events_.At(ArrivalAtCoordinator(stream),
             [this, id, message = std::move(message)]() mutable {
               Deliver(id, std::move(message));
             });
}

void ControlNetwork::Deliver(uint64_t id, protocol::ToCoordinator message) {
  const Stream& stream = streams_.at(id);
  if (stream.cut || !stream.coordinator_end) return;
  if (events_.now() < stream.late) {
    return events_.At(stream.late,
                      [this, id, message = std::move(message)]() mutable {
                        Deliver(id, std::move(message));
                      });
  }
  server_.Receive(id, std::move(message));
}

void ControlNetwork::ToWorker(uint64_t id, protocol::ToWorker message) {
  Stream& stream = streams_.at(id);
  if (!stream.coordinator_end) return;
  events_.At(ArrivalAtWorker(stream), [this, id,
                                       message = std::move(message)]() mutable {
    const Stream& stream = streams_.at(id);
    const auto user = stream.user.lock();
    if (stream.cut || !stream.worker_end || user == nullptr) return;
    user->RunAwake(
        [user, number = stream.number, message = std::move(message)]() mutable {
          user->Receive(session::StreamMessage{number, std::move(message)});
        });
  });
}

void ControlNetwork::CloseAtWorker(uint64_t id) {
  streams_.at(id).worker_end = false;
  EndAtCoordinator(id);
}

void ControlNetwork::CloseAtCoordinator(uint64_t id, absl::Status status) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  if (!std::exchange(found->second.coordinator_end, false)) return;
  EndAtWorker(id, std::move(status));
}

// The end arrives after all messages sent before it.
void ControlNetwork::EndAtWorker(uint64_t id, absl::Status status) {
  const absl::Time when = ArrivalAtWorker(streams_.at(id));
  events_.At(when, [this, id, status = std::move(status)] {
    Stream& stream = streams_.at(id);
    if (!std::exchange(stream.worker_end, false)) return;
    const auto user = stream.user.lock();
    if (user == nullptr) return;
    user->RunAwake([user, number = stream.number, status] {
      user->Receive(session::StreamClosed{number, status});
    });
  });
}

void ControlNetwork::EndAtCoordinator(uint64_t id) {
  const absl::Time when = ArrivalAtCoordinator(streams_.at(id)) + Latency();
  events_.At(when, [this, id] {
    if (!std::exchange(streams_.at(id).coordinator_end, false)) return;
    server_.Closed(id);
  });
}

void ControlNetwork::CoordinatorDied() {
  for (auto& [id, stream] : streams_) {
    if (!std::exchange(stream.coordinator_end, false)) continue;
    stream.cut = true;
    EndAtWorker(id, absl::UnavailableError("the coordinator crashed"));
  }
}

void ControlNetwork::Cut(uint64_t id) {
  Stream& stream = streams_.at(id);
  stream.cut = true;
  EndAtWorker(id, absl::UnavailableError("cut"));
  EndAtCoordinator(id);
}

void ControlNetwork::BreakAtWorker(uint64_t id, absl::Time then) {
  Stream& stream = streams_.at(id);
  if (!stream.worker_end || stream.cut) return;
  stream.late = then;
  stream.to_coordinator = std::max(stream.to_coordinator, then);
  EndAtWorker(id, absl::UnavailableError("broken"));
  EndAtCoordinator(id);
}

void ControlNetwork::Block(const std::string& host, absl::Time to_coordinator,
                           absl::Time to_worker) {
  blocked_[host] = {to_coordinator, to_worker};
  const absl::Time until = std::max(to_coordinator, to_worker);
  if (until - events_.now() < kKeepalive) return;
  for (auto& [id, stream] : streams_) {
    const bool is_open = stream.worker_end || stream.coordinator_end;
    if (stream.host != host || !is_open || stream.cut) continue;
    // Each end notices by itself, whether or not it can say so to the other.
    events_.After(kKeepalive + Latency(), [this, id] {
      Stream& stream = streams_.at(id);
      stream.cut = true;
      stream.to_worker = stream.to_coordinator = events_.now();
      if (std::exchange(stream.coordinator_end, false)) server_.Closed(id);
      if (!std::exchange(stream.worker_end, false)) return;
      const auto user = stream.user.lock();
      if (user == nullptr) return;
      user->RunAwake([user, number = stream.number] {
        user->Receive(session::StreamClosed{
            number, absl::UnavailableError("keepalive failed")});
      });
    });
  }
}

void ControlNetwork::WorkerDied(const std::string& host, bool machine_is_gone) {
  for (auto& [id, stream] : streams_) {
    if (stream.host != host || !stream.worker_end) continue;
    stream.worker_end = false;
    if (stream.coordinator_end && !machine_is_gone) EndAtCoordinator(id);
  }
}

}  // namespace lockstep::sim
