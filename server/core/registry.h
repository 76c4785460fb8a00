// What each rank registers, collected from chunks: its parameters, its state
// and, with the last chunk, its transport's capabilities and the groups that it
// declares.
//
//   rank 0   | 0 | 1 | 2 last |      complete
//   rank 1   | 0 | 1 |               waits for 2
//
// A rank whose stream broke sends every chunk again from 0; chunks of a
// complete registration are skipped.
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_REGISTRY_H_
#define LOCKSTEP_SERVER_CORE_REGISTRY_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "protocol/parameter.h"
#include "protocol/registration.h"
#include "protocol/transport_facts.h"
#include "server/core/limits.h"

namespace lockstep::core {

struct Registrations {
  std::vector<std::vector<Parameter>> parameters;                   // by rank
  std::vector<TransportFacts> transports;                           // by rank
  std::vector<std::vector<protocol::AxisGroupDeclaration>> groups;  // by rank
  std::vector<std::vector<HaloSpec>> halos;                         // by rank
  std::vector<std::vector<StateSpec>> states;                       // by rank
};

class Registry {
 public:
  // `parameters_max` bounds what one rank may register.
  Registry(int world_size, int64_t parameters_max)
      : ranks_(world_size), parameters_max_(parameters_max) {}

  // InvalidArgument: a chunk that is not the next one. ResourceExhausted: more
  // parameters than the limit, more state than kStatesMax, or more than
  // `limits` admit.
  absl::Status Add(int rank, const protocol::RegisterChunk& chunk,
                   Limits* limits);

  // The rank has a new stream and sends its chunks again from 0.
  void Repeat(int rank);

  bool complete(int rank) const { return ranks_[rank].complete; }
  bool complete() const {
    return completed_ == static_cast<int>(ranks_.size());
  }
  // The rank has sent at least one chunk.
  bool begun(int rank) const { return ranks_[rank].next > 0; }

  // Moves out all registrations and leaves the registry empty.
  Registrations Take();

 private:
  struct Rank {
    std::vector<Parameter> parameters;
    std::vector<StateSpec> states;
    TransportFacts transport;
    std::vector<protocol::AxisGroupDeclaration> groups;
    std::vector<HaloSpec> halos;
    uint32_t next = 0;
    int64_t bytes = 0;  // of parameters and states, on the wire
    bool complete = false;
    bool repeats = false;  // sends a complete registration again
  };

  std::vector<Rank> ranks_;
  const int64_t parameters_max_;
  int64_t parameters_ = 0;  // of all ranks
  int completed_ = 0;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_REGISTRY_H_
