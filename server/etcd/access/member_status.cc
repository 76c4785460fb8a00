#include "server/etcd/access/member_status.h"

#include <grpcpp/grpcpp.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/text/utf8.h"
#include "etcd.grpc.pb.h"

namespace lockstep::etcd {
namespace {

namespace pb = ::etcdserverpb;

absl::Status FromGrpc(const grpc::Status& status, absl::Duration timeout) {
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return absl::UnavailableError(
        absl::StrCat("no answer within ", absl::FormatDuration(timeout)));
  }
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      Printable(status.error_message()));
}

absl::Status ReadKey(const std::shared_ptr<grpc::Channel>& channel,
                     const std::string& key, absl::Duration timeout) {
  pb::RangeRequest request;
  request.set_key(key);
  request.set_keys_only(true);
  pb::RangeResponse response;
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  return FromGrpc(pb::KV::NewStub(channel)->Range(&context, request, &response),
                  timeout);
}

}  // namespace

absl::StatusOr<MemberStatus> AskMember(
    const std::string& address,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials,
    const std::string& key, absl::Duration timeout) {
  const auto channel = grpc::CreateChannel(address, credentials);
  pb::StatusResponse response;
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  const absl::Status asked = FromGrpc(
      pb::Maintenance::NewStub(channel)->Status(&context, {}, &response),
      timeout);
  if (!asked.ok()) return asked;
  MemberStatus status{.version = Printable(response.version())};
  for (const std::string& error : response.errors()) {
    status.has_no_space |= absl::StrContains(error, "alarm:NOSPACE");
    status.is_corrupt |= absl::StrContains(error, "alarm:CORRUPT");
  }
  status.read = response.leader() == 0
                    ? absl::UnavailableError("it knows no leader")
                    : ReadKey(channel, key, timeout);
  return status;
}

}  // namespace lockstep::etcd
