// The least that gRPC can do for a negotiation: a server that answers N streams
// once the last of them has written. What negotiated mode is measured against.

#ifndef LOCKSTEP_BENCH_BARE_SERVER_H_
#define LOCKSTEP_BENCH_BARE_SERVER_H_

namespace lockstep::bench {

// Serves Session streams on a free port of loopback, in a process of its own,
// which ends with this one: each time `streams` of them have written, each gets
// a Decide with one decision and the end of its pass. Returns the port.
//
// Call it before anything has used gRPC.
int StartBareServer(int streams);

}  // namespace lockstep::bench

#endif  // LOCKSTEP_BENCH_BARE_SERVER_H_
