// The daemon's log: lines on standard error.
//
//   2026-03-01 12:00:00.123 info lockstepd listening on 127.0.0.1:7070
//   2026-03-01 12:00:01.456 info job digits: epoch 1 begins with 4 workers
//
// Threads: all methods from any thread.

#ifndef LOCKSTEP_SERVER_OBSERVE_LOG_H_
#define LOCKSTEP_SERVER_OBSERVE_LOG_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/observe/event_log.h"

namespace lockstep::observe {

class Log final : public EventLog {
 public:
  // `level`: debug, info, warning, error or off; any other is InvalidArgument.
  static absl::StatusOr<std::unique_ptr<Log>> Make(const std::string& level);
  ~Log() override;

  void Note(const JobName& job, const std::string& text) override;
  void Info(const std::string& text);
  void Warning(const std::string& text);
  void Error(const std::string& text);

 private:
  struct Lines;
  explicit Log(std::unique_ptr<Lines> lines);
  const std::unique_ptr<Lines> lines_;
};

}  // namespace lockstep::observe

#endif  // LOCKSTEP_SERVER_OBSERVE_LOG_H_
