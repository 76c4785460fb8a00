#include "client/pipeline/activation.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "protocol/tensor_type.h"

namespace lockstep {
namespace {

constexpr uint32_t kMagic = 0x4341534c;  // "LSAC"
constexpr uint16_t kVersion = 1;

constexpr size_t kVersionAt = 4;
constexpr size_t kDTypeAt = 6;
constexpr size_t kDimensionsAt = 7;
constexpr size_t kElementsAt = 8;
constexpr size_t kExtentsAt = 16;

void Put(uint64_t number, size_t bytes, size_t at, ActivationHeader& header) {
  for (size_t i = 0; i < bytes; ++i) {
    header[at + i] = static_cast<std::byte>(number >> (8 * i));
  }
}

uint64_t Get(const ActivationHeader& header, size_t at, size_t bytes) {
  uint64_t number = 0;
  for (size_t i = 0; i < bytes; ++i) {
    number |= static_cast<uint64_t>(header[at + i]) << (8 * i);
  }
  return number;
}

}  // namespace

absl::StatusOr<ActivationHeader> EncodeHeader(const TensorType& type) {
  if (type.shape.size() > kActivationDimensionsMax) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s has %d dimensions, a header holds %d", TypeText(type),
        type.shape.size(), kActivationDimensionsMax));
  }
  if (const std::string fault = FaultOf(type); !fault.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(TypeText(type), " ", fault));
  }
  ActivationHeader header{};
  Put(kMagic, 4, 0, header);
  Put(kVersion, 2, kVersionAt, header);
  Put(static_cast<uint64_t>(type.dtype), 1, kDTypeAt, header);
  Put(type.shape.size(), 1, kDimensionsAt, header);
  Put(static_cast<uint64_t>(ElementsOf(type)), 8, kElementsAt, header);
  for (size_t i = 0; i < type.shape.size(); ++i) {
    Put(static_cast<uint64_t>(type.shape[i]), 8, kExtentsAt + 8 * i, header);
  }
  return header;
}

absl::StatusOr<TensorType> DecodeHeader(const ActivationHeader& header) {
  if (Get(header, 0, 4) != kMagic) {
    return absl::DataLossError(
        "what arrived is no activation's header: the peer sent something else");
  }
  if (const uint64_t version = Get(header, kVersionAt, 2);
      version != kVersion) {
    return absl::DataLossError(
        absl::StrFormat("an activation's header has version %d, this is %d",
                        version, kVersion));
  }
  const uint64_t dimensions = Get(header, kDimensionsAt, 1);
  if (dimensions > kActivationDimensionsMax) {
    return absl::DataLossError(absl::StrFormat(
        "an activation's header has %d dimensions", dimensions));
  }
  TensorType type{.dtype = static_cast<DType>(Get(header, kDTypeAt, 1))};
  for (size_t i = 0; i < dimensions; ++i) {
    type.shape.push_back(
        static_cast<int64_t>(Get(header, kExtentsAt + 8 * i, 8)));
  }
  std::string fault = FaultOf(type);
  if (fault.empty() &&
      Get(header, kElementsAt, 8) != static_cast<uint64_t>(ElementsOf(type))) {
    fault = "has another number of elements than it says";
  }
  for (size_t i = dimensions; i < kActivationDimensionsMax; ++i) {
    if (fault.empty() && Get(header, kExtentsAt + 8 * i, 8) != 0) {
      fault = "has an extent behind its last dimension";
    }
  }
  if (fault.empty()) return type;
  return absl::DataLossError(absl::StrCat("an activation's header ", fault));
}

absl::Status SendActivation(Communicator& communicator,
                            const TensorView& tensor, int peer,
                            ActivationHeader* header, Stream& stream) {
  absl::StatusOr<ActivationHeader> encoded = EncodeHeader(tensor.type);
  if (!encoded.ok()) return encoded.status();
  *header = *encoded;
  absl::Status sent = communicator.Send(header->data(), header->size(),
                                        DType::kU8, peer, stream);
  if (!sent.ok()) return sent;
  // An empty tensor may have no memory.
  const void* const data =
      tensor.data != nullptr ? tensor.data : header->data();
  return communicator.Send(data, static_cast<size_t>(tensor.elements()),
                           tensor.type.dtype, peer, stream);
}

absl::StatusOr<ReceivedActivation> RecvActivation(
    Communicator& communicator, int peer,
    const std::function<absl::StatusOr<ArenaBuffer>(size_t)>& allocate,
    Stream& stream) {
  absl::StatusOr<ArenaBuffer> header = allocate(kActivationHeaderBytes);
  if (!header.ok()) return header.status();
  absl::Status received = communicator.Recv(
      header->data(), kActivationHeaderBytes, DType::kU8, peer, stream);
  if (received.ok()) received = stream.Synchronize();
  if (received.ok()) received = communicator.status();
  if (!received.ok()) return received;
  ActivationHeader bytes;
  std::copy_n(header->data(), bytes.size(), bytes.begin());
  absl::StatusOr<TensorType> type = DecodeHeader(bytes);
  if (!type.ok()) return type.status();

  absl::StatusOr<ArenaBuffer> memory =
      allocate(static_cast<size_t>(std::max<int64_t>(BytesOf(*type), 1)));
  if (!memory.ok()) return memory.status();
  ReceivedActivation activation{.tensor = {memory->data(), *type},
                                .memory = *std::move(memory)};
  received = communicator.Recv(activation.tensor.data,
                               static_cast<size_t>(ElementsOf(*type)),
                               type->dtype, peer, stream);
  if (!received.ok()) return received;
  return activation;
}

}  // namespace lockstep
