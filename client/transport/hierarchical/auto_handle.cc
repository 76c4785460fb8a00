#include "client/transport/hierarchical/auto_handle.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/text/utf8.h"
#include "client/transport/failed_peer.h"

namespace lockstep::transport {
namespace {

constexpr absl::string_view kAutoHandleVersion = "auto1 ";
constexpr absl::string_view kBetween = " + ";

}  // namespace

std::string Format(const AutoHandle& handle) {
  return absl::StrCat(kAutoHandleVersion, Format(handle.shm), kBetween,
                      handle.link);
}

absl::StatusOr<AutoHandle> ParseAutoHandle(const std::string& text, int rank,
                                           int size) {
  absl::string_view rest = text;
  const bool known = absl::ConsumePrefix(&rest, kAutoHandleVersion);
  const size_t between = rest.find(kBetween);
  if (!known || between == absl::string_view::npos) {
    return WithFailedPeer(absl::InvalidArgumentError(absl::StrCat(
                              "'", Printable(text), "' is no handle of ",
                              "rank ", rank, " of ", size)),
                          rank);
  }
  auto shm = ParseShmHandle(std::string(rest.substr(0, between)), rank, size);
  if (!shm.ok()) return std::move(shm).status();
  return AutoHandle{*std::move(shm),
                    std::string(rest.substr(between + kBetween.size()))};
}

}  // namespace lockstep::transport
