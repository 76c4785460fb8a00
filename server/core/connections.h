// The transports that connect each communicator, as its members report them.
//
// For display only; no decision depends on it. If members report different
// transports for one communicator, each is shown once.
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_CONNECTIONS_H_
#define LOCKSTEP_SERVER_CORE_CONNECTIONS_H_

#include <map>
#include <set>
#include <string>

#include "plan/ir.h"
#include "protocol/registration.h"

namespace lockstep::core {

class Connections {
 public:
  void Add(const protocol::Connected& said) {
    for (const protocol::GroupTransport& group : said.groups) {
      by_transport_[group.transport].insert(group.communicator);
    }
  }

  // ": shm connects world; gloo connects gradient/a and 3 more"; empty if no
  // rank has reported.
  std::string Describe(const plan::Plan& plan) const;

 private:
  std::map<std::string, std::set<int>> by_transport_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_CONNECTIONS_H_
