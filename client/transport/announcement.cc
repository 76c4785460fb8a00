#include "client/transport/announcement.h"

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "client/transport/blame.h"

namespace lockstep::transport {
namespace {

std::string Described(const Announcement& a) {
  std::string text = absl::StrCat(AbslView(Name(a.kind)), " of ", a.bytes,
                                  " bytes of ", AbslView(Name(a.dtype)));
  if (a.kind == CallKind::kAllReduce || a.kind == CallKind::kReduceScatter) {
    absl::StrAppend(&text, " (", AbslView(Name(a.op)),
                    a.in_pairs ? " in pairs)" : ")");
  }
  if (a.kind == CallKind::kBroadcast) {
    absl::StrAppend(&text, " from rank ", a.root);
  }
  return text;
}

}  // namespace

Announcement Announce(const Call& call, size_t bytes) {
  Announcement a{.kind = call.kind, .dtype = call.dtype, .bytes = bytes};
  if (call.kind == CallKind::kRecv) a.kind = CallKind::kSend;
  if (call.kind == CallKind::kBroadcast) a.root = call.peer;
  if (call.kind == CallKind::kAllReduce ||
      call.kind == CallKind::kReduceScatter) {
    a.op = call.op;
    a.in_pairs = call.in_pairs;
  }
  return a;
}

absl::Status CheckAnnouncement(const void* received,
                               const Announcement& expected, int peer) {
  Announcement announced;
  std::memcpy(&announced, received, sizeof announced);
  if (announced == expected) return absl::OkStatus();
  return Blame(absl::DataLossError(absl::StrCat(
                   "rank ", peer, " came with ", Described(announced),
                   " where this rank expected ", Described(expected))),
               peer);
}

}  // namespace lockstep::transport
