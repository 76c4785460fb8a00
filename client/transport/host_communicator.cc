#include "client/transport/host_communicator.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/transport/call.h"
#include "client/transport/membership.h"

namespace lockstep::transport {
namespace {

class HostCommunicator final : public Communicator {
 public:
  HostCommunicator(const GroupSpec& group, std::unique_ptr<Link> link)
      : rank_(link->rank()),
        size_(link->size()),
        transport_(link->transport()),
        sent_(size_),
        received_(size_),
        membership_(std::make_shared<Membership>(
            std::move(link), absl::StrCat("group '", group.name, "', rank ",
                                          rank_, " of ", size_, ": "))) {}

  ~HostCommunicator() override { membership_->Close(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string_view transport() const override { return transport_; }

  absl::Status AllReduce(const void* in, void* out, size_t count, DType dtype,
                         ReduceOp op, Stream& stream) override {
    return Submit({.kind = CallKind::kAllReduce,
                   .in = in,
                   .out = out,
                   .count = count,
                   .dtype = dtype,
                   .op = op},
                  stream);
  }

  absl::Status ReduceScatter(const void* in, void* out, size_t count,
                             DType dtype, ReduceOp op,
                             Stream& stream) override {
    return Submit({.kind = CallKind::kReduceScatter,
                   .in = in,
                   .out = out,
                   .count = count,
                   .dtype = dtype,
                   .op = op},
                  stream);
  }

  absl::Status AllGather(const void* in, void* out, size_t count, DType dtype,
                         Stream& stream) override {
    return Submit({.kind = CallKind::kAllGather,
                   .in = in,
                   .out = out,
                   .count = count,
                   .dtype = dtype},
                  stream);
  }

  absl::Status Broadcast(void* buffer, size_t count, DType dtype, int root,
                         Stream& stream) override {
    return Submit({.kind = CallKind::kBroadcast,
                   .out = buffer,
                   .count = count,
                   .dtype = dtype,
                   .peer = root},
                  stream);
  }

  absl::Status AllToAll(const void* in, void* out, size_t count, DType dtype,
                        Stream& stream) override {
    return Submit({.kind = CallKind::kAllToAll,
                   .in = in,
                   .out = out,
                   .count = count,
                   .dtype = dtype},
                  stream);
  }

  absl::Status AllToAllV(const void* in, absl::Span<const size_t> in_counts,
                         absl::Span<const size_t> in_offsets, void* out,
                         absl::Span<const size_t> out_counts,
                         absl::Span<const size_t> out_offsets, DType dtype,
                         Stream& stream) override {
    return Submit({.kind = CallKind::kAllToAllV,
                   .in = in,
                   .out = out,
                   .dtype = dtype,
                   .in_counts = {in_counts.begin(), in_counts.end()},
                   .in_offsets = {in_offsets.begin(), in_offsets.end()},
                   .out_counts = {out_counts.begin(), out_counts.end()},
                   .out_offsets = {out_offsets.begin(), out_offsets.end()}},
                  stream);
  }

  absl::Status Send(const void* buffer, size_t count, DType dtype, int peer,
                    Stream& stream) override {
    return Submit({.kind = CallKind::kSend,
                   .in = buffer,
                   .count = count,
                   .dtype = dtype,
                   .peer = peer},
                  stream);
  }

  absl::Status Recv(void* buffer, size_t count, DType dtype, int peer,
                    Stream& stream) override {
    return Submit({.kind = CallKind::kRecv,
                   .out = buffer,
                   .count = count,
                   .dtype = dtype,
                   .peer = peer},
                  stream);
  }

  absl::Status Barrier(Stream& stream) override {
    return Submit({.kind = CallKind::kBarrier}, stream);
  }

  absl::Status Group(absl::FunctionRef<absl::Status()> body) override {
    if (group_) return JoinOuterGroup(body);
    group_.emplace();
    const absl::Status status = body();
    std::vector<Call> calls = std::move(group_->calls);
    HostStream* const stream = group_->stream;
    group_.reset();
    if (status.ok() && !calls.empty()) Launch(std::move(calls), *stream);
    return status;
  }

  void Abort(std::string_view cause) override {
    membership_->Fail(
        absl::AbortedError(absl::string_view(cause.data(), cause.size())));
  }

  absl::Status status() const override { return membership_->status(); }

 private:
  struct OpenGroup {
    std::vector<Call> calls;
    HostStream* stream = nullptr;  // of its first call
  };

  absl::Status JoinOuterGroup(absl::FunctionRef<absl::Status()> body) {
    const size_t before = group_->calls.size();
    absl::Status status = body();
    if (!status.ok()) group_->calls.resize(before);
    return status;
  }

  absl::Status Submit(Call call, Stream& stream) {
    auto* const host = dynamic_cast<HostStream*>(&stream);
    if (host == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("transport '",
                       absl::string_view(transport_.data(), transport_.size()),
                       "' moves host memory: it needs a HostStream"));
    }
    if (absl::Status checked = CheckCall(call, rank_, size_); !checked.ok()) {
      return checked;
    }
    if (!group_) {
      std::vector<Call> alone;
      alone.push_back(std::move(call));
      Launch(std::move(alone), *host);
      return absl::OkStatus();
    }
    if (group_->stream != nullptr && group_->stream != host) {
      return absl::InvalidArgumentError(
          "the calls of one group name two streams");
    }
    group_->stream = host;
    group_->calls.push_back(std::move(call));
    return absl::OkStatus();
  }

  // Numbered here, not when they run: two streams may run them in any order.
  void Launch(std::vector<Call> calls, HostStream& stream) {
    for (Call& call : calls) call.tag = NextTag(call);
    stream.Enqueue([membership = membership_, calls = std::move(calls)] {
      return membership->Run(calls);
    });
  }

  uint64_t NextTag(const Call& call) {
    switch (call.kind) {
      case CallKind::kSend: return FirstTag(true, ++sent_[call.peer]);
      case CallKind::kRecv: return FirstTag(true, ++received_[call.peer]);
      default: return FirstTag(false, ++collectives_);
    }
  }

  const int rank_;
  const int size_;
  const std::string_view transport_;
  uint64_t collectives_ = 0;
  std::vector<uint64_t> sent_;      // to each rank
  std::vector<uint64_t> received_;  // from each rank
  std::optional<OpenGroup> group_;
  const std::shared_ptr<Membership> membership_;
};

}  // namespace

std::unique_ptr<Communicator> MakeHostCommunicator(const GroupSpec& group,
                                                   std::unique_ptr<Link> link) {
  return std::make_unique<HostCommunicator>(group, std::move(link));
}

}  // namespace lockstep::transport
