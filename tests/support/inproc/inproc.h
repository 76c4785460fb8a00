// A transport between threads of one process: what tests run over when they are
// not about the network. It has rendezvous semantics throughout (a send is done
// only with its receive), and uses no sockets and no library.
//
//   InprocHub hub;                      // one per test: the "network"
//   auto transport = MakeInprocTransport(&hub);
//   auto pending = transport->Prepare({.name = "g", .rank = r, .size = n});
//   ... exchange the handles ...
//   auto comm = (*pending)->Connect(handles, timeout);
//
// Threads: each member of a group usually has its own. The hub may be used from
// any, and must outlive what was made with it.

#ifndef LOCKSTEP_TESTS_SUPPORT_INPROC_INPROC_H_
#define LOCKSTEP_TESTS_SUPPORT_INPROC_INPROC_H_

#include <memory>

#include "client/transport/common/link_factory.h"
#include "client/transport/transport.h"

namespace lockstep::transport {

// Where the members of groups meet.
class InprocHub {
 public:
  InprocHub();
  ~InprocHub();
  InprocHub(const InprocHub&) = delete;
  InprocHub& operator=(const InprocHub&) = delete;

  class Meetings;
  Meetings& meetings() { return *rendezvous_; }

 private:
  std::unique_ptr<Meetings> rendezvous_;
};

std::unique_ptr<Transport> MakeInprocTransport(InprocHub* hub);

// The links alone.
std::unique_ptr<LinkFactory> MakeInprocLinks(InprocHub* hub);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_TESTS_SUPPORT_INPROC_INPROC_H_
