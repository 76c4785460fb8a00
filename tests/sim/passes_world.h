// Two devices and a coordinator in negotiated mode, as a value: a test can try
// every order of their next events, and two orders with equal results are one
// state.
//
//   Device 0 ─ session::Passes ─┐ messages, in order ┌─ core::Negotiation
//   Device 1 ─ session::Passes ─┴───── decisions ────┘     │ crash, replay
//
// The data plane and the verdict are simulated: a reduction is complete when
// its decision is received, and no device passes a verdict that not all have
// entered. While a stream is broken, messages are not sent and decisions are
// lost.

#ifndef LOCKSTEP_TESTS_SIM_PASSES_WORLD_H_
#define LOCKSTEP_TESTS_SIM_PASSES_WORLD_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/session/passes.h"
#include "server/core/negotiation.h"

namespace lockstep::sim {

inline constexpr int kDevices = 2;
inline constexpr int kParameters = 2;

// The faults of a history.
struct Bounds {
  uint64_t passes = 3;
  int crashes = 0;  // of the coordinator
  int cuts = 0;     // of a device's stream
};

struct Device {
  enum class Stage : uint8_t { kBetween, kInPass, kInVerdict };

  session::Passes passes;
  uint64_t pass = 0;
  Stage stage = Stage::kBetween;
  unsigned announced = 0;  // parameters announced in this pass, as bits
  unsigned submitted = 0;
  unsigned reduced = 0;
  bool closed = false;    // it has received the pass's close
  bool connected = true;  // its stream is up
  uint64_t heard = 0;     // decisions received in all

  bool operator==(const Device&) const = default;
};

class PassesWorld {
 public:
  PassesWorld(std::shared_ptr<const core::PassGroups> groups,
              const Bounds& bounds);

  // Every world that one event leads to, with the event's name.
  std::vector<std::pair<std::string, PassesWorld>> Next() const;

  // Whether both have passed all passes.
  bool Over() const;
  // The first promise that is broken; empty: none.
  const std::string& broken() const { return broken_; }

  size_t Hash() const;
  bool operator==(const PassesWorld& other) const;

 private:
  using Word = protocol::ToCoordinatorBody;

  template <typename Event>
  void Branch(std::vector<std::pair<std::string, PassesWorld>>* next,
              std::string name, Event event) const;

  void Announce(int d, unsigned parameters);
  void Submit(int d, const std::vector<uint32_t>& parameters);
  void EnterVerdict(int d);
  void PassVerdict(int d);
  void DeliverWord(int d);
  void DeliverDecisions(int d);
  void Cut(int d);
  void Crash();
  void Reconnect(int d);

  void Post(int d, Word word);
  void Reduce(int d, uint64_t number, const protocol::Decision& decision);
  void Break(const std::string& promise);

  std::shared_ptr<const core::PassGroups> groups_;
  Bounds bounds_;
  core::Negotiation coordinator_;
  std::array<Device, kDevices> devices_;
  // Short queues; an empty std::deque would allocate, and worlds are copied.
  std::array<std::vector<Word>, kDevices> words_;
  std::array<std::vector<protocol::Decide>, kDevices> decisions_;
  // Passes in progress: what each device announced, and the first decision
  // received under each number.
  std::map<uint64_t, std::array<unsigned, kDevices>> announced_;
  std::map<uint64_t, protocol::Decision> sequence_;
  std::string broken_;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_PASSES_WORLD_H_
