// The daemon's log: lines on standard error.
//
//   2026-03-01 12:00:00.123 info lockstepd listening on 127.0.0.1:7070
//   2026-03-01 12:00:01.456 info job digits: epoch 1 begins with 4 workers
//
// systemd's journal has the time of each line itself, and takes the priority of
// a line from a prefix (sd-daemon(3)):
//
//   <6>info job digits: epoch 1 begins with 4 workers
//
// Threads: all methods from any thread.

#ifndef LOCKSTEP_SERVER_OBSERVE_LOG_H_
#define LOCKSTEP_SERVER_OBSERVE_LOG_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/observe/event_log.h"

namespace lockstep::observe {

enum class LineHead { kTime, kPriority };

// The head of lines that are written to `file`: kPriority if it is the stream
// to systemd's journal that `journal_stream`, the value of JOURNAL_STREAM,
// names by device and inode.
LineHead LineHeadFor(int file, const std::string& journal_stream);

// `text` as one or more lines of priority error, ending with a newline, for
// the last words of a daemon.
std::string ErrorLines(const std::string& text, LineHead head);

class Log final : public EventLog {
 public:
  // `level`: debug, info, warning, error or off; any other is InvalidArgument.
  static absl::StatusOr<std::unique_ptr<Log>> Make(
      const std::string& level, LineHead head = LineHead::kTime);
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
