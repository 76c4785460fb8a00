// The conformance cases on streams of fake devices, over a fake NCCL.

#include <filesystem>
#include <string>
#include <vector>

#include "client/transport/nccl/nccl.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance/collectives/run_case.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/paths.h"
#include "tests/support/sanitizers.h"

namespace lockstep::conformance {
namespace {

std::vector<std::string> CaseFiles() {
  std::vector<std::string> files;
  const std::filesystem::path folder =
      SourcePath("tests/conformance/collectives/cases");
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files.push_back(entry.path().string());
  }
  return files;
}

// NCCL does not compare numbers: a rank that expects fewer rows than it is sent
// waits until it is aborted.
constexpr char kWaits[] = "error_bad_ragged_received_sizes_differ";

class DeviceCasesTest : public testing::TestWithParam<std::string> {};

TEST_P(DeviceCasesTest, PassOverNccl) {
  const auto file = ReadCaseFile(GetParam());
  ASSERT_TRUE(file.ok()) << file.status();
  fake::FakeGpus gpus;
  {
    Groups groups([&gpus](int rank) {
      return transport::nccl::MakeTransport(gpus.TablesOf(rank));
    });
    constexpr size_t kStride = kUnderThreadSanitizer ? 63
                               : kUnderSanitizer     ? 21
                                                     : 3;
    for (size_t i = 0; i < file->cases.size(); i += kStride) {
      const CollectiveCase& test = file->cases[i];
      if (test.name == kWaits) continue;
      EXPECT_EQ(RunCase(test, groups, /*checked=*/false), "") << test.name;
    }
  }
  EXPECT_THAT(gpus.violations(), testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Files, DeviceCasesTest, testing::ValuesIn(CaseFiles()),
    [](const auto& file) {
      std::string name = std::filesystem::path(file.param).stem().string();
      for (char& c : name) c = c == '.' ? '_' : c;
      return name;
    });

}  // namespace
}  // namespace lockstep::conformance
