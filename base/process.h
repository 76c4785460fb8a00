// Facts that identify a process, as known to the kernel.
//
// The kernel reuses pids. A pid with the boot id and the process's start time
// is unique.
//
// Threads: pure reads of /proc, from any thread.

#ifndef LOCKSTEP_BASE_PROCESS_H_
#define LOCKSTEP_BASE_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace lockstep {

// "localhost" if the machine has no name.
std::string HostName();

// The running kernel's; empty if /proc does not have it.
std::string BootId();

// In clock ticks since boot: field 22 of /proc/PID/stat. 0 if there is no such
// process. A zombie child still has one.
uint64_t StartTimeOf(pid_t pid);

// Stopped by SIGSTOP, a terminal or a debugger: signals other than SIGKILL and
// SIGCONT stay pending. False if there is no such process.
bool IsStopped(pid_t pid);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_PROCESS_H_
