// Where the data of workers may go.

#include "client/session/data_plane.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::session {
namespace {

using testing::AllOf;
using testing::HasSubstr;

JobSpec SpecOf(const std::string& transport, DataPlane data_plane) {
  JobSpec spec;
  spec.name = "digits";
  spec.transport = transport;
  spec.data_plane = data_plane;
  return spec;
}

TEST(DataPlaneTest, LoopbackNeedsNoTrust) {
  for (const char* address : {"127.0.0.1", "127.5.6.7", "::1", "localhost"}) {
    EXPECT_TRUE(CheckDataPlane(SpecOf("gloo", DataPlane::kLocal), address).ok())
        << address;
  }
}

TEST(DataPlaneTest, AnotherAddressNeedsIt) {
  for (const char* transport : {"auto", "gloo", "nccl"}) {
    for (const char* address :
         {"10.0.0.7", "fe80::1", "0.0.0.0", "128.0.0.1"}) {
      const absl::Status refused =
          CheckDataPlane(SpecOf(transport, DataPlane::kLocal), address);
      EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << address;
      EXPECT_THAT(std::string(refused.message()),
                  AllOf(HasSubstr(address), HasSubstr("digits"),
                        HasSubstr("`data_plane: trusted`")));
      EXPECT_TRUE(
          CheckDataPlane(SpecOf(transport, DataPlane::kTrusted), address).ok());
    }
  }
}

TEST(DataPlaneTest, SharedMemoryLeavesNoMachine) {
  EXPECT_TRUE(
      CheckDataPlane(SpecOf("shm", DataPlane::kLocal), "10.0.0.7").ok());
}

}  // namespace
}  // namespace lockstep::session
