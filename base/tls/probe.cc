#include "base/tls/probe.h"

#include <fcntl.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "base/file_descriptor.h"
#include "base/tls/tls_folder.h"
#include "base/user_file.h"

namespace lockstep::tls {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(1);

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};

struct HostAndPort {
  std::string host;
  std::string port;
};

// Without brackets; empty for addresses that are not HOST:PORT.
std::optional<HostAndPort> Split(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || address.find('/') != std::string::npos) {
    return std::nullopt;
  }
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return HostAndPort{host, address.substr(colon + 1)};
}

void SetTimeout(int socket, absl::Duration timeout) {
  const timeval limit = absl::ToTimeval(timeout);
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

FileDescriptor ConnectTo(const HostAndPort& to, absl::Duration timeout) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(to.host.c_str(), to.port.c_str(), &hints, &found) != 0) {
    return {};
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(
      found, &freeaddrinfo);
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    FileDescriptor socket(
        ::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket.valid()) return {};
    SetTimeout(socket.get(), timeout);  // of connect, too
    if (connect(socket.get(), at->ai_addr, at->ai_addrlen) == 0) return socket;
  }
  return {};
}

absl::StatusOr<std::vector<X509Handle>> Roots(const std::string& folder) {
  const auto pem = ReadUserFile(FilesIn(folder).authority, kPemBytesMax);
  if (!pem.ok()) return pem.status();
  return ParseCertificates(*pem);
}

std::vector<X509Handle> ChainOf(SSL* ssl) {
  std::vector<X509Handle> chain;
  STACK_OF(X509)* const sent = SSL_get_peer_cert_chain(ssl);
  for (int i = 0; i < sk_X509_num(sent); ++i) {
    X509* const certificate = sk_X509_value(sent, i);
    X509_up_ref(certificate);
    chain.emplace_back(certificate);
  }
  return chain;
}

bool IsFor(X509* certificate, const std::string& host) {
  return X509_check_host(certificate, host.data(), host.size(), 0, nullptr) ==
             1 ||
         X509_check_ip_asc(certificate, host.c_str(), 0) == 1;
}

absl::Status CheckServer(const std::vector<X509Handle>& chain,
                         const std::string& host, const std::string& folder,
                         const ProbedServer& server) {
  const auto roots = Roots(folder);
  if (chain.empty() || !roots.ok()) return absl::OkStatus();
  absl::Status good = CheckChain(chain, *roots, absl::Now());
  if (!good.ok()) return good;
  X509* const leaf = chain.front().get();
  const CertificateFacts facts = FactsOf(*leaf);
  if (!HasRole(leaf, CertificateRole::kCoordinator)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "its certificate, ", facts.Owner(), ", is not one of ", server.role));
  }
  if (IsFor(leaf, host)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "its certificate is for ",
      facts.hosts.empty() ? "no host" : absl::StrJoin(facts.hosts, ", "),
      ", and not for ", host));
}

// Whether the server answers HTTP/2 without TLS. One that closes connections on
// which it reads what it does not know says no more by itself, as etcd does.
bool ServesPlaintext(const HostAndPort& at) {
  const FileDescriptor socket = ConnectTo(at, kTimeout);
  if (!socket.valid()) return false;
  constexpr absl::string_view kPrefaceAndSettings(
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 24 + 9);
  constexpr char kSettings = 4;
  if (send(socket.get(), kPrefaceAndSettings.data(), kPrefaceAndSettings.size(),
           MSG_NOSIGNAL) != static_cast<ssize_t>(kPrefaceAndSettings.size())) {
    return false;
  }
  char frame[9] = {};
  return recv(socket.get(), frame, sizeof frame, MSG_WAITALL) ==
             static_cast<ssize_t>(sizeof frame) &&
         frame[3] == kSettings;
}

// The server checks the client's certificate after its own part of the
// handshake; its verdict is the first thing to be read.
absl::Status ReadVerdict(SSL* ssl) {
  char byte = 0;
  const int got = SSL_read(ssl, &byte, 1);
  if (got > 0) return absl::OkStatus();
  const unsigned long error = ERR_peek_error();
  const int reason = ERR_GET_REASON(error);
  if (ERR_GET_LIB(error) != ERR_LIB_SSL || reason < SSL_AD_REASON_OFFSET) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("it refuses this client's certificate: ",
                   ERR_reason_error_string(error)));
}

using Ssl = std::unique_ptr<SSL, FreeSsl>;

// A connection that has not begun its handshake; null if there is no memory.
Ssl MakeSsl(int socket, const std::string& host, const std::string& folder) {
  const std::unique_ptr<SSL_CTX, FreeContext> context(
      SSL_CTX_new(TLS_client_method()));
  if (context == nullptr) return nullptr;
  if (!folder.empty()) {
    const TlsFiles files = FilesIn(folder);
    SSL_CTX_use_certificate_chain_file(context.get(),
                                       files.certificate.c_str());
    SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(),
                                SSL_FILETYPE_PEM);
  }
  Ssl ssl(SSL_new(context.get()));
  if (ssl == nullptr) return nullptr;
  const unsigned char protocol[] = {2, 'h', '2'};
  SSL_set_alpn_protos(ssl.get(), protocol, sizeof protocol);
  SSL_set_tlsext_host_name(ssl.get(), host.c_str());
  SSL_set_fd(ssl.get(), socket);
  return ssl;
}

std::optional<TlsFault> FaultOf(const absl::Status& status) {
  if (status.ok()) return std::nullopt;
  return TlsFault{.what = std::string(status.message()), .remedy = ""};
}

std::optional<TlsFault> SpeakTls(int socket, const HostAndPort& to,
                                 const std::string& folder,
                                 const ProbedServer& server) {
  const Ssl ssl = MakeSsl(socket, to.host, folder);
  if (ssl == nullptr) return std::nullopt;
  ERR_clear_error();
  const bool shaken = SSL_connect(ssl.get()) == 1;
  const int reason = ERR_GET_REASON(ERR_peek_error());
  if (folder.empty()) {
    if (!shaken) return std::nullopt;
    return TlsFault{"it serves TLS, and this client has no certificates",
                    server.if_it_serves_tls};
  }
  const bool is_told = reason == SSL_R_WRONG_VERSION_NUMBER ||
                       reason == SSL_R_PACKET_LENGTH_TOO_LONG;
  const std::vector<X509Handle> chain = ChainOf(ssl.get());
  if (!shaken && (is_told || (chain.empty() && ServesPlaintext(to)))) {
    return TlsFault{"it serves plaintext, and this client wants TLS",
                    server.if_it_serves_plaintext};
  }
  const absl::Status good = CheckServer(chain, to.host, folder, server);
  return FaultOf(good.ok() ? ReadVerdict(ssl.get()) : good);
}

std::optional<TlsFault> ProbeOne(const std::string& address,
                                 const std::string& folder,
                                 const ProbedServer& server) {
  const std::optional<HostAndPort> to = Split(address);
  if (!to) return std::nullopt;
  const FileDescriptor socket = ConnectTo(*to, kTimeout);
  if (!socket.valid()) return std::nullopt;
  std::optional<TlsFault> fault = SpeakTls(socket.get(), *to, folder, server);
  ERR_clear_error();
  if (fault) {
    fault->what = absl::StrCat(server.name, " at ", address, ": ", fault->what);
  }
  return fault;
}

}  // namespace

std::optional<TlsFault> FindTlsFault(absl::Span<const std::string> addresses,
                                     const std::string& folder,
                                     const ProbedServer& server) {
  for (const std::string& address : addresses) {
    auto fault = ProbeOne(address, folder, server);
    if (fault) return fault;
  }
  return std::nullopt;
}

absl::Status ProbeTls(absl::Span<const std::string> addresses,
                      const std::string& folder, const ProbedServer& server) {
  const auto fault = FindTlsFault(addresses, folder, server);
  if (!fault) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fault->remedy.empty() ? fault->what
                            : absl::StrCat(fault->what, ": ", fault->remedy));
}

absl::StatusOr<CertificateFacts> ShownCertificate(const std::string& address,
                                                  const std::string& folder) {
  const absl::Status none =
      absl::UnavailableError(absl::StrCat(address, " shows no certificate"));
  const std::optional<HostAndPort> to = Split(address);
  if (!to) return none;
  const FileDescriptor socket = ConnectTo(*to, kTimeout);
  if (!socket.valid()) return none;
  const Ssl ssl = MakeSsl(socket.get(), to->host, folder);
  if (ssl == nullptr) return none;
  // ProbeTls says whether it failed; the certificate has come before.
  (void)SSL_connect(ssl.get());
  ERR_clear_error();
  const std::vector<X509Handle> chain = ChainOf(ssl.get());
  if (chain.empty()) return none;
  return FactsOf(*chain.front());
}

}  // namespace lockstep::tls
