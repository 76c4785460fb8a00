// Whether a process of this host is stopped: by SIGSTOP, by its terminal, or by
// a debugger. Such a process lives and never advances. Any other process that
// does not advance may only be slow, so it has no deadline.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_STOPPED_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_STOPPED_H_

namespace lockstep::transport {

// `process`: a pidfd. False if the state is unknown: the process has ended, or
// is in a pid namespace that this one does not see.
bool IsStopped(int process);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_STOPPED_H_
