// A transport between threads of one process, for tests that need no network.
// It has rendezvous semantics (a send completes only with its receive), and
// uses no sockets and no library.
//
//   InprocHub hub;                      // one per test: the "network"
//   auto transport = MakeInprocTransport(&hub);
//   auto pending = transport->Prepare({.name = "g", .rank = r, .size = n});
//   ... exchange the handles ...
//   auto comm = (*pending)->Connect(handles, timeout);
//
// Threads: each member of a group usually has its own. The hub may be used from
// any thread, and must outlive the transports and links made with it.

#ifndef LOCKSTEP_TESTS_SUPPORT_INPROC_INPROC_H_
#define LOCKSTEP_TESTS_SUPPORT_INPROC_INPROC_H_

#include <memory>

#include "client/transport/common/link_factory.h"
#include "client/transport/transport.h"

namespace lockstep::transport {

// Connects the members of all groups.
class InprocHub {
 public:
  InprocHub();
  ~InprocHub();
  InprocHub(const InprocHub&) = delete;
  InprocHub& operator=(const InprocHub&) = delete;

  class Rendezvouses;
  Rendezvouses& meetings() { return *rendezvous_; }

 private:
  std::unique_ptr<Rendezvouses> rendezvous_;
};

std::unique_ptr<Transport> MakeInprocTransport(InprocHub* hub);

// The links without the transport.
std::unique_ptr<LinkFactory> MakeInprocLinks(InprocHub* hub);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_TESTS_SUPPORT_INPROC_INPROC_H_
