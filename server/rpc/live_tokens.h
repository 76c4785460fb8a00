// The tokens as their files have them now.
//
//   the files ──thread ls-tokens, every 2 s──▶ TokenGate ──▶ the next call
//
// So a token is replaced without a restart: the new one is added as the first
// line, its users are given it, and the old line is removed. Calls and streams
// that were admitted go on.
//
// Files that cannot be used (a mode that lets others read, an empty file, no
// file) change nothing: the tokens read before stay accepted, and the log says
// so.
//
// Threads: gate() from any thread. The owner starts and destroys it.

#ifndef LOCKSTEP_SERVER_RPC_LIVE_TOKENS_H_
#define LOCKSTEP_SERVER_RPC_LIVE_TOKENS_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/rpc/token_gate.h"

namespace lockstep::rpc {

class LiveTokens {
 public:
  struct Options {
    TokenGate gate;    // the tokens at first
    TokenFiles files;  // empty: they never change, and there is no thread
    absl::Duration interval = absl::Seconds(2);
    // On ls-tokens, and in the constructor; may be empty.
    std::function<void(const std::string&)> log;
  };
  explicit LiveTokens(Options options);
  ~LiveTokens();

  std::shared_ptr<const TokenGate> gate() const;

 private:
  void Run();
  // False at the end.
  bool Pause();
  void Take(absl::StatusOr<Tokens> read);
  void Log(const std::string& line) const;

  const Options options_;
  // Why the files could not be used; of ls-tokens, once that runs.
  std::string trouble_;

  mutable Mutex mutex_;
  CondVar ends_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<const TokenGate> gate_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_RPC_LIVE_TOKENS_H_
