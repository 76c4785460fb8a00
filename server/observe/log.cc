#include "server/observe/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/text/utf8.h"

namespace lockstep::observe {
namespace {

// syslog's: 7 is debug.
constexpr char kErrorPrefix[] = "<3>";
int PriorityOf(spdlog::level::level_enum level) {
  if (level >= spdlog::level::err) return 3;
  if (level == spdlog::level::warn) return 4;
  return level == spdlog::level::info ? 6 : 7;
}

class PriorityFlag final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& line, const std::tm&,
              spdlog::memory_buf_t& to) override {
    const std::string priority = absl::StrCat(PriorityOf(line.level));
    to.append(priority.data(), priority.data() + priority.size());
  }
  std::unique_ptr<spdlog::custom_flag_formatter> clone() const override {
    return std::make_unique<PriorityFlag>();
  }
};

void SetHead(LineHead head, spdlog::logger* logger) {
  if (head == LineHead::kTime) {
    return logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
  }
  auto lines = std::make_unique<spdlog::pattern_formatter>();
  lines->add_flag<PriorityFlag>('*').set_pattern("<%*>%l %v");
  logger->set_formatter(std::move(lines));
}

}  // namespace

LineHead LineHeadFor(int file, const std::string& journal_stream) {
  struct stat found {};
  if (fstat(file, &found) != 0) return LineHead::kTime;
  const std::string stream = absl::StrCat(found.st_dev, ":", found.st_ino);
  return stream == journal_stream ? LineHead::kPriority : LineHead::kTime;
}

std::string ErrorLines(const std::string& text, LineHead head) {
  if (head == LineHead::kTime) return absl::StrCat(text, "\n");
  return absl::StrCat(
      kErrorPrefix,
      absl::StrReplaceAll(text, {{"\n", absl::StrCat("\n", kErrorPrefix)}}),
      "\n");
}

struct Log::Lines {
  spdlog::logger logger;
};

absl::StatusOr<std::unique_ptr<Log>> Log::Make(const std::string& level,
                                               LineHead head) {
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
  SetHead(head, &lines->logger);
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
