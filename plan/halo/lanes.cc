#include "plan/halo/lanes.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace lockstep::plan {
namespace {

void AddMessages(const std::vector<HaloMessage>& messages, TransferKind kind,
                 int halo, HaloPass pass, int communicator,
                 std::vector<Transfer>* transfers) {
  for (const HaloMessage& message : messages) {
    transfers->push_back({.kind = kind,
                          .communicator = communicator,
                          .dtype = DType::kU8,
                          .shape = {message.bytes},
                          .peer = message.peer,
                          .tag = static_cast<uint64_t>(GroupOf(halo, pass)),
                          .halo = halo,
                          .group = GroupOf(halo, pass)});
  }
}

}  // namespace

std::string HaloLaneName(const CommunicatorSpec& communicator) {
  return absl::StrCat("halo ", absl::StripPrefix(communicator.name, "halo/"));
}

std::vector<Transfer> HaloTransfers(const Plan& plan,
                                    const HaloRoutes& routes) {
  const int c = plan.halos[routes.halo].communicator;
  std::vector<Transfer> transfers;
  const auto add = [&](const std::vector<HaloMessage>& messages,
                       TransferKind kind, HaloPass pass) {
    AddMessages(messages, kind, routes.halo, pass, c, &transfers);
  };
  add(routes.sends, TransferKind::kSend, HaloPass::kForward);
  add(routes.receives, TransferKind::kRecv, HaloPass::kForward);
  add(routes.receives, TransferKind::kSend, HaloPass::kAdjoint);
  add(routes.sends, TransferKind::kRecv, HaloPass::kAdjoint);
  return transfers;
}

}  // namespace lockstep::plan
