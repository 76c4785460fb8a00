// What peers and the environment say about connections: handles of every
// transport, launches, certificates and keys.
//
//   | kind | rank | size | text |

#include <iterator>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/text/utf8.h"
#include "base/tls/certificate.h"
#include "client/session/identity.h"
#include "client/transport/gloo/gloo_handle.h"
#include "client/transport/hierarchical/auto_handle.h"
#include "client/transport/nccl/nccl_handle.h"
#include "client/transport/shm/shm_handle.h"
#include "tests/fuzz/fuzz_input.h"

namespace lockstep::fuzz {
namespace {

struct Place {
  int rank = 0;
  int size = 1;
};

void RequirePrintable(const absl::Status& status) {
  Require(IsPrintableUtf8(status.message()), "an error is printable");
}

void ReadShm(const Place& place, const std::string& text) {
  const auto handle = transport::ParseShmHandle(text, place.rank, place.size);
  if (!handle.ok()) return RequirePrintable(handle.status());
  const auto again = transport::ParseShmHandle(transport::Format(*handle),
                                               place.rank, place.size);
  Require(again.ok() && *again == *handle, "a handle survives a round trip");
}

void ReadAuto(const Place& place, const std::string& text) {
  RequirePrintable(
      transport::ParseAutoHandle(text, place.rank, place.size).status());
}

void ReadGloo(const Place& place, const std::string& text) {
  const auto handle = transport::ParseGlooHandle(text, place.rank, place.size);
  if (!handle.ok()) return RequirePrintable(handle.status());
  Require(handle->ports.size() == static_cast<size_t>(place.size),
          "a handle has a port for each rank");
  for (int rank = 0; rank < place.size; ++rank) {
    transport::ListenerFor(*handle, rank).IgnoreError();
  }
  const auto again = transport::ParseGlooHandle(transport::Format(*handle),
                                                place.rank, place.size);
  Require(again.ok() && *again == *handle, "a handle survives a round trip");
}

void ReadNccl(const Place& place, const std::string& text) {
  std::vector<std::string> handles;
  for (size_t begin = 0; handles.size() < static_cast<size_t>(place.size);) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    handles.push_back(text.substr(begin, end - begin));
    begin = std::min(end + 1, text.size());
  }
  const transport::GroupSpec group = {
      .name = "group", .rank = place.rank, .size = place.size};
  RequirePrintable(transport::nccl::ParseHandles(group, handles).status());
}

void ReadLaunch(const Place&, const std::string& text) {
  RequirePrintable(
      session::LaunchOf([&](const std::string&) { return text; }).status());
}

void ReadCertificates(const Place&, const std::string& text) {
  const auto chain = tls::ParseCertificates(text);
  if (!chain.ok()) return RequirePrintable(chain.status());
  for (const tls::X509Handle& certificate : *chain) {
    tls::FactsOf(*certificate);
  }
  RequirePrintable(
      tls::CheckChain(*chain, *chain, absl::FromUnixSeconds(1'800'000'000)));
}

void ReadKey(const Place&, const std::string& text) {
  RequirePrintable(tls::ParseKey(text).status());
}

constexpr void (*kKinds[])(const Place&, const std::string&) = {
    &ReadShm,    &ReadAuto,         &ReadGloo, &ReadNccl,
    &ReadLaunch, &ReadCertificates, &ReadKey};

}  // namespace
}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep::fuzz;
  FuzzInput input(data, size);
  const int kind = input.Below(static_cast<int>(std::size(kKinds)));
  const int ranks = 1 + input.Below(4);
  const int rank = input.Below(ranks);
  kKinds[kind]({rank, ranks}, input.Rest());
  return 0;
}
