// Facts that tell one process from all others, as the kernel knows them.
//
// A pid is used again; together with the kernel's boot id and the time at which
// the process started it is not.
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

// The running kernel's; empty if /proc does not tell.
std::string BootId();

// In clock ticks since boot: field 22 of /proc/PID/stat. 0 if there is no such
// process. A child that was not waited for yet still has one.
uint64_t StartTimeOf(pid_t pid);

// By SIGSTOP, a terminal or a debugger: signals other than SIGKILL and SIGCONT
// do not reach it. False if there is no such process.
bool IsStopped(pid_t pid);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_PROCESS_H_
