// How much memory this process may still allocate. Callers check it first: the
// kernel does not refuse shared memory that it lacks, but kills the process
// (SIGBUS, the OOM killer).

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_AVAILABLE_MEMORY_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_AVAILABLE_MEMORY_H_

#include <cstdint>
#include <string>

namespace lockstep::transport {

// The minimum of the machine's available memory (/proc/meminfo's MemAvailable),
// the room in the process's control groups (memory.max, version 2), and the
// largest file size (RLIMIT_FSIZE, which limits memfds too). In bytes.
uint64_t AvailableMemory();

// RLIMIT_FSIZE in bytes. A larger file raises SIGXFSZ, which ends the process.
uint64_t LargestFile();

// Pure parsers. MemAvailable in bytes; the largest uint64_t if `meminfo` lacks
// it.
uint64_t MachineAvailable(const std::string& meminfo);
// The unused bytes of a control group. `max` and `current` are the texts of
// memory.max and memory.current, `stat` is memory.stat; its inactive_file is
// reclaimable.
uint64_t GroupAvailable(const std::string& max, const std::string& current,
                        const std::string& stat);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_AVAILABLE_MEMORY_H_
