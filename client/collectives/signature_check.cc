#include "client/collectives/signature_check.h"

#include <cstddef>
#include <utility>

#include "client/collectives/signature.h"

namespace lockstep::collectives {
namespace {

// The memory of one comparison: the own signature, then those of all members.
struct SignatureExchange {
  std::shared_ptr<transport::ScratchPool> pool;
  transport::Scratch memory;
  std::shared_ptr<const std::string> own;
  std::vector<int> ranks;
};

}  // namespace

absl::Status EnqueueSignatureCheck(
    std::shared_ptr<const std::string> own, const std::vector<int>& ranks,
    const std::shared_ptr<Communicator>& communicator,
    const std::shared_ptr<transport::ScratchPool>& pool, CallStream& stream) {
  const auto exchange = std::make_shared<SignatureExchange>();
  exchange->pool = pool;
  exchange->own = std::move(own);
  exchange->ranks = ranks;
  absl::Status status =
      pool->Take(kSignatureBytes * (ranks.size() + 1), &exchange->memory);
  if (!status.ok()) return status;
  std::byte* const at = exchange->memory.data();
  std::byte* const all = at + kSignatureBytes;
  stream.Enqueue([exchange, at] {
    WriteSignature(*exchange->own, at);
    return absl::OkStatus();
  });
  status = communicator->AllGather(at, all, kSignatureBytes, DType::kU8,
                                   stream.stream());
  stream.Enqueue([exchange, all, communicator] {
    if (!communicator->status().ok()) return absl::OkStatus();
    const std::string fault = SignatureFault(all, exchange->ranks);
    if (fault.empty()) return absl::OkStatus();
    const std::string message = DifferentCalls(fault);
    communicator->Abort(message);
    return absl::InvalidArgumentError(message);
  });
  return status;
}

}  // namespace lockstep::collectives
