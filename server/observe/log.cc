#include "server/observe/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/text/utf8.h"

namespace lockstep::observe {

struct Log::Lines {
  spdlog::logger logger;
};

absl::StatusOr<std::unique_ptr<Log>> Log::Make(const std::string& level) {
  static const auto& levels =
      *new std::map<std::string, spdlog::level::level_enum>{
          {"debug", spdlog::level::debug},
          {"info", spdlog::level::info},
          {"warning", spdlog::level::warn},
          {"error", spdlog::level::err},
          {"off", spdlog::level::off}};
  const auto found = levels.find(level);
  if (found == levels.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("log level \"", level,
                     "\" is none of debug, info, warning, error, off"));
  }
  auto lines = std::make_unique<Lines>(
      Lines{{"lockstep", std::make_shared<spdlog::sinks::stderr_sink_mt>()}});
  lines->logger.set_level(found->second);
  lines->logger.set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
  lines->logger.flush_on(spdlog::level::debug);
  return absl::WrapUnique(new Log(std::move(lines)));
}

Log::Log(std::unique_ptr<Lines> lines) : lines_(std::move(lines)) {}
Log::~Log() = default;

void Log::Note(const JobName& job, const std::string& text) {
  if (job.value.empty()) return Info(text);
  lines_->logger.info("job {}: {}", Printable(job.value), Printable(text));
}

void Log::Info(const std::string& text) {
  lines_->logger.info("{}", Printable(text));
}
void Log::Warning(const std::string& text) {
  lines_->logger.warn("{}", Printable(text));
}
void Log::Error(const std::string& text) {
  lines_->logger.error("{}", Printable(text));
}

}  // namespace lockstep::observe
