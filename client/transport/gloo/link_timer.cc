#include "client/transport/gloo/link_timer.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/open_files.h"
#include "client/transport/common/silence.h"

namespace lockstep::transport {

absl::StatusOr<std::shared_ptr<LinkTimer>> LinkTimer::Start(
    std::shared_ptr<gloo::transport::tcp::Device> device,
    absl::Duration silence) {
  FileDescriptor timer(
      timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  const timespec period = absl::ToTimespec(Silence::PeriodOf(silence));
  const itimerspec every{.it_interval = period, .it_value = period};
  if (!timer.valid() || timerfd_settime(timer.get(), 0, &every, nullptr) != 0) {
    const int error = errno;
    const std::string said = absl::StrCat("timerfd: ", std::strerror(error));
    return IsOutOfFiles(error) ? OutOfFiles(said)
                               : absl::UnavailableError(said);
  }
  return std::shared_ptr<LinkTimer>(
      new LinkTimer(std::move(device), silence, std::move(timer)));
}

LinkTimer::LinkTimer(std::shared_ptr<gloo::transport::tcp::Device> device,
                     absl::Duration silence, FileDescriptor timer)
    : device_(std::move(device)),
      silence_(silence),
      timer_(std::move(timer)),
      last_(Clock::now()) {
  device_->registerDescriptor(timer_.get(), EPOLLIN, this);
}

LinkTimer::~LinkTimer() { device_->unregisterDescriptor(timer_.get(), this); }

void LinkTimer::Add(Ticking* link) {
  MutexLock lock(&mutex_);
  links_.insert(link);
}

void LinkTimer::Remove(Ticking* link) {
  MutexLock lock(&mutex_);
  links_.erase(link);
}

void LinkTimer::handleEvents(int) {
  uint64_t periods = 0;
  if (read(timer_.get(), &periods, sizeof periods) != sizeof periods) return;
  const Clock::time_point now = Clock::now();
  const absl::Duration elapsed =
      absl::FromChrono(now - std::exchange(last_, now));
  MutexLock lock(&mutex_);
  for (Ticking* link : links_) link->Tick(elapsed);
}

}  // namespace lockstep::transport
