#include "client/transport/shm/shm_handle.h"

#include <unistd.h>

#include <climits>
#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/text/utf8.h"
#include "client/transport/failed_peer.h"

namespace lockstep::transport {
namespace {

constexpr char kHandleVersion[] = "shm1";

std::string LinkTarget(const char* path) {
  char target[PATH_MAX];
  const ssize_t length = readlink(path, target, sizeof target);
  return length < 0 ? "unknown" : std::string(target, length);
}

}  // namespace

Endpoint EndpointOfThisProcess() {
  Endpoint where;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> where.boot;
  if (where.boot.empty()) where.boot = "unknown";
  where.network = LinkTarget("/proc/self/ns/net");
  return where;
}

std::string PlaceOf(const Endpoint& where) {
  return absl::StrCat(where.boot, " ", where.network);
}

std::string Format(const ShmHandle& handle) {
  return absl::StrCat(kHandleVersion, " ", handle.rank, " ", handle.size, " ",
                      handle.where.boot, " ", handle.where.network, " ",
                      handle.socket, " ", absl::Hex(handle.token));
}

absl::StatusOr<ShmHandle> ParseShmHandle(const std::string& text, int rank,
                                         int size) {
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  ShmHandle handle;
  if (words.size() == 7 && words[0] == kHandleVersion &&
      IsPrintableUtf8(text) && absl::SimpleAtoi(words[1], &handle.rank) &&
      handle.rank == rank && absl::SimpleAtoi(words[2], &handle.size) &&
      handle.size == size && !words[5].empty() && words[5].size() < 100 &&
      absl::SimpleHexAtoi(words[6], &handle.token)) {
    handle.where = {words[3], words[4]};
    handle.socket = words[5];
    return handle;
  }
  return WithFailedPeer(
      absl::InvalidArgumentError(
          absl::StrCat("'", Printable(text), "' is no shared-memory handle of ",
                       "rank ", rank, " of ", size)),
      rank);
}

// FNV-1a: identical in all members.
uint64_t GroupOf(const std::vector<std::string>& handles) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const std::string& handle : handles) {
    for (char c : handle + "\n") {
      hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    }
  }
  return hash;
}

}  // namespace lockstep::transport
