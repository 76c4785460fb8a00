// Whether a process of this host is stopped: by SIGSTOP, from a terminal, or by
// a debugger. It lives, and does nothing: in shared memory the only way to be
// silent that is not slowness, which no deadline may tell from it.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_STOPPED_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_STOPPED_H_

namespace lockstep::transport {

// `process`: a pidfd. False if that cannot be known: the process has ended, or
// is in a pid namespace that this one does not see.
bool IsStopped(int process);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_STOPPED_H_
