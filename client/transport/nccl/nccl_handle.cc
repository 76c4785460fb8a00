#include "client/transport/nccl/nccl_handle.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/text/utf8.h"
#include "client/transport/failed_peer.h"

namespace lockstep::transport::nccl {
namespace {

std::string Place(const GroupSpec& group, int rank) {
  return absl::StrCat("nccl ", rank, "/", group.size);
}

bool IsId(absl::string_view hex) {
  return hex.size() == 2 * sizeof(NcclUniqueId) &&
         std::all_of(hex.begin(), hex.end(),
                     [](unsigned char c) { return std::isxdigit(c) != 0; });
}

absl::Status Malformed(const GroupSpec& group, const std::string& handle,
                       int rank) {
  return WithFailedPeer(
      absl::InvalidArgumentError(
          absl::StrCat("group '", group.name, "': '", Printable(handle),
                       "' is no handle of rank ", rank, " of ", group.size)),
      rank);
}

}  // namespace

std::string FormatHandle(const GroupSpec& group, const NcclUniqueId* id) {
  std::string handle = Place(group, group.rank);
  if (id != nullptr) {
    absl::StrAppend(&handle, " ",
                    absl::BytesToHexString({id->bytes, sizeof id->bytes}));
  }
  return handle;
}

absl::StatusOr<NcclUniqueId> ParseHandles(
    const GroupSpec& group, const std::vector<std::string>& handles) {
  for (int rank = 1; rank < group.size; ++rank) {
    if (handles[rank] != Place(group, rank)) {
      return Malformed(group, handles[rank], rank);
    }
  }
  absl::string_view first = handles[0];
  if (!absl::ConsumePrefix(&first, absl::StrCat(Place(group, 0), " ")) ||
      !IsId(first)) {
    return Malformed(group, handles[0], 0);
  }
  NcclUniqueId id;
  const std::string bytes = absl::HexStringToBytes(first);
  std::memcpy(id.bytes, bytes.data(), sizeof id.bytes);
  return id;
}

}  // namespace lockstep::transport::nccl
