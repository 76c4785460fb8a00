// Members' messages about a plan that a restarted coordinator has not compiled
// again yet.
//
// Bounded, since these messages are not validated yet: a correct rank sends its
// acknowledgement, its handles, its Held, and at most two passes.
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_PRE_REPLAY_BUFFER_H_
#define LOCKSTEP_SERVER_CORE_PRE_REPLAY_BUFFER_H_

#include <cstddef>
#include <variant>
#include <vector>

#include "plan/compile.h"
#include "protocol/protocol.h"

namespace lockstep::core {

class PreReplayBuffer {
 public:
  // Counts messages and the parameters and handles in them. Each parameter
  // occurs at most 6 times: announced and submitted in two passes, and decided
  // in two.
  static constexpr size_t kMost = 8 * plan::kNegotiatedParametersMax;

  // False, and the message is dropped, if no correct rank sends as much.
  bool Add(const protocol::ToCoordinatorBody& body) {
    size_ += 1 + std::visit([](const auto& b) { return Count(b); }, body);
    if (size_ > kMost) return false;
    all_.push_back(body);
    return true;
  }

  const std::vector<protocol::ToCoordinatorBody>& all() const { return all_; }

 private:
  static size_t Count(const protocol::Connected& word) {
    return word.groups.size();
  }
  static size_t Count(const protocol::PublishHandles& word) {
    return word.handles.size();
  }
  static size_t Count(const protocol::Held& word) {
    return word.decisions.size();
  }
  static size_t Count(const protocol::Announce& word) {
    return word.parameters.size();
  }
  static size_t Count(const protocol::Submitted& word) {
    return word.parameters.size();
  }
  template <typename Word>
  static size_t Count(const Word&) {
    return 0;
  }

  size_t size_ = 0;
  std::vector<protocol::ToCoordinatorBody> all_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_PRE_REPLAY_BUFFER_H_
