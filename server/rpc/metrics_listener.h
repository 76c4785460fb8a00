// A listener that serves one page, GET /metrics, over plain HTTP/1.
//
//   accepted ──▶ reads a head ──▶ writes the answer ──▶ waits for the peer's
//   end
//      └──────────────────────── kConnectionTime ───────────────────────┘
//
// Nobody holds it for long, nor much of it: a connection ends after
// kConnectionTime, whatever it does, sends at most kHeadBytesMax that are kept,
// and is the oldest one when the next one is one too many. Libraries' servers
// have a thread for each connection, and fewer bounds:
// docs/decisions/0031-metrics-over-http.md.
//
// Threads: its own, `ls-metrics` and `ls-accept`. Start, Shutdown and the
// destructor from one thread.

#ifndef LOCKSTEP_SERVER_RPC_METRICS_LISTENER_H_
#define LOCKSTEP_SERVER_RPC_METRICS_LISTENER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/access/address.h"

namespace lockstep::rpc {

class MetricsListener {
 public:
  static constexpr size_t kConnectionsMax = 16;
  static constexpr absl::Duration kConnectionTime = absl::Seconds(10);

  // Makes the page, on `ls-metrics`. An error is answered with 503.
  using Page =
      std::function<absl::StatusOr<std::shared_ptr<const std::string>>()>;

  // Serves at once. Errors: those of Listener::Bind. `on_warning` is as in
  // Listener::Callbacks. `connection_time` is for tests.
  static absl::StatusOr<std::unique_ptr<MetricsListener>> Start(
      const Address& address, Page page,
      std::function<void(const std::string&)> on_warning,
      absl::Duration connection_time = kConnectionTime);
  ~MetricsListener();

  const Address& address() const;  // with the bound port
  // Accepts nothing new; answers that are being written get `timeout`.
  void Shutdown(absl::Duration timeout);

 private:
  struct Parts;
  explicit MetricsListener(std::unique_ptr<Parts> parts);
  const std::unique_ptr<Parts> parts_;
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_RPC_METRICS_LISTENER_H_
