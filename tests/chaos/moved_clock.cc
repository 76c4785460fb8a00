// Moves the wall clock of one process while it runs. Preload it (LD_PRELOAD):
//
//   LOCKSTEP_MOVED_CLOCK   a file of 8 bytes: by how many nanoseconds the
//                          process's wall clock is ahead of the machine's.
//                          Writing them moves the clock at once.
//
// As the kernel does when a clock is set, a wait until a time of the wall clock
// (FUTEX_CLOCK_REALTIME, as abseil and gRPC wait) ends when the moved clock is
// there: later after a jump back, within kLookInterval after a jump ahead.
// Monotonic clocks and relative waits do not change.
//
// libfaketime is no replacement: it leaves such waits to the machine's clock,
// and after a jump back gRPC's timers spin on deadlines that are always past.

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>

namespace {

constexpr int64_t kNanos = 1'000'000'000;
constexpr int64_t kLookInterval = 20'000'000;

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

int RealClock(clockid_t clock, timespec* now) {
  static auto* const next = Next<int(clockid_t, timespec*)>("clock_gettime");
  return next(clock, now);
}

// Null without the file.
const volatile int64_t* MapOffset() {
  const char* const path = std::getenv("LOCKSTEP_MOVED_CLOCK");
  const int file = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return nullptr;
  void* const memory =
      mmap(nullptr, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  return memory == MAP_FAILED ? nullptr : static_cast<int64_t*>(memory);
}

int64_t Offset() {
  static const volatile int64_t* const offset = MapOffset();
  return offset == nullptr ? 0 : *offset;
}

int64_t NanosOf(const timespec& time) {
  return time.tv_sec * kNanos + time.tv_nsec;
}

timespec TimeOf(int64_t nanos) {
  return {.tv_sec = nanos / kNanos, .tv_nsec = nanos % kNanos};
}

int64_t RealNow() {
  timespec now{};
  RealClock(CLOCK_REALTIME, &now);
  return NanosOf(now);
}

bool IsWallClock(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE ||
         clock == CLOCK_TAI;
}

struct Arguments {
  long values[6];
};

long RealCall(long number, const Arguments& a) {
  static auto* const next = Next<long(long, ...)>("syscall");
  return next(number, a.values[0], a.values[1], a.values[2], a.values[3],
              a.values[4], a.values[5]);
}

bool WaitsByWallClock(long number, const Arguments& a) {
  constexpr int kWait = FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME;
  return number == SYS_futex && a.values[3] != 0 &&
         (a.values[1] & ~FUTEX_PRIVATE_FLAG) == kWait;
}

// Waits in pieces, because the clock may move meanwhile.
long WaitByMovedClock(Arguments a) {
  const int64_t deadline =
      NanosOf(*reinterpret_cast<const timespec*>(a.values[3]));
  while (true) {
    const int64_t now = RealNow();
    const int64_t end = std::max<int64_t>(0, deadline - Offset());
    const timespec until = TimeOf(std::min(end, now + kLookInterval));
    a.values[3] = reinterpret_cast<long>(&until);
    const long result = RealCall(SYS_futex, a);
    const bool is_early =
        result == -1 && errno == ETIMEDOUT && RealNow() < deadline - Offset();
    if (!is_early) return result;
  }
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const int result = RealClock(clock, now);
  if (result == 0 && IsWallClock(clock)) {
    *now = TimeOf(NanosOf(*now) + Offset());
  }
  return result;
}

int gettimeofday(timeval* now, void*) noexcept {
  const int64_t nanos = RealNow() + Offset();
  *now = {.tv_sec = nanos / kNanos, .tv_usec = nanos % kNanos / 1000};
  return 0;
}

time_t time(time_t* now) noexcept {
  const time_t seconds = (RealNow() + Offset()) / kNanos;
  if (now != nullptr) *now = seconds;
  return seconds;
}

long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  Arguments a{};
  for (long& value : a.values) value = va_arg(list, long);
  va_end(list);
  return WaitsByWallClock(number, a) ? WaitByMovedClock(a)
                                     : RealCall(number, a);
}

}  // extern "C"
