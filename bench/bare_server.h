// The lower bound of a negotiation with gRPC: a server that answers N streams
// once the last of them has written. Negotiated mode is compared to it.

#ifndef LOCKSTEP_BENCH_BARE_SERVER_H_
#define LOCKSTEP_BENCH_BARE_SERVER_H_

namespace lockstep::bench {

// Serves Session streams on a free port of loopback, in a child process that
// ends with this one. Each time `streams` of them have written, each gets a
// Decide with one decision and the end of its pass. Returns the port.
//
// Must be called before the first use of gRPC.
int StartBareServer(int streams);

}  // namespace lockstep::bench

#endif  // LOCKSTEP_BENCH_BARE_SERVER_H_
