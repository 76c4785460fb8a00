#include "tests/support/arena_communicator.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "lockstep/arena.h"
#include "lockstep/stream.h"
#include "tests/support/forwarding_communicator.h"

namespace lockstep {
namespace {

using transport::GroupSpec;
using transport::PendingGroup;
using transport::Transport;

constexpr size_t kTooMany = size_t{1} << 40;

uintptr_t Address(const void* data) {
  return reinterpret_cast<uintptr_t>(data);
}

// A range of the caller's memory and its copy in the arena, at the same offset
// from a cache line.
struct Twin {
  Twin(Arena& arena, const void* data, size_t bytes)
      : begin(Address(data)),
        bytes(bytes),
        memory(std::make_shared<ArenaBuffer>(
            *arena.Allocate(bytes + Arena::kAlignment))) {}

  void* Of(const void* original) const {
    return memory->data() + begin % Arena::kAlignment +
           (Address(original) - begin);
  }
  bool Holds(const void* data, size_t count) const {
    return Address(data) >= begin && Address(data) + count <= begin + bytes;
  }

  uintptr_t begin;
  size_t bytes;
  std::shared_ptr<ArenaBuffer> memory;
};

class ArenaCommunicator final : public ForwardingCommunicator {
 public:
  ArenaCommunicator(std::unique_ptr<Communicator> inner, Arena* arena)
      : ForwardingCommunicator(std::move(inner)), arena_(arena) {}

  absl::Status AllReduce(const void* in, void* out, size_t count, DType dtype,
                         ReduceOp op, Stream& stream) override {
    return Moved(in, count, out, count, dtype, stream,
                 [&](const void* i, void* o) {
                   return inner().AllReduce(i, o, count, dtype, op, stream);
                 });
  }
  absl::Status AllReduceMean(void* data, size_t count, DType dtype, int divisor,
                             Stream& stream) override {
    return Moved(data, count, data, count, dtype, stream,
                 [&](const void*, void* o) {
                   return transport::AllReduceMean(inner(), o, count, dtype,
                                                   divisor, stream);
                 });
  }
  absl::Status AllReducePairs(const void* in, void* out, size_t count,
                              DType dtype, double factor,
                              Stream& stream) override {
    return Moved(in, count, out, count, dtype, stream,
                 [&](const void* i, void* o) {
                   return transport::AllReducePairs(inner(), i, o, count, dtype,
                                                    factor, stream);
                 });
  }
  bool CanCheck() const override { return false; }
  bool MovesBoxes() const override { return false; }
  absl::Status ReduceScatter(const void* in, void* out, size_t count,
                             DType dtype, ReduceOp op,
                             Stream& stream) override {
    return Moved(in, count * size(), out, count, dtype, stream,
                 [&](const void* i, void* o) {
                   return inner().ReduceScatter(i, o, count, dtype, op, stream);
                 });
  }
  absl::Status AllGather(const void* in, void* out, size_t count, DType dtype,
                         Stream& stream) override {
    return Moved(in, count, out, count * size(), dtype, stream,
                 [&](const void* i, void* o) {
                   return inner().AllGather(i, o, count, dtype, stream);
                 });
  }
  absl::Status Broadcast(void* buffer, size_t count, DType dtype, int root,
                         Stream& stream) override {
    return Moved(nullptr, 0, buffer, count, dtype, stream,
                 [&](const void*, void* o) {
                   return inner().Broadcast(o, count, dtype, root, stream);
                 });
  }
  absl::Status AllToAll(const void* in, void* out, size_t count, DType dtype,
                        Stream& stream) override {
    return Moved(in, count * size(), out, count * size(), dtype, stream,
                 [&](const void* i, void* o) {
                   return inner().AllToAll(i, o, count, dtype, stream);
                 });
  }
  absl::Status AllToAllV(const void* in, absl::Span<const size_t> in_counts,
                         absl::Span<const size_t> in_offsets, void* out,
                         absl::Span<const size_t> out_counts,
                         absl::Span<const size_t> out_offsets, DType dtype,
                         Stream& stream) override {
    return Moved(
        in, Reach(in_counts, in_offsets), out, Reach(out_counts, out_offsets),
        dtype, stream, [&](const void* i, void* o) {
          return inner().AllToAllV(i, in_counts, in_offsets, o, out_counts,
                                   out_offsets, dtype, stream);
        });
  }
  absl::Status Send(const void* buffer, size_t count, DType dtype, int peer,
                    Stream& stream) override {
    return Moved(buffer, count, nullptr, 0, dtype, stream,
                 [&](const void* i, void*) {
                   return inner().Send(i, count, dtype, peer, stream);
                 });
  }
  absl::Status Recv(void* buffer, size_t count, DType dtype, int peer,
                    Stream& stream) override {
    return Moved(nullptr, 0, buffer, count, dtype, stream,
                 [&](const void*, void* o) {
                   return inner().Recv(o, count, dtype, peer, stream);
                 });
  }

  absl::Status Group(absl::FunctionRef<absl::Status()> body) override {
    const size_t before = after_group_.size();
    ++depth_;
    const absl::Status status = inner().Group(body);
    --depth_;
    if (!status.ok()) after_group_.resize(before);
    if (depth_ > 0) return status;
    for (Later& later : std::exchange(after_group_, {})) {
      CopyBack(later, *later.stream);
    }
    return status;
  }

 private:
  // A copy from the arena to the caller's memory, made after the operation.
  struct Later {
    std::vector<Twin> twins;
    void* out;
    size_t bytes;
    HostStream* stream;
  };

  static size_t Reach(absl::Span<const size_t> counts,
                      absl::Span<const size_t> offsets) {
    size_t reach = 0;
    for (size_t r = 0; r < std::min(counts.size(), offsets.size()); ++r) {
      if (counts[r] > kTooMany || offsets[r] > kTooMany) return kTooMany;
      if (counts[r] > 0) reach = std::max(reach, offsets[r] + counts[r]);
    }
    return reach;
  }

  // Calls call(in, out) with the copies. The inner communicator reports errors
  // in the arguments.
  template <typename F>
  absl::Status Moved(const void* in, size_t in_count, void* out,
                     size_t out_count, DType dtype, Stream& stream, F call) {
    const size_t element = SizeOf(dtype);
    auto* const host = dynamic_cast<HostStream*>(&stream);
    const bool odd = host == nullptr || element == 0 || in_count >= kTooMany ||
                     out_count >= kTooMany || (in == nullptr && in_count > 0) ||
                     (out == nullptr && out_count > 0);
    if (odd) return call(in, out);
    const size_t in_bytes = in_count * element;
    const size_t out_bytes = out_count * element;
    const std::vector<Twin> twins = TwinsOf(in, in_bytes, out, out_bytes);
    host->Enqueue([twins] {
      for (const Twin& twin : twins) {
        const void* original = reinterpret_cast<const void*>(twin.begin);
        std::memcpy(twin.Of(original), original, twin.bytes);
      }
      return absl::OkStatus();
    });
    const absl::Status called =
        call(Double(twins, in, in_bytes), Double(twins, out, out_bytes));
    if (!called.ok()) return called;
    Later later{twins, out, out_bytes, host};
    if (depth_ > 0) {
      after_group_.push_back(std::move(later));
    } else {
      CopyBack(later, *host);
    }
    return called;
  }

  std::vector<Twin> TwinsOf(const void* in, size_t in_bytes, const void* out,
                            size_t out_bytes) const {
    std::vector<Twin> twins;
    const uintptr_t in_end = Address(in) + in_bytes;
    const uintptr_t out_end = Address(out) + out_bytes;
    const bool overlap = in_bytes > 0 && out_bytes > 0 &&
                         Address(in) < out_end && Address(out) < in_end;
    if (overlap) {
      const void* const begin = std::min<const void*>(in, out);
      twins.emplace_back(*arena_, begin,
                         std::max(in_end, out_end) - Address(begin));
      return twins;
    }
    if (in_bytes > 0) twins.emplace_back(*arena_, in, in_bytes);
    if (out_bytes > 0) twins.emplace_back(*arena_, out, out_bytes);
    return twins;
  }

  template <typename T>
  static T* Double(const std::vector<Twin>& twins, T* original, size_t bytes) {
    for (const Twin& twin : twins) {
      if (bytes > 0 && twin.Holds(original, bytes)) {
        return static_cast<T*>(twin.Of(original));
      }
    }
    return original;
  }

  // Keeps the twins alive until then, also if there is nothing to copy.
  static void CopyBack(const Later& later, HostStream& stream) {
    stream.Enqueue([later] {
      if (later.bytes > 0) {
        std::memcpy(later.out, Double(later.twins, later.out, later.bytes),
                    later.bytes);
      }
      return absl::OkStatus();
    });
  }

  Arena* const arena_;
  int depth_ = 0;
  std::vector<Later> after_group_;
};

class ArenaPendingGroup final : public PendingGroup {
 public:
  ArenaPendingGroup(std::unique_ptr<PendingGroup> inner, Arena* arena)
      : inner_(std::move(inner)), arena_(arena) {}

  const std::string& handle() const override { return inner_->handle(); }
  absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      const std::vector<std::string>& handles,
      absl::Duration timeout) override {
    auto inner = inner_->Connect(handles, timeout);
    if (!inner.ok()) return inner;
    return std::make_unique<ArenaCommunicator>(*std::move(inner), arena_);
  }
  void Abort(std::string_view cause) override { inner_->Abort(cause); }

 private:
  const std::unique_ptr<PendingGroup> inner_;
  Arena* const arena_;
};

class ArenaTransport final : public Transport {
 public:
  explicit ArenaTransport(std::unique_ptr<Transport> inner)
      : inner_(std::move(inner)), arena_(inner_->MakeArena()) {}

  std::string_view name() const override { return inner_->name(); }
  TransportFacts facts() const override { return inner_->facts(); }
  absl::StatusOr<std::unique_ptr<PendingGroup>> Prepare(
      const GroupSpec& group) override {
    auto inner = inner_->Prepare(group);
    if (!inner.ok()) return inner;
    return std::make_unique<ArenaPendingGroup>(*std::move(inner), arena_.get());
  }

 private:
  const std::unique_ptr<Transport> inner_;
  const std::unique_ptr<Arena> arena_;
};

}  // namespace

std::unique_ptr<Transport> MakeArenaTransport(
    std::unique_ptr<Transport> transport) {
  return std::make_unique<ArenaTransport>(std::move(transport));
}

}  // namespace lockstep
