#include "server/etcd/access/url.h"

#include <arpa/inet.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/text/utf8.h"

namespace lockstep::etcd {
namespace {

constexpr size_t kMembersMax = 16;
constexpr size_t kPrefixBytesMax = 256;

absl::Status Refuse(absl::string_view text, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", Printable(text), "\": ", why,
      "; a journal in etcd is etcd://HOST:PORT[,HOST:PORT...]/PREFIX"));
}

bool IsName(absl::string_view prefix) {
  for (const char c : prefix) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) &&
        !absl::StrContains("-_./", c)) {
      return false;
    }
  }
  return !prefix.empty() && prefix.size() <= kPrefixBytesMax &&
         prefix.front() != '/' && prefix.back() != '/' &&
         !absl::StrContains(prefix, "//");
}

// What is below a prefix, of etcd_store.h.
constexpr absl::string_view kOwnNames[] = {"leader", "format",   "head",
                                           "record", "snapshot", "term-base"};

// The part of the prefix that is called as one of them; empty: none.
absl::string_view OwnNameIn(absl::string_view prefix) {
  for (const absl::string_view part : absl::StrSplit(prefix, '/')) {
    for (const absl::string_view name : kOwnNames) {
      if (part == name) return name;
    }
  }
  return "";
}

}  // namespace

absl::StatusOr<Url> ParseUrl(absl::string_view text) {
  absl::string_view rest = text;
  if (!absl::ConsumePrefix(&rest, kScheme)) return Refuse(text, "no etcd://");
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(rest, absl::MaxSplits('/', 1));
  Url url{.is_on_loopback = true};
  for (const absl::string_view member : absl::StrSplit(parts.first, ',')) {
    const size_t colon = member.rfind(':');
    int port = 0;
    const bool has_port = colon != absl::string_view::npos && colon > 0 &&
                          absl::SimpleAtoi(member.substr(colon + 1), &port) &&
                          port > 0 && port < 65536;
    if (!has_port) {
      return Refuse(
          text, absl::StrCat("\"", Printable(member), "\" is no HOST:PORT"));
    }
    const absl::string_view host = member.substr(0, colon);
    in_addr address;
    const bool is_127 =
        inet_pton(AF_INET, std::string(host).c_str(), &address) == 1 &&
        ntohl(address.s_addr) >> 24 == 127;
    url.is_on_loopback &= host == "localhost" || host == "[::1]" || is_127;
    url.members.emplace_back(member);
  }
  if (url.members.size() > kMembersMax) {
    return Refuse(text, absl::StrCat("more than ", kMembersMax, " members"));
  }
  url.prefix = std::string(absl::StripSuffix(parts.second, "/"));
  if (url.prefix.empty()) return Refuse(text, "it has no PREFIX");
  if (!IsName(url.prefix)) {
    return Refuse(text, "PREFIX has letters, digits and -_./ only");
  }
  if (const absl::string_view own = OwnNameIn(url.prefix); !own.empty()) {
    return Refuse(text, absl::StrCat("a part of PREFIX is \"", own,
                                     "\", as keys of a journal are called: it "
                                     "could be in the midst of another one"));
  }
  return url;
}

}  // namespace lockstep::etcd
