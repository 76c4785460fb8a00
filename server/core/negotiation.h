// Negotiated mode: which gradients are reduced in a pass, and in which order.
//
//   pass 7     a       b       c      a rank that announced submits a gradient;
//   rank 0   given   given     -      the other ranks of the group add zeros
//   rank 1   given     -       -
//   rank 2     -       -       -      announced nothing: waits for no rank
//              │       │
//   sequence   ▼       ▼       ▼
//   ... 40: a, 2   41: b, 1   42: pass 7 is closed   43: ... of pass 8
//
// A parameter is decided once all ranks of its group have announced for the
// pass, at least one of them announced it, and every rank that announced it has
// submitted it. When all ranks have announced and every announced parameter is
// decided, an entry of the same sequence closes the pass: a rank that receives
// it has received every decision of the pass, and may enter its verdict.
// Messages are accepted for the open pass only. A rank that announces the next
// pass has received the close of this one, and thereby acknowledges every
// decision before it.
//
// The sequence is not journaled. Each rank holds a prefix of it. A restarted
// coordinator waits for Held from every rank and adopts the longest prefix,
// which is safe because every decision was made for all ranks. Decisions of the
// pass before the open one are kept, since a slow rank may lack them; every
// rank has received the earlier ones, for it has announced the pass after them.
//
// A value: messages in, decisions out. Tests copy and compare it and try every
// order of messages.
//
// Threads: none.
// Errors:  an invalid message yields an Objection; its owner ends the epoch.

#ifndef LOCKSTEP_SERVER_CORE_NEGOTIATION_H_
#define LOCKSTEP_SERVER_CORE_NEGOTIATION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "protocol/negotiation.h"
#include "server/core/pass.h"

namespace lockstep::core {

class Negotiation {
 public:
  // Why a message is invalid: "announced w twice in pass 3".
  struct Objection {
    int rank;
    std::string what;
  };
  using Objections = std::optional<Objection>;

  enum class Begins { kAnew, kAgain };

  // kAgain: a former coordinator made decisions, which the ranks hold.
  Negotiation(std::shared_ptr<const PassGroups> groups, Begins begins,
              uint64_t first_pass = 0);

  // --- Messages in ---

  // The rank has a new stream: nothing is sent to it until it has sent Held.
  void Resume(int rank);
  Objections Receive(int rank, const protocol::Held& held);
  Objections Receive(int rank, const protocol::Announce& announce);
  Objections Receive(int rank, const protocol::Submitted& submitted);

  // --- Decisions out ---

  // The decisions not sent yet, by rank; marks them as sent.
  std::vector<std::pair<int, protocol::Decide>> TakeUntold();

  // --- Questions ---

  uint64_t open_pass() const { return open_.number(); }
  // The rank has done what the open pass requires: other ranks wait for those
  // that have not.
  bool Done(int rank) const { return Lack(rank, 1).empty(); }
  // What the rank has not done, with at most `names_max` parameters; empty if
  // Done.
  std::string Lack(int rank, size_t names_max) const;

  // What the rank has announced and submitted so far. A new message of the rank
  // changes it; a repeated one does not.
  struct Stated {
    uint64_t open_pass = 0;
    std::optional<size_t> awaited;  // in the open pass, once announced
    bool operator==(const Stated&) const = default;
  };
  Stated StatedBy(int rank) const;

  bool operator==(const Negotiation&) const = default;

 private:
  using Word = std::variant<protocol::Announce, protocol::Submitted>;

  // After a restart: what each rank sent before all have sent Held.
  struct Return {
    std::optional<protocol::Held> held;
    std::vector<Word> words;
    size_t said = 0;  // parameters in `words`
    bool operator==(const Return&) const = default;
  };

  uint64_t end() const { return first_ + decisions_.size(); }
  Objections Compare(int rank, const protocol::Held& held) const;
  Objections Adopt();
  Objections Install(int rank, const protocol::Held& longest);
  Objections Take(int rank, const protocol::Announce& announce);
  Objections Take(int rank, const protocol::Submitted& submitted);
  template <typename W>
  Objections Keep(int rank, const W& word);
  void DecideReady(const std::vector<uint32_t>& candidates);
  void ForgetWhatAllHold();

  std::shared_ptr<const PassGroups> groups_;
  uint64_t first_pass_;
  uint64_t first_ = 0;  // the number of decisions_[0]
  std::vector<protocol::Decision> decisions_;
  // The end of the decisions sent to each rank; none: its Held is outstanding.
  std::vector<std::optional<uint64_t>> told_;
  std::vector<Return> returns_;  // by rank; empty once all have sent Held
  bool has_untold_ = false;      // some rank may lack a decision
  Pass open_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_NEGOTIATION_H_
