#include "client/pipeline/activation.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protocol/tensor_type.h"
#include "tests/support/inproc_world.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

// Every dtype with 0 to 8 dimensions, and empty tensors.
std::vector<TensorType> Types() {
  std::vector<TensorType> types;
  for (const DType dtype : kTransportDTypes) {
    for (size_t dimensions = 0; dimensions <= kActivationDimensionsMax;
         ++dimensions) {
      TensorType type{dtype, std::vector<int64_t>(dimensions, 2)};
      if (dimensions > 0) type.shape.back() = 3;
      types.push_back(type);
      if (dimensions == 0) continue;
      type.shape[dimensions / 2] = 0;
      types.push_back(type);
    }
  }
  return types;
}

TEST(ActivationTest, HeadersReadBack) {
  for (const TensorType& type : Types()) {
    const absl::StatusOr<ActivationHeader> header = EncodeHeader(type);
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(*DecodeHeader(*header), type) << TypeText(type);
  }
}

TEST(ActivationTest, AHeaderHasAFixedForm) {
  const ActivationHeader header =
      *EncodeHeader({DType::kBF16, {3, 0x0102030405}});
  std::vector<int> bytes;
  for (size_t i = 0; i < 32; ++i) bytes.push_back(static_cast<int>(header[i]));
  EXPECT_EQ(bytes, (std::vector<int>{'L', 'S', 'A', 'C', 1, 0, 8, 2,  //
                                     15,  12,  9,   6,   3, 0, 0, 0,  //
                                     3,   0,   0,   0,   0, 0, 0, 0,  //
                                     5,   4,   3,   2,   1, 0, 0, 0}));
}

TEST(ActivationTest, WhatNoHeaderCanSayIsRefused) {
  for (const TensorType& type :
       {TensorType{DType::kF32, std::vector<int64_t>(9, 1)},
        TensorType{DType::kF32, {-1}}, TensorType{static_cast<DType>(0), {1}},
        TensorType{DType::kF32, {int64_t{1} << 40, int64_t{1} << 40}}}) {
    EXPECT_EQ(EncodeHeader(type).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(ActivationTest, WhatIsNoHeaderIsDataLoss) {
  const ActivationHeader good = *EncodeHeader({DType::kF32, {2, 3}});
  const struct {
    size_t at;
    int value;
    const char* why;
  } cases[] = {{0, 'X', "no activation's header"},
               {4, 2, "version 2"},
               {6, 0, "no dtype"},
               {6, 77, "no dtype"},
               {7, 9, "9 dimensions"},
               {8, 7, "another number"},
               {23, 0x80, "negative extent"}};
  for (const auto& c : cases) {
    ActivationHeader header = good;
    header[c.at] = static_cast<std::byte>(c.value);
    const absl::Status status = DecodeHeader(header).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.why));
  }
}

TEST(ActivationTest, TensorsOfAnyTypeTravel) {
  testing_support::InprocWorld network;
  auto pair = network.Connect("pair", 2);
  const auto arena = MakePlainArena();
  std::thread sender([&] {
    HostStream stream("sender");
    for (const TensorType& type : Types()) {
      std::vector<char> bytes(BytesOf(type));
      for (size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<char>(i % 31);
      }
      ActivationHeader header;
      void* const data = bytes.empty() ? nullptr : bytes.data();
      EXPECT_EQ(SendActivation(*pair[0], {data, type}, 1, &header, stream),
                absl::OkStatus());
      EXPECT_EQ(stream.Synchronize(), absl::OkStatus());
    }
  });
  HostStream stream("receiver");
  for (const TensorType& type : Types()) {
    const auto received = RecvActivation(
        *pair[1], 0, [&](size_t bytes) { return arena->Allocate(bytes); },
        stream);
    EXPECT_TRUE(received.ok()) << received.status();
    EXPECT_EQ(stream.Synchronize(), absl::OkStatus());
    if (!received.ok()) break;
    EXPECT_EQ(received->tensor.type, type);
    const char* const bytes = static_cast<char*>(received->tensor.data);
    for (int64_t i = 0; i < BytesOf(type); ++i) EXPECT_EQ(bytes[i], i % 31);
  }
  sender.join();
}

TEST(ActivationTest, APeerThatSendsSomethingElseIsNoticed) {
  testing_support::InprocWorld network;
  auto pair = network.Connect("pair", 2);
  const auto arena = MakePlainArena();
  HostStream out("out");
  std::vector<char> noise(kActivationHeaderBytes, 7);
  ASSERT_TRUE(
      pair[0]->Send(noise.data(), noise.size(), DType::kU8, 1, out).ok());
  HostStream in("in");
  EXPECT_EQ(
      RecvActivation(
          *pair[1], 0, [&](size_t bytes) { return arena->Allocate(bytes); }, in)
          .status()
          .code(),
      absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace lockstep
