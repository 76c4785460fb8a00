#include "client/transport/gloo/gloo.h"

#include <gloo/transport/tcp/attr.h>
#include <gloo/transport/tcp/device.h>
#include <ifaddrs.h>
#include <netdb.h>

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/open_files.h"
#include "base/thread.h"
#include "client/transport/collectives/link_transport.h"
#include "client/transport/gloo/gloo_handle.h"
#include "client/transport/gloo/gloo_link.h"
#include "client/transport/gloo/gloo_pair.h"
#include "client/transport/gloo/link_timer.h"

namespace lockstep::transport {
namespace {

using Device = gloo::transport::tcp::Device;

class PendingGlooLink final : public PendingLink {
 public:
  PendingGlooLink(const GroupSpec& group, std::unique_ptr<GlooLink> link)
      : size_(group.size),
        handle_(Format(link->handle())),
        link_(std::move(link)) {}

  const std::string& handle() const override { return handle_; }

  absl::Status Connect(const std::vector<std::string>& handles,
                       const Deadline& deadline) override {
    std::vector<GlooHandle> parsed;
    for (int rank = 0; rank < size_; ++rank) {
      auto handle = ParseGlooHandle(handles[rank], rank, size_);
      if (!handle.ok()) return std::move(handle).status();
      parsed.push_back(*std::move(handle));
    }
    return link_->Connect(parsed, deadline);
  }

  Link& link() override { return *link_; }
  std::unique_ptr<Link> Take() override { return std::move(link_); }
  void Abort() override { link_->Shutdown(link_->rank()); }

 private:
  const int size_;
  const std::string handle_;
  std::unique_ptr<GlooLink> link_;
};

class GlooLinks final : public LinkFactory {
 public:
  explicit GlooLinks(std::shared_ptr<LinkTimer> timer)
      : timer_(std::move(timer)) {}

  std::string_view name() const override { return "gloo"; }

  absl::StatusOr<std::unique_ptr<PendingLink>> Prepare(
      const GroupSpec& group) override {
    absl::StatusOr<std::unique_ptr<GlooLink>> link =
        GlooLink::Listen(timer_, group.rank, group.size);
    if (!link.ok()) return std::move(link).status();
    return std::make_unique<PendingGlooLink>(group, *std::move(link));
  }

 private:
  const std::shared_ptr<LinkTimer> timer_;
};

// Whether `address` belongs to one of this host's interfaces; all of 127.* do.
// Gloo checks this itself, but leaks memory if the address does not exist.
bool OfThisHost(const sockaddr_storage& address) {
  if (NumericHost(AsSockaddr(address)).rfind("127.", 0) == 0) return true;
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) return false;
  bool ours = false;
  for (const ifaddrs* at = found; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr) continue;
    ours |= at->ifa_addr->sa_family == address.ss_family &&
            NumericHost(*at->ifa_addr) == NumericHost(AsSockaddr(address));
  }
  freeifaddrs(found);
  return ours;
}

// What Gloo's device opens: epoll, a listener, interfaces.
constexpr int kDeviceFiles = 4;

// Resolving, listing interfaces and Gloo's loop need file descriptors, and do
// not report when there are none. When the error is known, what had been opened
// is closed again.
absl::Status UnlessOutOfFiles(absl::Status error) {
  return RequireOpenFiles(kDeviceFiles).ok() ? error
                                             : OutOfFiles(error.message());
}

// Returns a numeric address, which Gloo resolves without error.
absl::StatusOr<std::string> Resolve(const std::string& name) {
  addrinfo* found = nullptr;
  const addrinfo hints{.ai_socktype = SOCK_STREAM};
  const int error = getaddrinfo(name.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the address '", name, "' is unknown: ", gai_strerror(error)));
  }
  sockaddr_storage address{};
  std::memcpy(&address, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  if (!OfThisHost(address)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", name, "' is not an address of this host"));
  }
  return NumericHost(AsSockaddr(address));
}

}  // namespace

absl::StatusOr<std::unique_ptr<LinkFactory>> MakeGlooLinks(
    const GlooOptions& options) {
  absl::StatusOr<std::string> address = Resolve(options.bind_address);
  if (!address.ok()) return UnlessOutOfFiles(std::move(address).status());
  std::shared_ptr<Device> device;
  absl::Status made;
  // Gloo starts its thread here, which inherits this thread's name and signals.
  StartThread("ls-gloo", [&] {
    try {
      device =
          std::dynamic_pointer_cast<Device>(gloo::transport::tcp::CreateDevice(
              gloo::transport::tcp::attr(address->c_str())));
    } catch (const std::exception& error) {
      made = StatusOfGloo(std::current_exception(), /*peer=*/-1);
      if (absl::IsResourceExhausted(made)) return;
      made = UnlessOutOfFiles(absl::InvalidArgumentError(absl::StrCat(
          "cannot listen on '", options.bind_address, "': ", error.what())));
    }
  }).join();
  if (!made.ok()) return made;
  absl::StatusOr<std::shared_ptr<LinkTimer>> timer =
      LinkTimer::Start(std::move(device), options.silence);
  if (!timer.ok()) return std::move(timer).status();
  return std::make_unique<GlooLinks>(*std::move(timer));
}

absl::StatusOr<std::unique_ptr<Transport>> MakeGlooTransport(
    const GlooOptions& options) {
  absl::StatusOr<std::unique_ptr<LinkFactory>> links = MakeGlooLinks(options);
  if (!links.ok()) return std::move(links).status();
  return MakeLinkTransport(*std::move(links));
}

}  // namespace lockstep::transport
