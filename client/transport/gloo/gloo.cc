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
#include "base/deadline.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "client/transport/gloo/gloo_handle.h"
#include "client/transport/gloo/gloo_link.h"
#include "client/transport/group_check.h"
#include "client/transport/host_communicator.h"

namespace lockstep::transport {
namespace {

using Device = gloo::transport::tcp::Device;

class GlooGroup final : public PendingGroup {
 public:
  GlooGroup(const GroupSpec& group, std::unique_ptr<GlooLink> link)
      : group_(group),
        handle_(Format(link->handle())),
        link_(std::move(link)) {}

  const std::string& handle() const override { return handle_; }

  absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      const std::vector<std::string>& handles,
      absl::Duration timeout) override {
    const Deadline deadline(timeout);
    if (absl::Status open = Open(); !open.ok()) return open;
    absl::StatusOr<std::vector<GlooHandle>> parsed = Parse(handles);
    if (!parsed.ok()) return std::move(parsed).status();
    // On a thread of the library: it writes to sockets, and must not take the
    // SIGPIPE of one that a peer has closed.
    absl::Status connected;
    StartThread("ls-connect", [&] {
      connected = link_->Connect(*parsed, deadline);
    }).join();
    std::unique_ptr<GlooLink> link = Close();
    if (absl::Status open = aborted(); !open.ok()) return open;
    if (!connected.ok()) return connected;
    return MakeHostCommunicator(group_, std::move(link));
  }

  void Abort(std::string_view cause) override {
    MutexLock lock(&mutex_);
    if (!aborted_.ok()) return;
    aborted_ =
        absl::AbortedError(absl::string_view(cause.data(), cause.size()));
    if (link_ != nullptr) link_->Cut();
  }

 private:
  absl::Status aborted() {
    MutexLock lock(&mutex_);
    return aborted_;
  }

  absl::Status Open() {
    MutexLock lock(&mutex_);
    if (!aborted_.ok()) return aborted_;
    if (link_ != nullptr) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("group '", group_.name, "' has been connected before"));
  }

  // From here on, Abort is the communicator's.
  std::unique_ptr<GlooLink> Close() {
    MutexLock lock(&mutex_);
    return std::move(link_);
  }

  absl::StatusOr<std::vector<GlooHandle>> Parse(
      const std::vector<std::string>& handles) const {
    absl::Status checked = CheckHandles(group_, handles, handle_);
    if (!checked.ok()) return checked;
    std::vector<GlooHandle> parsed;
    for (int rank = 0; rank < group_.size; ++rank) {
      absl::StatusOr<GlooHandle> handle =
          ParseGlooHandle(handles[rank], rank, group_.size);
      if (!handle.ok()) return std::move(handle).status();
      parsed.push_back(*std::move(handle));
    }
    return parsed;
  }

  const GroupSpec group_;
  const std::string handle_;
  Mutex mutex_;
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<GlooLink> link_;  // taken under mutex_, by Connect alone
};

class GlooTransport final : public Transport {
 public:
  explicit GlooTransport(std::shared_ptr<Device> device)
      : device_(std::move(device)) {}

  std::string_view name() const override { return "gloo"; }

  absl::StatusOr<std::unique_ptr<PendingGroup>> Prepare(
      const GroupSpec& group) override {
    if (absl::Status checked = CheckGroup(group); !checked.ok()) return checked;
    absl::StatusOr<std::unique_ptr<GlooLink>> link =
        GlooLink::Listen(device_, group.rank, group.size);
    if (!link.ok()) return std::move(link).status();
    return std::make_unique<GlooGroup>(group, *std::move(link));
  }

 private:
  const std::shared_ptr<Device> device_;
};

// Whether `address` belongs to one of this host's interfaces; all of 127.*
// does. Gloo looks for itself, but loses memory where there is none.
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

// As a number, which Gloo resolves without error.
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

absl::StatusOr<std::unique_ptr<Transport>> MakeGlooTransport(
    const GlooOptions& options) {
  absl::StatusOr<std::string> address = Resolve(options.bind_address);
  if (!address.ok()) return std::move(address).status();
  std::shared_ptr<Device> device;
  absl::Status made;
  // Gloo starts its thread here; it inherits this one's name and signals.
  StartThread("ls-gloo", [&] {
    try {
      device =
          std::dynamic_pointer_cast<Device>(gloo::transport::tcp::CreateDevice(
              gloo::transport::tcp::attr(address->c_str())));
    } catch (const std::exception& error) {
      made = absl::InvalidArgumentError(absl::StrCat(
          "cannot listen on '", options.bind_address, "': ", error.what()));
    }
  }).join();
  if (!made.ok()) return made;
  return std::make_unique<GlooTransport>(std::move(device));
}

}  // namespace lockstep::transport
