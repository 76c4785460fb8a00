// Opens missing standard streams before the program starts.
//
// Opens /dev/null on each of the descriptors 0, 1 and 2 that is closed, as by a
// shell's `>&-` or a supervisor. Otherwise the next opened file or socket would
// get that number, and printed text would be written to it. Shared libraries
// open files when they are loaded (gRPC 1.51 an eventfd), before main and
// before constructors. So this uses .preinit_array, which only an executable
// can have.
//
// Include it in a file with main(); nothing else is needed.

#ifndef LOCKSTEP_BASE_STANDARD_STREAMS_H_
#define LOCKSTEP_BASE_STANDARD_STREAMS_H_

#include <fcntl.h>
#include <unistd.h>

namespace lockstep {

inline void OpenStandardStreams() {
  int opened = 0;
  do {
    opened = open("/dev/null", O_RDWR);
  } while (opened >= 0 && opened <= STDERR_FILENO);
  if (opened >= 0) close(opened);
}

__attribute__((section(".preinit_array"), used)) static void (
    *open_standard_streams)() = &OpenStandardStreams;

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_STANDARD_STREAMS_H_
