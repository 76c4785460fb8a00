// The simulated network between workers and the coordinator: streams that
// delay, are cut, and stand still in one direction or both.
//
// As in TCP, nothing within a stream is lost or reordered. A cut loses the data
// in flight, and both ends notice it at different times, so the Hello of a new
// stream may arrive before the end of the old one. Or the worker's end breaks
// alone: what it has sent arrives late, also after what it says again on the
// next stream, so the coordinator receives it twice and in another order. A
// direction that is blocked delivers late, or, after the keepalive's time, the
// stream is cut.

#ifndef LOCKSTEP_TESTS_SIM_CONTROL_NETWORK_H_
#define LOCKSTEP_TESTS_SIM_CONTROL_NETWORK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/session/event.h"
#include "protocol/protocol.h"
#include "tests/sim/event_queue.h"

namespace lockstep::sim {

// The worker's end of its streams: one session of one process.
class StreamUser {
 public:
  virtual ~StreamUser() = default;
  // Runs `what` in the process, now or once it is awake; never if it died.
  virtual void RunAwake(std::function<void()> what) = 0;
  virtual void Receive(const session::Event& event) = 0;
  virtual const std::string& host() const = 0;
};

// The coordinator's end of all streams.
class StreamServer {
 public:
  virtual ~StreamServer() = default;
  virtual bool Accepts() const = 0;
  virtual void Receive(uint64_t stream, protocol::ToCoordinator message) = 0;
  virtual void Closed(uint64_t stream) = 0;
};

class ControlNetwork {
 public:
  ControlNetwork(EventQueue* events, std::mt19937_64* random,
                 StreamServer* server, absl::Duration latency_max)
      : events_(*events),
        random_(*random),
        server_(*server),
        latency_max_(latency_max) {}

  // --- The worker's end. `number` is the session's own. ---
  uint64_t Open(std::shared_ptr<StreamUser> user, uint64_t number);
  void ToCoordinator(uint64_t stream, protocol::ToCoordinator message);
  void CloseAtWorker(uint64_t stream);

  // --- The coordinator's end ---
  void ToWorker(uint64_t stream, protocol::ToWorker message);
  void CloseAtCoordinator(uint64_t stream, absl::Status status);
  // The coordinator's process died.
  void CoordinatorDied();

  // --- Faults ---
  void Cut(uint64_t stream);
  // Only the worker's end breaks; what is in flight, and the end, reach the
  // coordinator by then.
  void BreakAtWorker(uint64_t stream, absl::Time then);
  // Nothing leaves or reaches the host before `until`; zero: not blocked.
  void Block(const std::string& host, absl::Time to_coordinator,
             absl::Time to_worker);
  // The process of the host died: its streams end, and the coordinator is told
  // unless the whole machine is gone.
  void WorkerDied(const std::string& host, bool machine_is_gone);

 private:
  struct Stream {
    std::weak_ptr<StreamUser> user;
    std::string host;
    uint64_t number = 0;     // in the session
    bool worker_end = true;  // open from the worker's view
    bool coordinator_end = false;
    bool cut = false;  // nothing arrives after it
    // Nothing arrives at the coordinator earlier: it is in flight for long.
    absl::Time late = absl::InfinitePast();
    absl::Time to_coordinator;  // when its last message arrives
    absl::Time to_worker;
  };
  struct Blocked {
    absl::Time to_coordinator = absl::InfinitePast();
    absl::Time to_worker = absl::InfinitePast();
  };

  absl::Duration Latency();
  absl::Time ArrivalAtCoordinator(Stream& stream);
  absl::Time ArrivalAtWorker(Stream& stream);
  void Deliver(uint64_t stream, protocol::ToCoordinator message);
  void EndAtWorker(uint64_t stream, absl::Status status);
  void EndAtCoordinator(uint64_t stream);

  EventQueue& events_;
  std::mt19937_64& random_;
  StreamServer& server_;
  const absl::Duration latency_max_;
  std::map<uint64_t, Stream> streams_;
  std::map<std::string, Blocked> blocked_;
  uint64_t last_stream_ = 0;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_CONTROL_NETWORK_H_
