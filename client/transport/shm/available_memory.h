// How much memory this process may still allocate. Callers check it first: the
// kernel does not refuse shared memory that it lacks, but kills the process
// (SIGBUS, the OOM killer).

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_AVAILABLE_MEMORY_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_AVAILABLE_MEMORY_H_

#include <cstdint>
#include <string>

namespace lockstep::transport {

// In bytes; the largest uint64_t where there is no limit.
struct MemoryRoom {
  uint64_t machine = 0;  // available: /proc/meminfo's MemAvailable
  uint64_t group = 0;    // the least of the process's control groups:
                         // memory.max of version 2, less what is in use
  uint64_t file = 0;     // LargestFile
  uint64_t Least() const;
};

// `root` is where /proc and /sys are.
MemoryRoom FindMemoryRoom(const std::string& root = "");

// The least of them.
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
