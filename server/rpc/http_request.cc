#include "server/rpc/http_request.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace lockstep::rpc {
namespace {

constexpr absl::string_view kLineEnd = "\r\n";
constexpr absl::string_view kHeadEnd = "\r\n\r\n";

bool IsMethod(absl::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return absl::ascii_isupper(static_cast<unsigned char>(c));
  });
}

bool IsVersion(absl::string_view word) {
  return word == "HTTP/1.0" || word == "HTTP/1.1";
}

}  // namespace

std::optional<int> JudgeRequest(absl::string_view received,
                                absl::string_view path) {
  // Such as the first byte of TLS: no end of a head would come.
  if (!received.empty() && !IsMethod(received.substr(0, 1))) return 400;
  const size_t head = received.substr(0, kHeadBytesMax).find(kHeadEnd);
  if (head == absl::string_view::npos) {
    if (received.size() >= kHeadBytesMax) return 431;
    return std::nullopt;
  }
  const absl::string_view line = received.substr(0, received.find(kLineEnd));
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  if (words.size() != 3 || !IsMethod(words[0]) ||
      !absl::StartsWith(words[1], "/") || !IsVersion(words[2])) {
    return 400;
  }
  if (words[1].substr(0, words[1].find('?')) != path) return 404;
  return words[0] == "GET" ? 200 : 405;
}

std::string StatusText(int status) {
  switch (status) {
    case 200: return "200 OK";
    case 400: return "400 Bad Request";
    case 404: return "404 Not Found";
    case 405: return "405 Method Not Allowed";
    case 431: return "431 Request Header Fields Too Large";
    default: return "503 Service Unavailable";
  }
}

std::string HeadOfAnswer(int status, size_t bytes) {
  return absl::StrCat(
      "HTTP/1.1 ", StatusText(status), "\r\nContent-Type: text/plain; ",
      status == 200 ? "version=0.0.4; " : "",
      "charset=utf-8\r\nContent-Length: ", bytes,
      status == 405 ? "\r\nAllow: GET" : "", "\r\nConnection: close\r\n\r\n");
}

}  // namespace lockstep::rpc
