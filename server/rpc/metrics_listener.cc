#include "server/rpc/metrics_listener.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "base/open_files.h"
#include "base/thread.h"
#include "server/rpc/http_request.h"
#include "server/rpc/listener.h"

namespace lockstep::rpc {
namespace {

constexpr char kPath[] = "/metrics";

// --- One connection ---------------------------------------------------------

class HttpExchange {
 public:
  HttpExchange(FileDescriptor socket, absl::Time until)
      : socket_(std::move(socket)), until_(until) {}

  pollfd Awaited() const {
    const short events = stage_ == Stage::kWrites ? POLLOUT : POLLIN;
    return {.fd = socket_.get(), .events = events};
  }
  absl::Time until() const { return until_; }
  bool done() const { return stage_ == Stage::kDone; }
  bool writes() const { return stage_ == Stage::kWrites; }

  // Does what the socket is ready for.
  void Advance(const MetricsListener::Page& page) {
    if (stage_ == Stage::kReads) Read(page);
    if (stage_ == Stage::kWrites) Write();
    if (stage_ == Stage::kAwaitsEnd) Discard();
  }

 private:
  enum class Stage { kReads, kWrites, kAwaitsEnd, kDone };

  void Read(const MetricsListener::Page& page) {
    char bytes[kHeadBytesMax];
    const size_t room = kHeadBytesMax - received_.size();
    const ssize_t count = recv(socket_.get(), bytes, room, 0);
    if (count <= 0) return EndUnlessBusy(count);
    received_.append(bytes, count);
    const std::optional<int> status = JudgeRequest(received_, kPath);
    if (status) Answer(*status, page);
  }

  void Answer(int status, const MetricsListener::Page& page) {
    if (status == 200) {
      auto text = page();
      if (text.ok()) {
        body_ = *std::move(text);
      } else {
        status = 503;
        body_ = std::make_shared<const std::string>(
            absl::StrCat(text.status().message(), "\n"));
      }
    } else {
      body_ = std::make_shared<const std::string>(
          absl::StrCat(StatusText(status), "\n"));
    }
    head_ = HeadOfAnswer(status, body_->size());
    stage_ = Stage::kWrites;
  }

  void Write() {
    while (written_ < head_.size() + body_->size()) {
      const bool in_head = written_ < head_.size();
      const std::string& part = in_head ? head_ : *body_;
      const size_t begin = in_head ? written_ : written_ - head_.size();
      const ssize_t count =
          send(socket_.get(), part.data() + begin, part.size() - begin,
               MSG_NOSIGNAL | (in_head ? MSG_MORE : 0));
      if (count < 0) return EndUnlessBusy(count);
      written_ += count;
    }
    shutdown(socket_.get(), SHUT_WR);
    stage_ = Stage::kAwaitsEnd;
  }

  // A socket that is closed with unread bytes would take the answer back.
  void Discard() {
    char bytes[kHeadBytesMax];
    const ssize_t count = recv(socket_.get(), bytes, sizeof bytes, 0);
    if (count <= 0) EndUnlessBusy(count);
  }

  void EndUnlessBusy(ssize_t count) {
    const bool busy = count < 0 && (errno == EAGAIN || errno == EINTR);
    if (!busy) stage_ = Stage::kDone;
  }

  FileDescriptor socket_;
  absl::Time until_;
  Stage stage_ = Stage::kReads;
  std::string received_;
  std::string head_;
  std::shared_ptr<const std::string> body_;
  size_t written_ = 0;  // of both
};

}  // namespace

// --- All connections --------------------------------------------------------

struct MetricsListener::Parts {
  void Run();
  void TakeArrived(absl::Time now);
  void Await(absl::Time now);
  // Whether `ls-metrics` should end.
  bool IsOver(absl::Time now);
  void Arrive(FileDescriptor connection);
  void Stop(absl::Duration timeout);

  Page page;
  absl::Duration connection_time;
  Address address;
  SystemClock clock;
  FileDescriptor wake;            // an eventfd
  std::deque<HttpExchange> open;  // of `ls-metrics`, the oldest first

  Mutex mutex;
  std::deque<FileDescriptor> arrived ABSL_GUARDED_BY(mutex);
  std::optional<absl::Time> stop_by ABSL_GUARDED_BY(mutex);

  std::thread thread;
  std::unique_ptr<Listener> listener;  // destroyed first: it calls Arrive
};

void MetricsListener::Parts::Arrive(FileDescriptor connection) {
  {
    MutexLock lock(&mutex);
    if (arrived.size() == kConnectionsMax) arrived.pop_front();
    arrived.push_back(std::move(connection));
  }
  eventfd_write(wake.get(), 1);
}

void MetricsListener::Parts::TakeArrived(absl::Time now) {
  MutexLock lock(&mutex);
  for (FileDescriptor& connection : arrived) {
    if (open.size() == kConnectionsMax) open.pop_front();
    open.emplace_back(std::move(connection), now + connection_time);
  }
  arrived.clear();
}

bool MetricsListener::Parts::IsOver(absl::Time now) {
  MutexLock lock(&mutex);
  if (!stop_by) return false;
  std::erase_if(open, [](const HttpExchange& one) { return !one.writes(); });
  return open.empty() || now >= *stop_by;
}

void MetricsListener::Parts::Await(absl::Time now) {
  std::vector<pollfd> awaited{{.fd = wake.get(), .events = POLLIN}};
  absl::Time until = absl::InfiniteFuture();
  for (const HttpExchange& one : open) {
    awaited.push_back(one.Awaited());
    until = std::min(until, one.until());
  }
  {
    MutexLock lock(&mutex);
    if (stop_by) until = std::min(until, *stop_by);
  }
  const int milliseconds =
      until == absl::InfiniteFuture()
          ? -1
          : static_cast<int>(absl::ToInt64Milliseconds(
                                 std::max(until - now, absl::ZeroDuration())) +
                             1);
  if (poll(awaited.data(), awaited.size(), milliseconds) <= 0) return;
  eventfd_t count = 0;
  if (awaited[0].revents != 0) eventfd_read(wake.get(), &count);
  for (size_t i = 0; i < open.size(); ++i) {
    if (awaited[i + 1].revents != 0) open[i].Advance(page);
  }
}

void MetricsListener::Parts::Run() {
  while (true) {
    const absl::Time now = clock.Now();
    std::erase_if(open, [now](const HttpExchange& one) {
      return one.done() || one.until() <= now;
    });
    TakeArrived(now);
    if (IsOver(now)) return;
    Await(now);
  }
}

void MetricsListener::Parts::Stop(absl::Duration timeout) {
  listener.reset();
  if (!thread.joinable()) return;
  {
    MutexLock lock(&mutex);
    stop_by = clock.Now() + timeout;
  }
  eventfd_write(wake.get(), 1);
  thread.join();
  open.clear();
}

absl::StatusOr<std::unique_ptr<MetricsListener>> MetricsListener::Start(
    const Address& address, Page page,
    std::function<void(const std::string&)> on_warning,
    absl::Duration connection_time) {
  auto listener = Listener::Bind(address);
  if (!listener.ok()) return listener.status();
  auto parts = std::make_unique<Parts>();
  parts->page = std::move(page);
  parts->connection_time = connection_time;
  parts->address = (*listener)->address();
  parts->wake = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!parts->wake.valid()) return OutOfFiles("eventfd");
  parts->listener = *std::move(listener);
  parts->thread =
      StartThread("ls-metrics", [own = parts.get()] { own->Run(); });
  parts->listener->Start({.on_connection =
                              [own = parts.get()](FileDescriptor connection) {
                                own->Arrive(std::move(connection));
                              },
                          .on_warning = std::move(on_warning)});
  return absl::WrapUnique(new MetricsListener(std::move(parts)));
}

MetricsListener::MetricsListener(std::unique_ptr<Parts> parts)
    : parts_(std::move(parts)) {}

MetricsListener::~MetricsListener() { Shutdown(absl::ZeroDuration()); }

const Address& MetricsListener::address() const { return parts_->address; }

void MetricsListener::Shutdown(absl::Duration timeout) {
  parts_->Stop(timeout);
}

}  // namespace lockstep::rpc
