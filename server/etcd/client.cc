#include "server/etcd/client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/deadline.h"
#include "etcd.grpc.pb.h"

namespace lockstep::etcd {

namespace pb = ::etcdserverpb;

struct Client::Member {
  std::string address;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<pb::KV::Stub> keys;
  std::unique_ptr<pb::Lease::Stub> leases;
  std::unique_ptr<pb::Watch::Stub> watches;
};

// A call in progress, which Cancel ends.
class Client::Running {
 public:
  Running(Client* client, grpc::ClientContext* context)
      : client_(*client), context_(context) {
    MutexLock lock(&client_.mutex_);
    client_.running_.push_back(context_);
    if (client_.cancelled_) context_->TryCancel();
  }
  ~Running() {
    MutexLock lock(&client_.mutex_);
    auto& all = client_.running_;
    all.erase(std::find(all.begin(), all.end(), context_));
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  Client& client_;
  grpc::ClientContext* const context_;
};

namespace {

// One member that does not answer must not use up the time of all.
constexpr absl::Duration kPatienceWithOne = absl::Seconds(1);
constexpr absl::Duration kPause = absl::Milliseconds(50);
// Pages of values of at most 512 KiB.
constexpr int kMessageBytesMax = 64 << 20;

std::shared_ptr<grpc::Channel> Connect(
    const std::string& address,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  // The time that an attempt to connect has, too.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 300);
  // Channels to one address share no connection that another one wedged.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

// Whether another member, or the same one later, may answer otherwise.
bool MayTryAgain(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::CANCELLED:  // by the member: it goes down
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::UNKNOWN:
    case grpc::StatusCode::INTERNAL: return true;
    default: return false;
  }
}

absl::Status GoesDown() {
  return absl::CancelledError("the coordinator goes down");
}

absl::Status FromGrpc(const std::string& what, const std::string& address,
                      const grpc::Status& status) {
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  return absl::Status(code,
                      absl::StrCat("etcd at ", address, ": ", what, ": ",
                                   absl::StatusCodeToString(code), ": ",
                                   status.error_message().empty()
                                       ? "it does not say why; is it an etcd?"
                                       : status.error_message()));
}

void Fill(const KeyValue& from, int64_t lease, pb::PutRequest* to) {
  to->set_key(from.key);
  to->set_value(from.value);
  to->set_lease(lease);
}

KeyValue Parse(const pb::KeyValue& from) {
  return {.key = from.key(),
          .value = from.value(),
          .created = from.create_revision(),
          .version = from.version(),
          .lease = from.lease()};
}

pb::Compare IsCreatedAt(const std::string& key, int64_t revision) {
  pb::Compare compare;
  compare.set_result(pb::Compare::EQUAL);
  compare.set_target(pb::Compare::CREATE);
  compare.set_key(key);
  compare.set_create_revision(revision);
  return compare;
}

}  // namespace

KeyRange WithPrefix(const std::string& prefix) {
  std::string end = prefix;
  while (!end.empty() && end.back() == '\xff') end.pop_back();
  if (!end.empty()) ++end.back();
  return {prefix, end};
}

Client::Client(std::vector<std::string> members, Credentials credentials)
    : addresses_(std::move(members)), credentials_(std::move(credentials)) {
  RenewCredentials();
}

Client::Client(std::vector<std::string> members,
               std::shared_ptr<grpc::ChannelCredentials> credentials)
    : Client(std::move(members), [credentials] { return credentials; }) {}

// A channel keeps its credentials: other ones need other channels.
void Client::RenewCredentials() {
  const auto current = credentials_();
  MutexLock lock(&mutex_);
  if (current == std::exchange(used_, current)) return;
  members_.clear();
  for (const std::string& address : addresses_) {
    const auto channel = Connect(address, current);
    auto member = std::make_shared<Member>();
    member->address = address;
    member->channel = channel;
    member->keys = pb::KV::NewStub(channel);
    member->leases = pb::Lease::NewStub(channel);
    member->watches = pb::Watch::NewStub(channel);
    members_.push_back(std::move(member));
  }
}

std::shared_ptr<Client::Member> Client::MemberAt(size_t index) {
  MutexLock lock(&mutex_);
  return members_[index];
}

Client::~Client() = default;

void Client::Cancel() {
  MutexLock lock(&mutex_);
  cancelled_ = true;
  for (grpc::ClientContext* context : running_) context->TryCancel();
}

absl::Status Client::Call(const std::string& what, absl::Duration timeout,
                          const Attempt& attempt) {
  return Call(what, timeout, kPatienceWithOne, attempt);
}

// Tries the members in turn, beginning with the one that answered last.
absl::Status Client::Call(const std::string& what, absl::Duration timeout,
                          absl::Duration patience_with_one,
                          const Attempt& attempt) {
  const Deadline deadline(timeout);
  const size_t members = addresses_.size();
  std::vector<std::string> errors(members);
  size_t index = 0;
  {
    MutexLock lock(&mutex_);
    index = preferred_;
  }
  while (true) {
    const std::shared_ptr<Member> member = MemberAt(index);
    grpc::ClientContext context;
    const absl::Duration patience =
        members == 1 ? deadline.Left()
                     : std::min(deadline.Left(), patience_with_one);
    context.set_deadline(absl::ToChronoTime(absl::Now() + patience));
    // A member without a leader says so at once.
    context.AddMetadata("hasleader", "true");
    grpc::Status status;
    {
      const Running running(this, &context);
      status = attempt(*member, &context);
    }
    const std::string& address = member->address;
    {
      MutexLock lock(&mutex_);
      if (cancelled_) return GoesDown();
      if (status.ok()) preferred_ = index;
    }
    if (status.ok()) return absl::OkStatus();
    if (!MayTryAgain(status)) return FromGrpc(what, address, status);
    errors[index] = absl::StrCat(address, ": ", status.error_message());
    if (deadline.Passed()) break;
    // A channel connects only while somebody waits for it.
    member->channel->WaitForConnected(
        absl::ToChronoTime(absl::Now() + std::min(kPause, deadline.Left())));
    RenewCredentials();
    index = (index + 1) % members;
  }
  errors.erase(std::remove(errors.begin(), errors.end(), ""), errors.end());
  return absl::UnavailableError(absl::StrCat(
      "no member of etcd answers (", what, "): ", absl::StrJoin(errors, "; ")));
}

// --- Keys --------------------------------------------------------------------

absl::StatusOr<Page> Client::Read(const KeyRange& range, int64_t limit,
                                  int64_t revision, absl::Duration timeout) {
  pb::RangeRequest request;
  request.set_key(range.from);
  request.set_range_end(range.to);
  request.set_limit(limit);
  request.set_revision(revision);
  pb::RangeResponse response;
  const absl::Status done =
      Call("read", timeout, [&](Member& member, grpc::ClientContext* context) {
        return member.keys->Range(context, request, &response);
      });
  if (!done.ok()) return done;
  Page page{.more = response.more(), .revision = response.header().revision()};
  for (const pb::KeyValue& key : response.kvs()) {
    page.keys.push_back(Parse(key));
  }
  return page;
}

absl::Status Client::Commit(const Transaction& transaction,
                            absl::Duration timeout, bool is_in_doubt) {
  pb::TxnRequest request;
  *request.add_compare() =
      IsCreatedAt(transaction.fence.key, transaction.fence.created);
  if (transaction.fence.lease != 0) {
    pb::Compare* const lease = request.add_compare();
    lease->set_target(pb::Compare::LEASE);
    lease->set_key(transaction.fence.key);
    lease->set_lease(transaction.fence.lease);
  }
  if (transaction.turn > 0) {
    pb::Compare* const turn = request.add_compare();
    turn->set_target(pb::Compare::VERSION);
    turn->set_key(transaction.fence.key);
    turn->set_version(transaction.turn);
    pb::PutRequest* const next = request.add_success()->mutable_request_put();
    next->set_key(transaction.fence.key);
    next->set_ignore_value(true);
    next->set_ignore_lease(true);
  }
  if (!transaction.behind.empty()) {
    pb::Compare* const exists = request.add_compare();
    *exists = IsCreatedAt(transaction.behind, 0);
    exists->set_result(pb::Compare::GREATER);
  }
  request.add_failure()->mutable_request_range()->set_key(
      transaction.fence.key);
  for (const KeyRange& range : transaction.deletes) {
    pb::DeleteRangeRequest* const removed =
        request.add_success()->mutable_request_delete_range();
    removed->set_key(range.from);
    removed->set_range_end(range.to);
  }
  for (const KeyValue& put : transaction.puts) {
    Fill(put, put.lease, request.add_success()->mutable_request_put());
  }
  pb::TxnResponse response;
  int attempts = 0;
  const absl::Status done =
      Call("write", timeout, [&](Member& member, grpc::ClientContext* context) {
        ++attempts;
        return member.keys->Txn(context, request, &response);
      });
  if (absl::IsResourceExhausted(done)) {
    return AfterNoSpace(transaction, done, is_in_doubt || attempts > 1,
                        timeout);
  }
  if (!done.ok() || response.succeeded()) return done;
  for (const pb::ResponseOp& answer : response.responses()) {
    for (const pb::KeyValue& leader : answer.response_range().kvs()) {
      if (leader.create_revision() != transaction.fence.created) continue;
      const bool was_overwritten =
          leader.lease() == 0 || (transaction.fence.lease != 0 &&
                                  leader.lease() != transaction.fence.lease);
      if (was_overwritten) {
        return absl::FailedPreconditionError(
            absl::StrCat("something that is no coordinator wrote ",
                         transaction.fence.key, " in etcd, which ",
                         leader.lease() == 0 ? "has no lease now"
                                             : "has another lease now"));
      }
      // An earlier attempt was carried out, whose answer was lost.
      const bool was_done =
          transaction.turn > 0 && leader.version() == transaction.turn + 1;
      if (was_done) return absl::OkStatus();
      if (transaction.turn > 0 && leader.version() != transaction.turn) {
        return absl::AbortedError(absl::StrCat(
            "a transaction comes late: the leader has made ",
            leader.version() - 1, ", and this is number ", transaction.turn));
      }
      return absl::DataLossError(absl::StrCat(
          transaction.behind,
          " is gone from etcd, which was there before: somebody removed it, or "
          "an older copy of etcd's data was put back"));
    }
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "another coordinator leads: it has ", transaction.fence.key, " in etcd"));
}

// etcd says NOSPACE also of the transaction that takes it over its quota, which
// it has carried out. A refused one must not count as carried out, either, when
// the next one has the same turn.
absl::Status Client::AfterNoSpace(const Transaction& transaction,
                                  const absl::Status& refused, bool is_in_doubt,
                                  absl::Duration timeout) {
  const auto leader = Read({transaction.fence.key, ""}, 1, 0, timeout);
  if (!leader.ok()) return leader.status();
  const bool leads = !leader->keys.empty() &&
                     leader->keys.front().created == transaction.fence.created;
  if (leads && transaction.turn > 0 &&
      leader->keys.front().version == transaction.turn + 1) {
    return absl::OkStatus();
  }
  if (is_in_doubt) {  // an earlier attempt may be on its way
    absl::SleepFor(kPause);
    return absl::UnavailableError(refused.message());
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      refused.message(),
      "; etcd's quota is used up: compact, defragment and disarm its alarm"));
}

// --- Leases ------------------------------------------------------------------

absl::StatusOr<int64_t> Client::GrantLease(int64_t seconds,
                                           absl::Duration timeout) {
  pb::LeaseGrantRequest request;
  request.set_ttl(seconds);
  pb::LeaseGrantResponse response;
  const absl::Status done =
      Call("lease", timeout, [&](Member& member, grpc::ClientContext* context) {
        return member.leases->LeaseGrant(context, request, &response);
      });
  if (!done.ok()) return done;
  return response.id();
}

absl::StatusOr<absl::Duration> Client::RenewLease(int64_t lease,
                                                  absl::Duration timeout) {
  pb::LeaseKeepAliveRequest request;
  request.set_id(lease);
  pb::LeaseKeepAliveResponse response;
  // Each member is asked before the lease ends, though the others are silent.
  const absl::Duration patience =
      timeout / static_cast<int64_t>(addresses_.size());
  const absl::Status done = Call(
      "renew", timeout, patience,
      [&](Member& member, grpc::ClientContext* context) {
        const auto stream = member.leases->LeaseKeepAlive(context);
        const bool answered = stream->Write(request) && stream->Read(&response);
        if (answered) context->TryCancel();
        const grpc::Status status = stream->Finish();
        if (answered || !status.ok()) {
          return answered ? grpc::Status::OK : status;
        }
        return grpc::Status(grpc::StatusCode::UNAVAILABLE, "no answer");
      });
  if (!done.ok()) return done;
  return absl::Seconds(response.ttl());
}

absl::Status Client::RevokeLease(int64_t lease, absl::Duration timeout) {
  pb::LeaseRevokeRequest request;
  request.set_id(lease);
  pb::LeaseRevokeResponse response;
  const absl::Status done = Call(
      "revoke", timeout, [&](Member& member, grpc::ClientContext* context) {
        return member.leases->LeaseRevoke(context, request, &response);
      });
  return absl::IsNotFound(done) ? absl::OkStatus() : done;
}

// --- The leader's key --------------------------------------------------------

absl::StatusOr<KeyClaim> Client::ClaimKey(const std::string& key,
                                          const std::string& value,
                                          int64_t lease,
                                          absl::Duration timeout) {
  pb::TxnRequest request;
  *request.add_compare() = IsCreatedAt(key, 0);
  Fill({.key = key, .value = value}, lease,
       request.add_success()->mutable_request_put());
  request.add_success()->mutable_request_range()->set_key(key);
  request.add_failure()->mutable_request_range()->set_key(key);
  pb::TxnResponse response;
  const absl::Status done =
      Call("claim", timeout, [&](Member& member, grpc::ClientContext* context) {
        return member.keys->Txn(context, request, &response);
      });
  if (!done.ok()) return done;
  KeyClaim claim{.revision = response.header().revision()};
  for (const pb::ResponseOp& answer : response.responses()) {
    for (const pb::KeyValue& found : answer.response_range().kvs()) {
      claim.holder = Parse(found);
      // Also if an earlier attempt succeeded, whose answer was lost.
      claim.is_mine = found.lease() == lease;
    }
  }
  if (claim.holder.created == 0) {
    return absl::InternalError(
        absl::StrCat("etcd answers without the key ", key));
  }
  return claim;
}

absl::Status Client::AwaitDeleted(const std::string& key, int64_t revision,
                                  absl::Duration timeout) {
  pb::WatchRequest request;
  request.mutable_create_request()->set_key(key);
  request.mutable_create_request()->set_start_revision(revision + 1);
  size_t index = 0;
  {
    MutexLock lock(&mutex_);
    index = preferred_;
  }
  const std::shared_ptr<Member> member = MemberAt(index);
  const Deadline deadline(timeout);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  context.AddMetadata("hasleader", "true");
  const Running running(this, &context);
  const auto stream = member->watches->Watch(&context);
  bool is_deleted = false;
  pb::WatchResponse response;
  if (stream->Write(request)) {
    while (!is_deleted && stream->Read(&response)) {
      // What was forgotten may have been the deletion.
      is_deleted = response.canceled();
      for (const pb::Event& event : response.events()) {
        is_deleted |= event.type() == pb::Event::DELETE;
      }
    }
  }
  if (is_deleted) context.TryCancel();
  const grpc::Status status = stream->Finish();
  if (!is_deleted && !deadline.Passed()) RenewCredentials();
  MutexLock lock(&mutex_);
  if (cancelled_) return GoesDown();
  if (is_deleted || deadline.Passed()) return absl::OkStatus();
  preferred_ = (index + 1) % addresses_.size();
  return absl::UnavailableError(absl::StrCat(
      "etcd at ", member->address, ": watch: ", status.error_message()));
}

}  // namespace lockstep::etcd
