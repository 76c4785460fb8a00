#include "server/limit_flags.h"

#include <limits>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/text/units.h"

namespace lockstep {
namespace {

constexpr int64_t kCountMax = 1'000'000'000;
constexpr int64_t kClientBytesMax = int64_t{1} << 40;
constexpr int64_t kMessageBytesMin = int64_t{1} << 20;  // protocol/chunks.h
constexpr int64_t kMessageBytesMax = std::numeric_limits<int>::max();

// Reads a size between these bounds.
auto SizeInto(int64_t* value, int64_t least, int64_t most) {
  return [=](const std::string& text) -> std::string {
    const std::optional<int64_t> size = ParseSize(text);
    if (!size || *size < least || *size > most) {
      return absl::StrCat("is ", text, ": a size from ", SizeText(least),
                          " to ", SizeText(most), ", such as 4MiB");
    }
    *value = *size;
    return "";
  };
}

}  // namespace

void LimitFlags::AddTo(const CommandLine& line) {
  const auto count = [&](const char* name, int64_t* value, const char* help) {
    line.Add(name, value, help).Between(1, kCountMax).ShowDefault();
  };
  count("--jobs_max", &core_.jobs, "jobs that are not over");
  count("--workers_max", &core_.workers_per_job,
        "workers of a job, with its spares");
  count("--parameters_max", &core_.parameters_per_job,
        "parameters that all ranks of a job register together");
  count("--joins_per_second", &core_.joins_per_second,
        "new workers of a job, once as many have joined as it has places");
  line.Add("--client_bytes_max",
           SizeInto(&rpc_.unread_bytes, 1, kClientBytesMax),
           "memory for one worker's registration, and for the messages that "
           "it does not read")
      .ShowDefault(SizeText(rpc_.unread_bytes));
  line.Add("--message_bytes_max",
           SizeInto(&rpc_.message_bytes, kMessageBytesMin, kMessageBytesMax),
           "size of a received message")
      .ShowDefault(SizeText(rpc_.message_bytes));
  const auto bytes = [&](const char* name, int64_t* value, const char* help) {
    line.Add(name, SizeInto(value, kMessageBytesMin, kClientBytesMax), help)
        .ShowDefault(SizeText(*value));
  };
  bytes("--connection_bytes_max", &rpc_.connection_bytes,
        "what one connection sends before it is a whole message");
  bytes("--incoming_bytes_max", &rpc_.incoming_bytes,
        "the same of all connections together");
  count("--connections_max", &rpc_.connections,
        "open connections; fewer if open files are (ulimit -n)");
  count("--hello_streams_max", &hello_.streams,
        "workers' streams on which no Hello was received yet");
  line.Add(
          "--hello_timeout",
          [this](const std::string& text) -> std::string {
            const auto timeout = ParseDuration(text);
            if (!timeout || *timeout < absl::Seconds(1) ||
                *timeout > absl::Hours(1)) {
              return absl::StrCat("is ", text,
                                  ": a time from 1s to 1h, such as 10s");
            }
            hello_.timeout = *timeout;
            return "";
          },
          "how long a worker's stream may take until its Hello")
      .ShowDefault(DurationText(hello_.timeout));
}

core::LimitValues LimitFlags::core() const {
  core::LimitValues values = core_;
  values.registration_bytes = rpc_.unread_bytes;
  return values;
}

runtime::HelloLimits LimitFlags::hello() const { return hello_; }

rpc::RpcLimitValues LimitFlags::rpc() const { return rpc_; }

}  // namespace lockstep
