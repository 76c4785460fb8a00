#include "server/rpc/live_tokens.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/thread.h"

namespace lockstep::rpc {

LiveTokens::LiveTokens(Options options)
    : options_(std::move(options)),
      gate_(std::make_shared<const TokenGate>(options_.gate)) {
  if (options_.files.empty()) return;
  // A coordinator may have waited long since its tokens were read.
  Take(ReadTokens(options_.files));
  thread_ = StartThread("ls-tokens", [this] { Run(); });
}

LiveTokens::~LiveTokens() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(&mutex_);
    ended_ = true;
    ends_.NotifyAll();
  }
  thread_.join();
}

std::shared_ptr<const TokenGate> LiveTokens::gate() const {
  MutexLock lock(&mutex_);
  return gate_;
}

void LiveTokens::Run() {
  while (Pause()) Take(ReadTokens(options_.files));
}

bool LiveTokens::Pause() {
  MutexLock lock(&mutex_);
  if (!ended_) ends_.WaitFor(&mutex_, options_.interval);
  return !ended_;
}

void LiveTokens::Take(absl::StatusOr<Tokens> read) {
  const std::string trouble(read.status().message());
  if (trouble != trouble_) {
    trouble_ = trouble;
    if (!read.ok()) {
      Log(absl::StrCat(
          "the files of tokens cannot be used, and the tokens that were read "
          "before stay accepted: ",
          trouble));
    }
  }
  if (!read.ok() || *read == gate()->tokens()) return;
  Log(absl::StrCat("the files of tokens have changed: ", read->operators.size(),
                   " of operators and ", read->workers.size(),
                   " of workers are accepted now"));
  auto gate = std::make_shared<const TokenGate>(*std::move(read));
  MutexLock lock(&mutex_);
  gate_ = std::move(gate);
}

void LiveTokens::Log(const std::string& line) const {
  if (options_.log) options_.log(line);
}

}  // namespace lockstep::rpc
