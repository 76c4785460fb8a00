// Negotiated mode: which gradients are reduced in a pass, and in which order.
//
//   pass 7     a       b       c      who announced gives a gradient;
//   rank 0   given   given     -      the others of the group give zeros
//   rank 1   given     -       -
//   rank 2     -       -       -      announced nothing: waits for nobody
//              │       │
//   sequence   ▼       ▼       ▼
//   ... 40: a, 2   41: b, 1   42: pass 7 is closed   43: ... of pass 8
//
// A parameter is decided once all of its group have announced for the pass, at
// least one of them announced it, and all who did have submitted. When all
// ranks have announced and all that was announced is decided, the pass is
// closed, by an entry of the same sequence: who has heard it has heard every
// reduction of the pass, and may enter its verdict. Words are taken of the open
// pass only: a rank that announces the next one has heard the close of this,
// and so says that it holds every decision before it.
//
// The sequence is not journaled. Each rank holds a prefix of it, and a
// coordinator that restarted waits until every rank has said Held; the longest
// prefix is the sequence then, for whatever was decided was decided for all.
// Decisions of the pass before the open one are kept, since a rank that lags
// may lack them; earlier ones every rank has heard, for it has announced the
// pass after them.
//
// A value: words in, decisions out. Copied and compared by tests that try every
// order of words.
//
// Threads: none.
// Errors:  words that make no sense are an Objection and change nothing that
//          matters: the epoch ends.

#ifndef LOCKSTEP_SERVER_CORE_NEGOTIATION_H_
#define LOCKSTEP_SERVER_CORE_NEGOTIATION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "plan/words/protocol.h"
#include "server/core/pass.h"

namespace lockstep::core {

class Negotiation {
 public:
  // What a rank said that makes no sense: "announced w twice in pass 3".
  struct Objection {
    int rank;
    std::string what;
  };
  using Objections = std::optional<Objection>;

  enum class Begins { kAnew, kAgain };

  // kAgain: a former coordinator made decisions, which the ranks hold.
  Negotiation(std::shared_ptr<const Groups> groups, Begins begins,
              uint64_t first_pass = 0);

  // --- Words in ---

  // The rank has a new stream: it is told nothing until it has said Held.
  void Resume(int rank);
  Objections Hear(int rank, const protocol::Held& held);
  Objections Hear(int rank, const protocol::Announce& announce);
  Objections Hear(int rank, const protocol::Submitted& submitted);

  // --- Decisions out ---

  // For each rank what it was not told yet; then all have been told.
  std::vector<std::pair<int, protocol::Decide>> TakeUntold();

  // --- Questions ---

  uint64_t open_pass() const { return open_.number(); }
  // The rank has done what the open pass asks of it: others wait for those
  // that have not.
  bool Done(int rank) const { return Lack(rank, 1).empty(); }
  // What it has not done, with at most `names_max` parameters; empty if Done.
  std::string Lack(int rank, size_t names_max) const;

  // What the rank has announced and submitted so far. It differs after a
  // message of the rank that was news, and is the same after one that repeats.
  struct Stated {
    uint64_t open_pass = 0;
    std::optional<size_t> awaited;  // in the open pass, once announced
    bool operator==(const Stated&) const = default;
  };
  Stated StatedBy(int rank) const;

  bool operator==(const Negotiation&) const = default;

 private:
  using Word = std::variant<protocol::Announce, protocol::Submitted>;

  // After a restart: what each rank said before all have said Held.
  struct Return {
    std::optional<protocol::Held> held;
    std::vector<Word> words;
    size_t said = 0;  // parameters in them
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
  void Settle(const std::vector<uint32_t>& candidates);
  void ForgetWhatAllHold();

  std::shared_ptr<const Groups> groups_;
  uint64_t first_pass_;
  uint64_t first_ = 0;  // the number of decisions_[0]
  std::vector<protocol::Decision> decisions_;
  // Up to which number each rank has been told; none: it has to say Held.
  std::vector<std::optional<uint64_t>> told_;
  std::vector<Return> returns_;  // by rank; empty once all have said Held
  bool has_untold_ = false;      // some rank may lack a decision
  Pass open_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_NEGOTIATION_H_
