#include "tools/rpc/admin_client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/deadline.h"
#include "base/mutex.h"
#include "base/text/utf8.h"
#include "base/tls/probe.h"
#include "lockstep/v1/admin.grpc.pb.h"
#include "lockstep/v1/session.grpc.pb.h"
#include "proto/codec.h"
#include "proto/grpc_credentials.h"
#include "proto/introduction.h"

namespace lockstep::ctl {
namespace {

// How long a watch looks for the next coordinator: another one leads after a
// few seconds, and a machine starts in this time.
constexpr absl::Duration kWatchSearches = absl::Minutes(1);
constexpr absl::Duration kSearchPause = absl::Milliseconds(200);

std::vector<std::string> Split(const std::string& addresses) {
  return absl::StrSplit(addresses, ',', absl::SkipWhitespace());
}

absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      Printable(status.error_message()));
}

using Metadata = std::multimap<grpc::string_ref, grpc::string_ref>;

std::string ValueOf(const Metadata& said, const char* key) {
  const auto found = said.find(key);
  if (found == said.end()) return "";
  return {found->second.data(), found->second.size()};
}

std::optional<int64_t> NumberOf(const Metadata& said, const char* key) {
  int64_t number = 0;
  if (!absl::SimpleAtoi(ValueOf(said, key), &number)) return std::nullopt;
  return number;
}

// A coordinator that goes down cancels its calls, with no word but gRPC's.
bool IsNoAnswer(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED: return true;
    case grpc::StatusCode::CANCELLED:
      return status.error_message().empty() ||
             status.error_message() == "CANCELLED";
    default: return false;
  }
}

template <typename Request>
Request About(const JobName& job, const std::string& token) {
  Request request;
  *request.mutable_header() = proto::ToProto(proto::Header{.job = job});
  request.set_token(token);
  return request;
}

// Whether the channel has a connection by then. False at its first failure, and
// while the other side says nothing.
bool Connects(grpc::Channel& channel,
              std::chrono::system_clock::time_point by) {
  auto state = channel.GetState(/*try_to_connect=*/true);
  while (state != GRPC_CHANNEL_READY) {
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE) return false;
    if (!channel.WaitForStateChange(state, by)) return false;
    state = channel.GetState(/*try_to_connect=*/true);
  }
  return true;
}

// Until `on_view` returns false, which is OK, or the stream ends.
template <typename OnView>
grpc::Status Watch(v1::Admin::Stub& stub, grpc::ClientContext* context,
                   const v1::WatchJobRequest& request, OnView on_view) {
  const auto reader = stub.WatchJob(context, request);
  v1::WatchJobResponse response;
  while (reader->Read(&response)) {
    const absl::StatusOr<JobView> view = proto::FromProto(response.view());
    const bool goes_on = view.ok() && on_view(*view);
    if (goes_on) continue;
    context->TryCancel();
    while (reader->Read(&response)) {
    }
    reader->Finish().error_code();
    return grpc::Status(static_cast<grpc::StatusCode>(view.status().code()),
                        std::string(view.status().message()));
  }
  return reader->Finish();
}

// The call of WatchJob, and the pauses between calls, that another thread may
// cancel.
class WatchCall {
 public:
  // Returns false if the watch was cancelled. `context` is nullptr once its
  // call has ended.
  bool Set(grpc::ClientContext* context) {
    MutexLock lock(&mutex_);
    context_ = cancelled_ ? nullptr : context;
    return !cancelled_;
  }

  void Cancel() {
    MutexLock lock(&mutex_);
    cancelled_ = true;
    if (context_ != nullptr) context_->TryCancel();
    changed_.NotifyAll();
  }

  bool cancelled() {
    MutexLock lock(&mutex_);
    return cancelled_;
  }

  void Pause(absl::Duration pause) {
    MutexLock lock(&mutex_);
    if (!cancelled_) changed_.WaitFor(&mutex_, pause);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

// One stub per address, in the order in which they are asked next: the one that
// answered last is first, one that did not is last.
struct AdminClient::Stubs {
  absl::StatusOr<std::unique_ptr<proto::ClientCredentials>> credentials;
  std::shared_ptr<grpc::ChannelCredentials> used;  // of these stubs
  struct AddressStubs {
    std::string address;
    std::shared_ptr<grpc::Channel> channel;
    std::unique_ptr<v1::Admin::Stub> admin;
    std::unique_ptr<v1::Coordinator::Stub> worker;
  };
  std::vector<AddressStubs> by_address;
  WatchCall watch;

  static absl::Duration SearchTime(const AdminClientOptions& options) {
    const bool may_another_lead = Split(options.addresses).size() > 1;
    return may_another_lead ? options.search : absl::ZeroDuration();
  }

  // Calls each coordinator in turn until one answers.
  template <typename Call>
  absl::Status Try(const AdminClientOptions& options, Call call) {
    return TryEach(options, Repeat::kAlways,
                   [&](AddressStubs& to, auto& context) {
                     return call(*to.admin, context);
                   });
  }

  // The same for a call that changes something: once it was sent, it may have
  // been carried out, and is not sent again.
  template <typename Call>
  absl::Status TryOnce(const AdminClientOptions& options, Call call) {
    return TryEach(options, Repeat::kUnlessSent,
                   [&](AddressStubs& to, auto& context) {
                     return call(*to.admin, context);
                   });
  }

  enum class Repeat { kAlways, kUnlessSent };

  template <typename Call>
  absl::Status TryEach(const AdminClientOptions& options, Repeat repeat,
                       Call call) {
    if (absl::Status fit = Refresh(options); !fit.ok()) return fit;
    const Deadline search(SearchTime(options));
    bool was_sent = false;
    while (true) {
      const bool is_last_round = search.Passed();
      const grpc::Status status = TryEachOnce(options, repeat, call, &was_sent);
      if (!IsNoAnswer(status)) return FromGrpc(status);
      if (was_sent) {
        return absl::UnavailableError(
            absl::StrCat("no coordinator answers at ", options.addresses,
                         ": the one that was asked failed, and may have "
                         "carried it out: ask how the job is"));
      }
      if (is_last_round) return NobodyAnswers(options, status);
      absl::SleepFor(kSearchPause);
    }
  }

  // `was_sent`: a call that is not to be repeated was, without an answer.
  template <typename Call>
  grpc::Status TryEachOnce(const AdminClientOptions& options, Repeat repeat,
                           Call call, bool* was_sent) {
    grpc::Status status(grpc::StatusCode::UNAVAILABLE, "no address was given");
    for (size_t asked = 0; asked < by_address.size(); ++asked) {
      const auto by = std::chrono::system_clock::now() +
                      absl::ToChronoMilliseconds(options.deadline);
      const bool may_repeat = repeat == Repeat::kAlways;
      if (may_repeat || Connects(*by_address[0].channel, by)) {
        grpc::ClientContext context;
        context.set_deadline(by);
        status = call(by_address[0], context);
        if (!IsNoAnswer(status)) break;
        *was_sent = !may_repeat;
        if (*was_sent) break;
      } else {
        status = grpc::Status(
            grpc::StatusCode::UNAVAILABLE,
            absl::StrCat("cannot connect to ", by_address[0].address));
      }
      PutLast(options);
    }
    return status;
  }

  // Asks each coordinator in turn; the one that answers is watched to its end.
  template <typename OnView>
  grpc::Status WatchEach(const AdminClientOptions& options,
                         const v1::WatchJobRequest& request, OnView on_view) {
    grpc::Status status(grpc::StatusCode::UNAVAILABLE, "no address was given");
    for (size_t asked = 0; asked < by_address.size(); ++asked) {
      grpc::ClientContext context;
      if (!watch.Set(&context)) return grpc::Status::CANCELLED;
      const absl::Cleanup call_ends = [this] { watch.Set(nullptr); };
      status = Watch(*by_address[0].admin, &context, request, on_view);
      if (!IsNoAnswer(status)) break;
      PutLast(options);
    }
    return status;
  }

  // Makes the stubs, and makes them again when the certificates have changed.
  absl::Status Refresh(const AdminClientOptions& options) {
    if (!credentials.ok()) return credentials.status();
    const auto current = (*credentials)->Current();
    if (current == std::exchange(used, current)) return absl::OkStatus();
    by_address.clear();
    for (const std::string& address : Split(options.addresses)) {
      by_address.push_back(Connect(options, address));
    }
    return absl::OkStatus();
  }

  // The address that was asked, which did not answer. Its next connection is a
  // new one: a channel that has failed waits before it connects again.
  void PutLast(const AdminClientOptions& options) {
    by_address[0] = Connect(options, by_address[0].address);
    std::rotate(by_address.begin(), by_address.begin() + 1, by_address.end());
  }

  AddressStubs Connect(const AdminClientOptions& options,
                       const std::string& address) const {
    grpc::ChannelArguments arguments;
    // A description of 100,000 parameters is larger than gRPC's default limit.
    arguments.SetMaxReceiveMessageSize(std::numeric_limits<int>::max());
    // The time that an attempt to connect has.
    arguments.SetInt(
        GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
        static_cast<int>(absl::ToInt64Milliseconds(options.deadline)));
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    // For a watch, as a worker's.
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 3'000);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 3'000);
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    const auto channel = grpc::CreateCustomChannel(address, used, arguments);
    return {address, channel, v1::Admin::NewStub(channel),
            v1::Coordinator::NewStub(channel)};
  }

  static absl::Status NobodyAnswers(const AdminClientOptions& options,
                                    const grpc::Status& last) {
    const absl::Status trouble =
        tls::ProbeTls(Split(options.addresses), options.tls_folder);
    const std::string why =
        trouble.ok() ? last.error_message() : std::string(trouble.message());
    return absl::UnavailableError(absl::StrCat(
        "no coordinator answers at ", options.addresses, ": ", Printable(why)));
  }
};

AdminClient::AdminClient(const AdminClientOptions& options)
    : options_(options),
      stubs_(new Stubs{
          .credentials = proto::ClientCredentials::Make(
              options.tls_folder,
              {tls::CertificateRole::kWorker, tls::CertificateRole::kOperator},
              options.on_warning)}) {}

AdminClient::~AdminClient() = default;

absl::Status AdminClient::CreateJob(const JobSpec& spec) {
  auto request = About<v1::CreateJobRequest>({spec.name}, options_.token);
  *request.mutable_spec() = proto::ToProto(spec);
  v1::CreateJobResponse response;
  return stubs_->TryOnce(options_, [&](auto& stub, auto& context) {
    return stub.CreateJob(&context, request, &response);
  });
}

absl::StatusOr<std::vector<JobSummary>> AdminClient::ListJobs() {
  const auto request = About<v1::ListJobsRequest>({}, options_.token);
  v1::ListJobsResponse response;
  absl::Status status = stubs_->Try(options_, [&](auto& stub, auto& context) {
    return stub.ListJobs(&context, request, &response);
  });
  if (!status.ok()) return status;
  std::vector<JobSummary> jobs;
  for (const v1::JobSummary& job : response.jobs()) {
    absl::StatusOr<JobSummary> summary = proto::FromProto(job);
    if (!summary.ok()) return summary.status();
    jobs.push_back(*std::move(summary));
  }
  return jobs;
}

absl::StatusOr<std::vector<LimitUse>> AdminClient::ListLimits() {
  const auto request = About<v1::ListLimitsRequest>({}, options_.token);
  v1::ListLimitsResponse response;
  absl::Status status = stubs_->Try(options_, [&](auto& stub, auto& context) {
    return stub.ListLimits(&context, request, &response);
  });
  if (!status.ok()) return status;
  std::vector<LimitUse> limits;
  for (const v1::LimitUse& limit : response.limits()) {
    absl::StatusOr<LimitUse> use = proto::FromProto(limit);
    if (!use.ok()) return use.status();
    limits.push_back(*std::move(use));
  }
  return limits;
}

absl::StatusOr<Introduction> AdminClient::Meet(const JobName& job) {
  const auto request = About<v1::ListLimitsRequest>({}, options_.token);
  v1::ListLimitsResponse response;
  Introduction met;
  met.as_operator = stubs_->Try(options_, [&](auto& stub, auto& context) {
    const absl::Time begin = absl::Now();
    const grpc::Status status = stub.ListLimits(&context, request, &response);
    met.round_trip = absl::Now() - begin;
    const auto& said = context.GetServerTrailingMetadata();
    met.version = Printable(ValueOf(said, proto::kVersionKey));
    met.protocol = NumberOf(said, proto::kProtocolKey);
    const auto milliseconds = NumberOf(said, proto::kTimeKey);
    if (milliseconds) met.time = absl::FromUnixMillis(*milliseconds);
    return status;
  });
  if (absl::IsUnavailable(met.as_operator) ||
      absl::IsUnimplemented(met.as_operator)) {
    return met.as_operator;
  }
  met.as_worker = AskAsWorker(job);
  return met;
}

// Fetches a plan that no job has: who is admitted is told that.
absl::Status AdminClient::AskAsWorker(const JobName& job) {
  auto request = About<v1::FetchPlanRequest>(job, options_.token);
  request.set_digest("none");
  const absl::Status asked = stubs_->TryEach(
      options_, Stubs::Repeat::kAlways, [&](auto& to, auto& context) {
        v1::PlanChunk chunk;
        const auto reader = to.worker->FetchPlan(&context, request);
        while (reader->Read(&chunk)) {
        }
        return reader->Finish();
      });
  return absl::IsNotFound(asked) ? absl::OkStatus() : asked;
}

absl::StatusOr<JobView> AdminClient::DescribeJob(const JobName& job) {
  const auto request = About<v1::DescribeJobRequest>(job, options_.token);
  v1::DescribeJobResponse response;
  absl::Status status = stubs_->Try(options_, [&](auto& stub, auto& context) {
    return stub.DescribeJob(&context, request, &response);
  });
  if (!status.ok()) return status;
  return proto::FromProto(response.view());
}

absl::Status AdminClient::WatchJob(
    const JobName& job, const std::function<bool(const JobView&)>& on_view) {
  const auto request = About<v1::WatchJobRequest>(job, options_.token);
  bool answered = false;
  absl::Time give_up_at = absl::Now() + stubs_->SearchTime(options_);
  while (true) {
    if (absl::Status fit = stubs_->Refresh(options_); !fit.ok()) return fit;
    const grpc::Status status =
        stubs_->WatchEach(options_, request, [&](const JobView& view) {
          answered = true;
          return on_view(view);
        });
    if (!IsNoAnswer(status)) return FromGrpc(status);
    if (std::exchange(answered, false)) {
      give_up_at = absl::Now() + kWatchSearches;
    }
    if (stubs_->watch.cancelled()) {
      return absl::CancelledError("the watch was cancelled");
    }
    if (absl::Now() >= give_up_at) {
      return stubs_->NobodyAnswers(options_, status);
    }
    stubs_->watch.Pause(kSearchPause);
  }
}

void AdminClient::CancelWatch() { stubs_->watch.Cancel(); }

absl::Status AdminClient::CommandJob(const JobName& job, JobCommand command,
                                     const std::string& reason) {
  auto request = About<v1::CommandJobRequest>(job, options_.token);
  request.set_command(proto::ToProto(command));
  request.set_reason(ToUtf8(reason));
  v1::CommandJobResponse response;
  return stubs_->TryOnce(options_, [&](auto& stub, auto& context) {
    return stub.CommandJob(&context, request, &response);
  });
}

absl::Status AdminClient::StopJob(const JobName& job,
                                  const std::string& reason) {
  auto request = About<v1::StopJobRequest>(job, options_.token);
  request.set_reason(ToUtf8(reason));
  v1::StopJobResponse response;
  return stubs_->TryOnce(options_, [&](auto& stub, auto& context) {
    return stub.StopJob(&context, request, &response);
  });
}

absl::Status AdminClient::DeleteJob(const JobName& job, bool keep) {
  auto request = About<v1::DeleteJobRequest>(job, options_.token);
  request.set_keep(keep);
  v1::DeleteJobResponse response;
  return stubs_->TryOnce(options_, [&](auto& stub, auto& context) {
    return stub.DeleteJob(&context, request, &response);
  });
}

absl::StatusOr<JobView> AdminClient::SaveJob(const JobName& job,
                                             const std::string& reason) {
  return CallSaveJob(job, /*ask_only=*/false, reason);
}

absl::StatusOr<JobView> AdminClient::AskOfSaves(const JobName& job) {
  return CallSaveJob(job, /*ask_only=*/true, "");
}

absl::StatusOr<JobView> AdminClient::CallSaveJob(const JobName& job,
                                                 bool ask_only,
                                                 const std::string& reason) {
  auto request = About<v1::SaveJobRequest>(job, options_.token);
  request.set_ask_only(ask_only);
  request.set_reason(ToUtf8(reason));
  v1::SaveJobResponse response;
  absl::Status status = stubs_->Try(options_, [&](auto& stub, auto& context) {
    return stub.SaveJob(&context, request, &response);
  });
  if (!status.ok()) return status;
  return proto::FromProto(response.view());
}

absl::Status AdminClient::ReportEvidence(const JobName& job,
                                         const protocol::Evidence& evidence) {
  auto request = About<v1::ReportEvidenceRequest>(job, options_.token);
  *request.mutable_evidence() = proto::ToProto(evidence);
  v1::ReportEvidenceResponse response;
  return stubs_->Try(options_, [&](auto& stub, auto& context) {
    return stub.ReportEvidence(&context, request, &response);
  });
}

}  // namespace lockstep::ctl
