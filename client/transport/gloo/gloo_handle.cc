#include "client/transport/gloo/gloo_handle.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/text/utf8.h"
#include "client/transport/failed_peer.h"

namespace lockstep::transport {
namespace {

constexpr absl::string_view kVersion = "gloo3";

bool ParsePorts(absl::string_view text, GlooHandle* handle) {
  for (absl::string_view port : absl::StrSplit(text, ',')) {
    uint32_t number = 0;
    if (!absl::SimpleAtoi(port, &number) || number > UINT16_MAX) return false;
    handle->ports.push_back(static_cast<uint16_t>(number));
  }
  for (size_t rank = 0; rank < handle->ports.size(); ++rank) {
    const bool own = rank == static_cast<size_t>(handle->rank);
    if ((handle->ports[rank] == 0) != own) return false;
  }
  return true;
}

constexpr size_t kSecretBytes = 16;

bool IsSecret(absl::string_view text) {
  return text.size() == 2 * kSecretBytes &&
         std::all_of(text.begin(), text.end(), absl::ascii_isxdigit);
}

}  // namespace

std::string Format(const GlooHandle& handle) {
  return absl::StrCat(kVersion, " ", handle.rank, " ", handle.ports.size(), " ",
                      handle.address, " ", absl::StrJoin(handle.ports, ","),
                      " ", handle.secret);
}

absl::StatusOr<GlooHandle> ParseGlooHandle(const std::string& text, int rank,
                                           int size) {
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ');
  GlooHandle handle{.rank = rank};
  int said_rank = -1;
  int said_size = -1;
  const bool parsed =
      words.size() == 6 && words[0] == kVersion &&
      absl::SimpleAtoi(words[1], &said_rank) && said_rank == rank &&
      absl::SimpleAtoi(words[2], &said_size) && said_size == size &&
      ParsePorts(words[4], &handle) && IsSecret(words[5]) &&
      handle.ports.size() == static_cast<size_t>(size);
  if (parsed) {
    handle.address = std::string(words[3]);
    handle.secret = std::string(words[5]);
    if (ListenerFor(handle, rank).ok()) return handle;
  }
  const auto shown = text.substr(0, text.rfind(' '));  // without the secret
  return WithFailedPeer(
      absl::InvalidArgumentError(absl::StrCat("'", Printable(shown),
                                              "' is no Gloo handle of rank ",
                                              rank, " of ", size)),
      rank);
}

absl::StatusOr<std::string> DrawGlooSecret() {
  std::string bytes(kSecretBytes, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()),
                 kSecretBytes) != 1) {
    return absl::InternalError("the system has no random numbers");
  }
  return absl::BytesToHexString(bytes);
}

GroupKey KeyOf(const std::vector<GlooHandle>& handles) {
  std::string text;
  for (const GlooHandle& handle : handles) {
    absl::StrAppend(&text, Format(handle), "\n");
  }
  GroupKey key;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         key.data());
  return key;
}

LinkProof ProofOf(const GroupKey& key, absl::string_view role, int from,
                  int to) {
  const std::string text = absl::StrCat(role, " ", from, " ", to);
  LinkProof proof;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(),
       proof.data(), nullptr);
  return proof;
}

bool Equal(const LinkProof& a, const LinkProof& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

ConnectionHeader HeaderOf(const GroupKey& key, int from, int to) {
  return {.from = from,
          .to = to,
          .proof = ProofOf(key, ConnectionHeader::kRole, from, to)};
}

absl::StatusOr<sockaddr_storage> ListenerFor(const GlooHandle& handle,
                                             int rank) {
  sockaddr_storage storage;
  std::memset(&storage, 0, sizeof storage);
  auto* const v4 = reinterpret_cast<sockaddr_in*>(&storage);
  auto* const v6 = reinterpret_cast<sockaddr_in6*>(&storage);
  const char* const address = handle.address.c_str();
  if (inet_pton(AF_INET, address, &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(handle.ports[rank]);
    return storage;
  }
  if (inet_pton(AF_INET6, address, &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(handle.ports[rank]);
    return storage;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", handle.address, "' is no address"));
}

std::string NumericHost(const sockaddr& address) {
  const socklen_t length = address.sa_family == AF_INET6 ? sizeof(sockaddr_in6)
                                                         : sizeof(sockaddr_in);
  char host[NI_MAXHOST] = "?";
  getnameinfo(&address, length, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  return host;
}

uint16_t Port(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

}  // namespace lockstep::transport
