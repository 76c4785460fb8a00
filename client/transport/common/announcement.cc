#include "client/transport/common/announcement.h"

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "client/transport/failed_peer.h"

namespace lockstep::transport {
namespace {

std::string Described(const Announcement& a) {
  std::string text = absl::StrCat(AbslView(Name(a.kind)), " of ", a.bytes,
                                  " bytes of ", AbslView(Name(a.dtype)));
  if (a.kind == CollectiveKind::kAllReduce ||
      a.kind == CollectiveKind::kReduceScatter) {
    absl::StrAppend(&text, " (", AbslView(Name(a.op)),
                    a.in_pairs != 0 ? " in pairs)" : ")");
  }
  if (a.kind == CollectiveKind::kBroadcast) {
    absl::StrAppend(&text, " from rank ", a.root);
  }
  return text;
}

}  // namespace

Announcement Announce(const CollectiveOp& call, size_t bytes) {
  Announcement a{.kind = call.kind, .dtype = call.dtype, .bytes = bytes};
  if (call.kind == CollectiveKind::kRecv) a.kind = CollectiveKind::kSend;
  if (call.kind == CollectiveKind::kBroadcast) a.root = call.peer;
  if (call.kind == CollectiveKind::kAllReduce ||
      call.kind == CollectiveKind::kReduceScatter) {
    a.op = call.op;
    a.in_pairs = call.in_pairs ? 1 : 0;
  }
  return a;
}

absl::Status CheckAnnouncement(const void* received,
                               const Announcement& expected, int peer) {
  Announcement announced;
  std::memcpy(&announced, received, sizeof announced);
  if (announced == expected) return absl::OkStatus();
  return WithFailedPeer(absl::DataLossError(absl::StrCat(
                            "rank ", peer, " came with ", Described(announced),
                            " where this rank expected ", Described(expected))),
                        peer);
}

}  // namespace lockstep::transport
