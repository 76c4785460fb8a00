// How much memory this process may still take, before it takes it: shared
// memory that is not there is not refused but kills (SIGBUS, the OOM killer).

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_AVAILABLE_MEMORY_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_AVAILABLE_MEMORY_H_

#include <cstdint>
#include <string>

namespace lockstep::transport {

// The least of what the machine has (/proc/meminfo's MemAvailable), what the
// process's control groups leave (memory.max, version 2), and what one file may
// hold (RLIMIT_FSIZE, which counts for memory files too).
uint64_t AvailableMemory();

// RLIMIT_FSIZE; to go beyond it is a signal that ends the process.
uint64_t LargestFile();

// The pure halves. MemAvailable in bytes; everything if `meminfo` lacks it.
uint64_t MachineAvailable(const std::string& meminfo);
// What a group leaves: `max` and `current` are the files' texts, `stat` is
// memory.stat, whose inactive_file can be taken back.
uint64_t GroupAvailable(const std::string& max, const std::string& current,
                        const std::string& stat);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_AVAILABLE_MEMORY_H_
