// From parameters to a connected data plane: registrations, the plan, handles.

#ifndef LOCKSTEP_PROTOCOL_REGISTRATION_H_
#define LOCKSTEP_PROTOCOL_REGISTRATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/halo_spec.h"
#include "lockstep/state_spec.h"
#include "protocol/axis_group.h"
#include "protocol/ids.h"
#include "protocol/parameter.h"
#include "protocol/shared_list.h"
#include "protocol/transport_facts.h"
#include "protocol/types.h"

namespace lockstep::protocol {

// A part of the worker's parameters and state, below 1 MiB on the wire.
struct RegisterChunk {
  uint32_t index = 0;  // 0, 1, 2, ...
  bool last = false;
  std::vector<Parameter> parameters;
  std::vector<StateSpec> states;
  // With the last chunk: the plan depends on them and on the parameters.
  TransportFacts transport;
  std::vector<AxisGroupDeclaration> groups;
  std::vector<HaloSpec> halos;
  bool operator==(const RegisterChunk&) const = default;
};

struct EpochFormed {
  int rank = -1;
  SharedList<Member> members;  // in rank order
  // The number of the epoch's first step: the number of steps committed in all
  // earlier epochs of the job.
  uint64_t first_step = 0;
  // The ranks that hold the state after first_step steps, ascending. Empty: no
  // rank does, or it is the state that training begins with.
  std::vector<uint32_t> holders;
  // How many members the epoch had that the holders' state is of, which is the
  // one before; 0: there was none. If it is another number than this epoch's,
  // state that is cut over the elastic axis is cut differently, and has no
  // holder. Of several such numbers it is one that differs.
  int previous_world = 0;
  bool operator==(const EpochFormed&) const = default;
};

struct PlanReady {
  Revision revision;
  std::string digest;
  bool operator==(const PlanReady&) const = default;
};

// The worker fetched and decoded this plan, verified it, and found this digest.
struct PlanAck {
  Revision revision;
  std::string digest;
  bool operator==(const PlanAck&) const = default;
};

struct GroupHandle {
  int communicator = -1;  // index in the plan
  std::string handle;     // opaque bytes of the transport
  bool operator==(const GroupHandle&) const = default;
};

// Handles of communicators that the rank is a member of: each once, in enough
// messages to keep each below 1 MiB (chunks.h).
struct PublishHandles {
  std::vector<GroupHandle> handles;
  bool operator==(const PublishHandles&) const = default;
};

// The handles of one communicator, in its rank order. A large list is split
// into messages below 1 MiB, sent in order.
struct GroupHandles {
  int communicator = -1;
  SharedList<std::string> handles;
  uint32_t first = 0;  // position of handles[0] in the communicator
  bool more = false;   // further messages follow
  bool operator==(const GroupHandles&) const = default;
};

// The transport that connects the members of one communicator, and why: "shm",
// or "hierarchical (4 ranks on 2 hosts)".
struct GroupTransport {
  int communicator = 0;   // index in the plan
  std::string transport;  // for people
  bool operator==(const GroupTransport&) const = default;
};

// Every communicator of this rank is connected.
struct Connected {
  std::vector<GroupTransport> groups;
  bool operator==(const Connected&) const = default;
};

struct Start {
  bool operator==(const Start&) const = default;
};

// After a restart of the coordinator, whose journal has only a hash of the plan
// of a running epoch: requests the plan that this rank has acknowledged.
struct PlanWanted {
  std::string digest;
  bool operator==(const PlanWanted&) const = default;
};

// A part of the serialised plan, below 1 MiB; parts are sent in order. The
// answer to PlanWanted.
struct PlanPart {
  std::string digest;
  uint64_t total_bytes = 0;  // of the plan; 0: the rank does not have it
  uint64_t offset = 0;       // of data[0] in the plan
  std::string data;
  bool operator==(const PlanPart&) const = default;
};

// The same without a member that gives the plan back: requests all of this
// rank's RegisterChunk again, after Start.
struct RegistrationWanted {
  bool operator==(const RegistrationWanted&) const = default;
};

// Requests the order in which gradients become complete in the next step
// (ReadyOrder), for a revision with buckets in that order.
struct OrderWanted {
  Revision revision;  // to be compiled
  bool operator==(const OrderWanted&) const = default;
};

// The order in which this rank's gradients became complete in one step: indices
// of the plan's parameters, each of the rank's once; those not submitted are
// last, in the plan's order. The answer to OrderWanted.
struct ReadyOrder {
  Revision revision;  // of OrderWanted
  std::vector<uint32_t> parameters;
  bool operator==(const ReadyOrder&) const = default;
};

}  // namespace lockstep::protocol

#endif  // LOCKSTEP_PROTOCOL_REGISTRATION_H_
