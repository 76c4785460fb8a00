#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file_descriptor.h"
#include "base/join_token.h"
#include "base/open_files.h"
#include "base/text/utf8.h"
#include "base/tls/probe.h"
#include "proto/grpc_credentials.h"
#include "proto/grpc_process.h"
#include "server/access/address.h"
#include "server/access/may_listen.h"
#include "server/etcd/access/access.h"
#include "server/etcd/access/member_status.h"
#include "tools/doctor/gather.h"

namespace lockstep::doctor {
namespace {

constexpr timeval kTimeout = {.tv_sec = 1, .tv_usec = 0};
constexpr absl::Duration kAnswerTimeout = absl::Seconds(3);
// A token for all jobs is a token for this one.
constexpr char kAnyJob[] = "any";

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

struct Resolved {
  absl::Status status;
  Addresses addresses{nullptr, &freeaddrinfo};
};

struct NameAndPort {
  std::string name;  // without brackets
  std::string port;
};

NameAndPort Split(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return {address, ""};
  std::string name = address.substr(0, colon);
  // gRPC takes schemes, too: "dns:///host:1".
  if (const size_t slash = name.rfind('/'); slash != std::string::npos) {
    name = name.substr(slash + 1);
  }
  if (name.size() > 2 && name.front() == '[' && name.back() == ']') {
    name = name.substr(1, name.size() - 2);
  }
  return {name, address.substr(colon + 1)};
}

Resolved Resolve(const NameAndPort& at, int flags = 0) {
  Resolved resolved;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(at.name.empty() ? nullptr : at.name.c_str(),
                  at.port.empty() ? nullptr : at.port.c_str(), &hints, &found);
  if (error != 0) {
    resolved.status = absl::NotFoundError(
        absl::StrCat("the name ", Printable(at.name),
                     " has no address: ", gai_strerror(error)));
    return resolved;
  }
  resolved.addresses.reset(found);
  return resolved;
}

bool IsLoopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return (ntohl(v4.sin_addr.s_addr) >> 24) == 127;
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  return address.sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) != 0;
}

bool IsAny(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return v4.sin_addr.s_addr == INADDR_ANY;
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  return address.sa_family == AF_INET6 &&
         IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr) != 0;
}

bool IsOnLoopback(const Resolved& resolved) {
  for (const addrinfo* at = resolved.addresses.get(); at != nullptr;
       at = at->ai_next) {
    if (!IsLoopback(*at->ai_addr)) return false;
  }
  return resolved.addresses != nullptr;
}

absl::Status SystemError() {
  const int error = errno;
  if (error == EADDRINUSE) {
    return absl::AlreadyExistsError("another process listens there");
  }
  // connect, which has a timeout of sends.
  if (error == EINPROGRESS || error == EAGAIN || error == ETIMEDOUT) {
    return absl::DeadlineExceededError("no answer within 1s");
  }
  const absl::Status status = absl::ErrnoToStatus(error, "");
  return absl::Status(status.code(), std::strerror(error));
}

absl::Status ConnectToAny(const Resolved& resolved) {
  absl::Status last = absl::UnavailableError("it has no address");
  for (const addrinfo* at = resolved.addresses.get(); at != nullptr;
       at = at->ai_next) {
    const FileDescriptor socket(
        ::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket.valid()) return SystemError();
    setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &kTimeout,
               sizeof kTimeout);
    if (connect(socket.get(), at->ai_addr, at->ai_addrlen) == 0) {
      return absl::OkStatus();
    }
    last = SystemError();
  }
  return last;
}

// A socket that listens.
absl::StatusOr<FileDescriptor> ListenOn(const addrinfo& at) {
  FileDescriptor socket(::socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return SystemError();
  const int one = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(socket.get(), at.ai_addr, at.ai_addrlen) != 0 ||
      listen(socket.get(), 1) != 0) {
    return SystemError();
  }
  return socket;
}

// Listens at the address of the last one, beside `held` of those before it.
void TryToListen(std::vector<ListenFacts>* listeners,
                 std::vector<FileDescriptor>* held) {
  ListenFacts& last = listeners->back();
  const auto address = rpc::ParseAddress(last.address);
  last.parsed = address.status();
  if (!address.ok()) return;
  const Resolved resolved = Resolve(Split(last.address), AI_PASSIVE);
  last.bound = resolved.status;
  if (!last.bound.ok()) return;
  auto socket = ListenOn(*resolved.addresses);
  last.bound = socket.status();
  if (socket.ok()) held->push_back(*std::move(socket));
  if (!absl::IsAlreadyExists(last.bound)) return;
  for (const ListenFacts& other : *listeners) {
    const auto before = rpc::ParseAddress(other.address);
    const bool has_port = before.ok() && before->port == address->port;
    if (has_port && other.bound.ok()) last.same_port_as = other.flag;
  }
}

}  // namespace

CoordinatorFacts GatherCoordinator(const std::string& address,
                                   const CoordinatorAccess& access) {
  CoordinatorFacts facts;
  facts.address = address;
  const Resolved resolved = Resolve(Split(address));
  facts.resolved = resolved.status;
  if (!facts.resolved.ok()) return facts;
  facts.is_loopback = IsOnLoopback(resolved);
  facts.connected = ConnectToAny(resolved);
  if (!facts.connected.ok()) return facts;
  facts.lacks_certificates = access.lacks_certificates;
  if (facts.lacks_certificates) return facts;
  facts.tls = tls::FindTlsFault({address}, access.tls_folder);
  if (const auto shown = tls::ShownCertificate(address, access.tls_folder);
      shown.ok()) {
    facts.shown = *shown;
  }
  if (facts.tls) return facts;
  // gRPC aborts without them.
  if (absl::Status files = RequireOpenFiles(proto::kFilesOfGrpc); !files.ok()) {
    facts.met = files;
    return facts;
  }
  const JobName job{access.job.empty() ? kAnyJob : access.job};
  ctl::AdminClientOptions options{.addresses = address,
                                  .token = access.token,
                                  .tls_folder = access.tls_folder,
                                  .deadline = kAnswerTimeout};
  facts.met = ctl::AdminClient(options).Meet(job);
  facts.asked = absl::Now();
  if (!facts.met.ok() || access.worker_token.empty()) return facts;
  if (auto token = JoinToken(access.worker_token, job.value); token.ok()) {
    options.token = *std::move(token);
    facts.admits_workers = ctl::AdminClient(options).AskAsWorker(job);
  }
  return facts;
}

HostAddressFacts GatherHostAddress(const std::string& text) {
  HostAddressFacts facts;
  facts.text = text;
  const Resolved resolved = Resolve({text, "0"});
  facts.resolved = resolved.status;
  if (!facts.resolved.ok()) return facts;
  facts.is_loopback = IsOnLoopback(resolved);
  facts.is_any = IsAny(*resolved.addresses->ai_addr);
  for (const addrinfo* at = resolved.addresses.get(); at != nullptr;
       at = at->ai_next) {
    facts.is_here |= ListenOn(*at).ok();
  }
  return facts;
}

std::vector<ListenFacts> GatherListeners(const ListenerFlags& flags) {
  std::vector<ListenFacts> listeners;
  std::vector<FileDescriptor> held;  // so that two cannot have one port
  const std::pair<const char*, const std::string*> given[] = {
      {"--listen", &flags.listen},
      {"--health-address", &flags.health_address},
      {"--metrics-address", &flags.metrics_address}};
  for (const auto& [flag, address] : given) {
    if (address->empty()) continue;
    listeners.push_back({.flag = flag, .address = *address});
    TryToListen(&listeners, &held);
    ListenFacts& last = listeners.back();
    // The others are in plaintext, and may leave this machine.
    if (address != &flags.listen || !last.parsed.ok()) continue;
    last.allowed = rpc::CheckInsecure(flags.tls_folder, flags.insecure);
    last.allowed.Update(rpc::MayListen(*rpc::ParseAddress(*address),
                                       flags.tls_folder, flags.insecure));
  }
  return listeners;
}

EtcdMember GatherEtcdMember(const std::string& address,
                            const EtcdAccess& access) {
  EtcdMember member;
  member.address = address;
  const Resolved resolved = Resolve(Split(address));
  member.connected =
      resolved.status.ok() ? ConnectToAny(resolved) : resolved.status;
  member.lacks_certificates = access.lacks_certificates;
  if (!member.connected.ok() || member.lacks_certificates) return member;
  member.tls =
      tls::FindTlsFault({address}, access.tls_folder, etcd::EtcdWords());
  if (member.tls) return member;
  const auto credentials =
      proto::ClientCredentials::Make(access.tls_folder, {});
  absl::Status ready = RequireOpenFiles(proto::kFilesOfGrpc);
  if (ready.ok()) ready = credentials.status();
  if (!ready.ok()) {
    member.says = ready;
    return member;
  }
  member.says = etcd::AskMember(address, (*credentials)->Current(), access.key,
                                kAnswerTimeout);
  return member;
}

}  // namespace lockstep::doctor
