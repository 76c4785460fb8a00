// The standard streams of a program that was started without them.
//
// Each of the descriptors 0, 1 and 2 that is closed, as a shell's `>&-` or a
// supervisor leaves it, is opened on /dev/null. Without that the next file or
// socket that is opened gets its number, and what is printed is written into
// it. Shared libraries open files when they are loaded (gRPC 1.51 an eventfd),
// before main and before constructors of ours: therefore .preinit_array, which
// only an executable can have.
//
// Included by a file with main(), which needs to do nothing more.

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
