#include "client/transport/shm/local_process_watch.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file_descriptor.h"
#include "base/open_files.h"
#include "base/thread.h"
#include "client/transport/shm/local_socket.h"
#include "client/transport/shm/shm_handle.h"

namespace lockstep::transport {
namespace {

constexpr uint64_t kMagic = 0x6c732d7065657273;  // "ls-peers"
// After which a peer whose queue of connections was full is dialed again.
constexpr int kDialAgainMs = 2;

struct ProcessGreeting {
  uint64_t magic = kMagic;
};

// An address is "NETWORK NAME": the network namespace, and the socket's name in
// it after this prefix.
constexpr char kSocketPrefix[] = "lockstep-watch-";

std::string DrawName() {
  std::random_device device;
  return absl::StrCat(absl::Hex(device(), absl::kZeroPad8),
                      absl::Hex(device(), absl::kZeroPad8));
}

// The socket of a process in this namespace; nullopt: it is in another one.
std::optional<std::string> SocketAt(const std::string& address,
                                    const std::string& network) {
  const std::vector<std::string> words = absl::StrSplit(address, ' ');
  if (words.size() != 2 || words[0] != network) return std::nullopt;
  return kSocketPrefix + words[1];
}

absl::StatusOr<FileDescriptor> MakeEvent() {
  FileDescriptor event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (event.valid()) return event;
  return OutOfFiles(absl::StrCat("eventfd: ", std::strerror(errno)));
}

absl::Status Take(absl::StatusOr<FileDescriptor> opened, FileDescriptor* fd) {
  if (opened.ok()) *fd = *std::move(opened);
  return opened.status();
}

void Set(const FileDescriptor& event) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event.get(), &one, sizeof one);
}

bool IsReadable(const FileDescriptor& fd) {
  pollfd watched{fd.get(), POLLIN, 0};
  return poll(&watched, 1, 0) == 1 && (watched.revents & POLLIN) != 0;
}

class LocalProcessWatch final : public ProcessWatch {
 public:
  static absl::StatusOr<std::unique_ptr<ProcessWatch>> Listen() {
    std::unique_ptr<LocalProcessWatch> watch(new LocalProcessWatch);
    const std::string name = DrawName();
    absl::Status made =
        Take(ListenLocally(kSocketPrefix + name), &watch->listener_);
    made.Update(Take(OpenThisProcess(), &watch->process_));
    made.Update(Take(MakeEvent(), &watch->done_));
    made.Update(Take(MakeEvent(), &watch->stopped_));
    if (!made.ok()) return made;
    watch->address_ = absl::StrCat(watch->network_, " ", name);
    return watch;
  }

  ~LocalProcessWatch() override {
    if (!thread_.joinable()) return;
    Set(stopped_);
    thread_.join();
  }

  const std::string& address() const override { return address_; }

  void Watch(const std::vector<std::string>& addresses,
             OnNews on_news) override {
    for (size_t i = 0; i < addresses.size(); ++i) {
      if (addresses[i] == address_) continue;
      auto socket = SocketAt(addresses[i], network_);
      if (!socket) continue;
      peers_.push_back({static_cast<int>(i), *std::move(socket)});
    }
    if (peers_.empty()) return;
    on_news_ = std::move(on_news);
    thread_ = StartThread("ls-peers", [this] { Run(); });
  }

  void SetDone() override { Set(done_); }

 private:
  struct Watched {
    int index;
    std::string name;
    FileDescriptor socket = {};   // dialed; awaits the ProcessGreeting
    FileDescriptor process = {};  // then its pidfd
    FileDescriptor done = {};
  };

  LocalProcessWatch() = default;

  void Run() {
    for (;;) {
      bool dials = false;
      Visit([&](Watched& peer) {
        if (peer.socket.valid() || peer.process.valid()) return true;
        return Dial(peer, &dials);
      });
      std::vector<pollfd> fds = {{stopped_.get(), POLLIN, 0},
                                 {listener_.get(), POLLIN, 0}};
      for (const Watched& peer : peers_) {
        // poll skips the negative descriptor of a peer that is not dialed yet.
        const FileDescriptor& fd =
            peer.process.valid() ? peer.process : peer.socket;
        fds.push_back({fd.get(), POLLIN, 0});
      }
      poll(fds.data(), fds.size(), dials ? kDialAgainMs : -1);
      if (fds[0].revents != 0) return;
      if (fds[1].revents != 0) Greet();
      size_t at = 2;
      Visit(
          [&](Watched& peer) { return fds[at++].revents == 0 || Read(peer); });
    }
  }

  // Calls `keep` for each peer, and forgets those for which it is false.
  template <typename F>
  void Visit(F keep) {
    std::vector<Watched> kept;
    for (Watched& peer : peers_) {
      if (keep(peer)) kept.push_back(std::move(peer));
    }
    peers_ = std::move(kept);
  }

  // Gives this process's descriptors to those that have connected. A process
  // that gets none sees that its connection is closed.
  void Greet() {
    for (;;) {
      const absl::StatusOr<std::optional<FileDescriptor>> guest =
          Accept(listener_.get());
      if (!guest.ok()) return AwaitDescriptors();
      if (!guest->has_value()) return;
      if (!IsSameUser((*guest)->get())) continue;
      SendMessage((*guest)->get(), ProcessGreeting{},
                  {process_.get(), done_.get()})
          .IgnoreError();
    }
  }

  // Without a free descriptor the connection stays in the queue, and poll would
  // return at once.
  static void AwaitDescriptors() { poll(nullptr, 0, kDialAgainMs); }

  bool Dial(Watched& peer, bool* again) {
    absl::StatusOr<std::optional<FileDescriptor>> socket =
        DialLocally(peer.name);
    if (absl::IsNotFound(socket.status())) {
      return Tell(peer, ProcessNews::kSocketClosed, socket.status());
    }
    if (!socket.ok()) {
      return Tell(peer, ProcessNews::kUnwatched, socket.status());
    }
    if (!socket->has_value()) return *again = true;
    if (!IsSameUser((*socket)->get())) {
      return Tell(peer, ProcessNews::kUnwatched,
                  absl::PermissionDeniedError("it runs as another user"));
    }
    peer.socket = **std::move(socket);
    return true;
  }

  bool Read(Watched& peer) {
    if (peer.process.valid()) {
      if (IsReadable(peer.done)) return false;
      return Tell(peer, ProcessNews::kExited, absl::OkStatus());
    }
    ProcessGreeting greeting;
    auto message = ReceiveBytes(peer.socket.get(), &greeting, sizeof greeting);
    if (absl::IsResourceExhausted(message.status())) {
      return Tell(peer, ProcessNews::kUnwatched, message.status());
    }
    if (message.ok() && !message->has_value()) return true;
    if (!message.ok() || (*message)->bytes == 0) {
      return Tell(peer, ProcessNews::kSocketClosed,
                  absl::NotFoundError("its local socket was closed"));
    }
    std::vector<FileDescriptor>& files = (*message)->files;
    if ((*message)->bytes != sizeof greeting || greeting.magic != kMagic ||
        files.size() != 2) {
      return Tell(peer, ProcessNews::kUnwatched,
                  absl::DataLossError("another program answers at its socket"));
    }
    peer.process = std::move(files[0]);
    peer.done = std::move(files[1]);
    peer.socket = FileDescriptor();
    on_news_(peer.index, ProcessNews::kWatched, absl::OkStatus());
    return true;
  }

  // Always false: there is nothing more to tell about it.
  bool Tell(const Watched& peer, ProcessNews news, const absl::Status& why) {
    on_news_(peer.index, news, why);
    return false;
  }

  const std::string network_ = EndpointOfThisProcess().network;
  std::string address_;
  FileDescriptor listener_;
  FileDescriptor process_;
  FileDescriptor done_;
  FileDescriptor stopped_;  // readable once the thread must end
  OnNews on_news_;
  std::vector<Watched> peers_;  // used by the thread
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ProcessWatch>> MakeLocalProcessWatch() {
  return LocalProcessWatch::Listen();
}

}  // namespace lockstep::transport
