// The whole coordinator in this process, served over gRPC on a free port.
//
// It uses the system clock and a journal in memory. With the store and the
// address of an earlier daemon, it is a restart of that daemon.

#ifndef LOCKSTEP_TESTS_SERVER_IN_PROCESS_DAEMON_H_
#define LOCKSTEP_TESTS_SERVER_IN_PROCESS_DAEMON_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/telemetry.h"
#include "proto/codec.h"
#include "proto/plan_chunks.h"
#include "server/access/address.h"
#include "server/core/coordinator.h"
#include "server/journal/memory_journal.h"
#include "server/observe/event_log.h"
#include "server/rpc/server.h"
#include "server/runtime/coordinator_loop.h"
#include "server/runtime/replay.h"

namespace lockstep {

class InProcessDaemon {
 public:
  explicit InProcessDaemon(rpc::ServerOptions options = {},
                           journal::MemoryStore* store = nullptr,
                           const rpc::Address& listen = {"127.0.0.1", 0},
                           const core::LimitValues& limits = {},
                           const runtime::HelloLimits& hello = {})
      : coordinator_({.limits = limits}) {
    auto journal = std::make_unique<journal::MemoryJournal>(
        store == nullptr ? &store_ : store);
    const runtime::JournalCodec codec = {
        &proto::RecordBytes, &proto::ParseRecord, &proto::SnapshotParts,
        &proto::ParseSnapshot};
    Check(runtime::Replay(journal.get(), codec, &coordinator_).ok(),
          "the journal replays");
    loop_ = std::make_unique<runtime::CoordinatorLoop>(
        runtime::CoordinatorLoop::Wiring{
            .coordinator = &coordinator_,
            .journal = std::move(journal),
            .codec = codec,
            .plans = {&proto::PlanBytes, &proto::PlanFromBytes},
            .clock = &clock_,
            .events = &silence_,
            .metrics = &metrics_,
            .on_journal_failure =
                [](const absl::Status&) { Fatal("a memory journal failed"); },
            .hello = hello});
    options.listen = listen;
    auto server = rpc::Server::Start(options, loop_.get());
    Check(server.ok(), "the port can be bound");
    server_ = *std::move(server);
  }

  std::string address() const { return rpc::ToString(server_->address()); }
  runtime::CoordinatorLoop& loop() { return *loop_; }
  rpc::Server& server() { return *server_; }
  RecordingMetrics& metrics() { return metrics_; }

 private:
  struct Silence final : observe::EventLog {
    void Note(const JobName&, const std::string&) override {}
  };

  core::Coordinator coordinator_;
  journal::MemoryStore store_;
  SystemClock clock_;
  Silence silence_;
  RecordingMetrics metrics_;
  std::unique_ptr<runtime::CoordinatorLoop> loop_;
  std::unique_ptr<rpc::Server> server_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SERVER_IN_PROCESS_DAEMON_H_
