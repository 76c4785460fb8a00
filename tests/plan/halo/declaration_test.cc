// What one rank can check of its declaration (protocol/halo.h).

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protocol/halo.h"
#include "tests/plan/halo/declarations.h"

namespace lockstep::plan {
namespace {

using testing::HasSubstr;

const Mesh kLatLon{{{"lat", 2}, {"lon", 2}}};

HaloSpec GoodHalo() {
  return {"u",
          {{DType::kF32,
            {6, 8},
            {{0, "lat", 1, 2, HaloEdge::kReflect},
             {1, "lon", 1, 1, HaloEdge::kPeriodic}}}}};
}

struct BadHalo {
  std::function<void(HaloSpec&)> damage;
  std::vector<std::string> said;  // in the message
};

template <typename Edit>
BadHalo InTensor(Edit edit, std::vector<std::string> said) {
  said.insert(said.end(), {"halo u", "tensor 0"});
  return {[edit](HaloSpec& spec) { edit(spec.tensors[0]); }, said};
}

std::vector<BadHalo> BadHalos() {
  const double nan = std::nan("");
  const double infinity = std::numeric_limits<double>::infinity();
  const auto constant_of = [](DType dtype, double constant) {
    return [=](HaloTensor& t) {
      t.dtype = dtype;
      t.dims[0].edge = HaloEdge::kConstant;
      t.dims[0].constant = constant;
    };
  };
  return {
      {[](HaloSpec& spec) { spec.name.clear(); }, {"\"\""}},
      {[](HaloSpec& spec) { spec.name = std::string(257, 'x'); }, {"256"}},
      {[](HaloSpec& spec) { spec.name = "a\nb"; }, {"a\\nb"}},
      {[](HaloSpec& spec) { spec.tensors.clear(); }, {"halo u", "0 tensors"}},
      {[](HaloSpec& spec) { spec.tensors.resize(65); },
       {"halo u", "65 tensors", "64"}},
      InTensor([](HaloTensor& t) { t.dtype = static_cast<DType>(99); },
               {"dtype 99"}),
      InTensor([](HaloTensor& t) { t.shape = std::vector<int64_t>(9, 1); },
               {"9 dimensions", "8"}),
      InTensor([](HaloTensor& t) { t.shape[1] = 0; }, {"[6,0]", "empty"}),
      InTensor([](HaloTensor& t) { t.shape[1] = -3; }, {"[6,-3]"}),
      InTensor([](HaloTensor& t) { t.dims[1].axis = "pipe"; },
               {"dim 1", "pipe", "lat=2,lon=2"}),
      InTensor([](HaloTensor& t) { t.dims[1].axis = "lat"; },
               {"axis lat", "dim 0", "dim 1"}),
      InTensor([](HaloTensor& t) { t.dims[1].dim = 0; },
               {"dim 0", "given twice"}),
      InTensor([](HaloTensor& t) { t.dims[1].dim = -2; },
               {"dim 0", "given twice"}),
      InTensor([](HaloTensor& t) { t.dims[1].dim = 2; },
               {"dim 2", "2 dimensions"}),
      InTensor([](HaloTensor& t) { t.dims[1].dim = -3; },
               {"dim -3", "2 dimensions"}),
      InTensor([](HaloTensor& t) { t.dims[0].low = -1; },
               {"dim 0", "low -1", "high 2"}),
      InTensor([](HaloTensor& t) { t.dims[0].high = -2; },
               {"dim 0", "low 1", "high -2"}),
      InTensor([](HaloTensor& t) { t.dims[0].edge = static_cast<HaloEdge>(9); },
               {"dim 0", "edge 9"}),
      InTensor(constant_of(DType::kF32, nan), {"dim 0", "f32", "nan"}),
      InTensor(constant_of(DType::kF64, infinity), {"dim 0", "f64", "inf"}),
      InTensor(constant_of(DType::kF16, 65505), {"f16", "65505"}),
      InTensor(constant_of(DType::kBF16, -3.4e38), {"bf16", "-3.4e+38"}),
      InTensor(constant_of(DType::kF32, 3.5e38), {"f32", "3.5e+38"}),
      InTensor(constant_of(DType::kC64, 3.5e38), {"c64", "3.5e+38"}),
      InTensor(constant_of(DType::kF8E4M3, 449), {"f8e4m3", "449"}),
      InTensor(constant_of(DType::kF8E5M2, 57345), {"f8e5m2", "57345"}),
      InTensor(constant_of(DType::kU8, 256), {"u8", "256"}),
      InTensor(constant_of(DType::kU8, -1), {"u8", "-1"}),
      InTensor(constant_of(DType::kI8, 128), {"i8", "128"}),
      InTensor(constant_of(DType::kI16, 0.5), {"i16", "0.5"}),
      InTensor(constant_of(DType::kBool, 2), {"bool", "2"}),
      InTensor(constant_of(DType::kI64, std::ldexp(1, 63)), {"i64"}),
      InTensor(constant_of(DType::kU64, std::ldexp(1, 64)), {"u64"}),
      InTensor([](HaloTensor& t) { t.shape[0] = int64_t{1} << 36; },
               {"[68719476736,8]", "1099511627776"}),
      InTensor([](HaloTensor& t) { t.dims[0].low = int64_t{1} << 62; },
               {"[6,8]", "1099511627776"}),
      InTensor(
          [](HaloTensor& t) {
            t.shape = {int64_t{1} << 32, int64_t{1} << 32};
          },
          {"[4294967296,4294967296]"}),
      InTensor(
          [](HaloTensor& t) {
            t.dims[0].low = t.dims[0].high =
                std::numeric_limits<int64_t>::max() - 1;
          },
          {"[6,8]"}),
      InTensor([](HaloTensor& t) { t.dims[0].high = kWholeField; },
               {"dim 0", "a width of the whole field has edge none"}),
  };
}

TEST(HaloDeclarationTest, ErrorsNameExchangeTensorDimensionAndValue) {
  ASSERT_TRUE(Normalized(GoodHalo(), kLatLon).ok());
  for (const BadHalo& bad : BadHalos()) {
    HaloSpec spec = GoodHalo();
    bad.damage(spec);
    const absl::StatusOr<HaloSpec> made = Normalized(spec, kLatLon);
    EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
    for (const std::string& said : bad.said) {
      EXPECT_THAT(std::string(made.status().message()), HasSubstr(said));
    }
  }
}

TEST(HaloDeclarationTest, TheLargestConstantsAreAccepted) {
  const std::vector<std::pair<DType, double>> constants = {
      {DType::kBool, 1},
      {DType::kU8, 255},
      {DType::kI8, -128},
      {DType::kI16, -32768},
      {DType::kU16, 65535},
      {DType::kI32, -2147483648.0},
      {DType::kU32, 4294967295.0},
      {DType::kI64, -std::ldexp(1, 63)},
      {DType::kU64, std::ldexp(1, 64) - 2048},
      {DType::kF8E4M3, -448},
      {DType::kF8E5M2, 57344},
      {DType::kF16, 65504},
      {DType::kBF16, 3.3895313892515355e38},
      {DType::kF32, 3.4028234663852886e38},
      {DType::kF64, 1.7976931348623157e308},
      {DType::kC64, 0.1},
      {DType::kC128, 1e300}};
  EXPECT_EQ(constants.size(), std::size(kAllDTypes));
  for (const auto& [dtype, constant] : constants) {
    EXPECT_TRUE(IsHaloConstant(dtype, constant)) << Name(dtype);
  }
}

TEST(HaloDeclarationTest, DimensionsAreSortedAndPlainOnesLeftOut) {
  const HaloSpec given{"u",
                       {{DType::kF32,
                         {2, 3, 4, 5},
                         {{-1, "lon", 1, 0, HaloEdge::kPeriodic, 3},
                          {1, "", 0, 0, HaloEdge::kReflect},
                          {-2, "", 0, 1, HaloEdge::kConstant, 0.5},
                          {0, "lat", 0, 0, HaloEdge::kReplicate}}}}};
  const absl::StatusOr<HaloSpec> made = Normalized(given, kLatLon);
  ASSERT_TRUE(made.ok()) << made.status();
  const HaloSpec wanted{"u",
                        {{DType::kF32,
                          {2, 3, 4, 5},
                          {{0, "lat", 0, 0, HaloEdge::kReplicate},
                           {2, "", 0, 1, HaloEdge::kConstant, 0.5},
                           {3, "lon", 1, 0, HaloEdge::kPeriodic, 0}}}}};
  EXPECT_EQ(*made, wanted);
  EXPECT_EQ(*Normalized(*made, kLatLon), *made);
  EXPECT_EQ(Describe(made->tensors[0]),
            "f32[*,3,4,*]: dim 0 over lat, low 0, high 0, replicate; dim 2, "
            "low 0, high 1, constant 0.5; dim 3 over lon, low 1, high 0, "
            "periodic");
}

}  // namespace
}  // namespace lockstep::plan
