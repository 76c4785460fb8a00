// Names that would be paths, or would draw on a terminal: each way in gives one
// clear error, nothing is made of them, and a running job goes on.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/text/utf8.h"
#include "client/checkpoint/directory.h"
#include "client/checkpoint/manifest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spec/spec_text.h"
#include "tests/security/certificates.h"
#include "tests/security/running_job.h"
#include "tools/certs/certificate_folder.h"
#include "tools/rpc/admin_client.h"

namespace lockstep::security {
namespace {

using absl::StatusCode;
using testing::AnyOf;
using testing::ElementsAre;

const std::vector<std::string>& HostileNames() {
  static const std::vector<std::string> names = {
      "",
      ".",
      "..",
      "../x",
      "a/../../b",
      "/etc/passwd",
      "a/b",
      "~root",
      std::string("nul\0byte", 8),
      "line\nbreak",
      "\x1b[2J",
      "\xFF\xFE",
      "\xE2\x80\xAE reversed",
      std::string(10'000, 'x'),
      std::string(1 << 20, '/'),
  };
  return names;
}

// One line, and no flood of it.
void ExpectClear(const absl::Status& status, const std::string& name) {
  EXPECT_FALSE(status.ok()) << Printable(name.substr(0, 100));
  EXPECT_TRUE(IsPrintableUtf8(status.message())) << Printable(status.message());
  EXPECT_LT(status.message().size(), 5000u) << status.message().substr(0, 200);
  EXPECT_GT(status.message().size(), 10u);
}

class HostileNamesTest : public testing::Test {
 protected:
  absl::Status CallWith(const std::string& method, const std::string& bytes) {
    return rpc::CallWithBytes(job_.channel(),
                              absl::StrCat("/lockstep.v1.", method), bytes)
        .status();
  }

  // A protobuf message with one field of wire type 2.
  static std::string Field(int number, const std::string& value) {
    std::string bytes(1, static_cast<char>(number << 3 | 2));
    for (size_t size = value.size(); true; size >>= 7) {
      const char low = static_cast<char>(size & 0x7F);
      if (size < 0x80) return bytes + low + value;
      bytes += static_cast<char>(low | 0x80);
    }
  }

  InProcessDaemon daemon_;
  rpc::RunningJob job_{daemon_};
};

TEST_F(HostileNamesTest, OfJobsAreRefusedByEveryCall) {
  for (const std::string& name : HostileNames()) {
    const std::string header = Field(1, Field(1, name));
    for (const char* method : {"Admin/DescribeJob", "Admin/StopJob",
                               "Admin/DeleteJob", "Admin/WatchJob"}) {
      const absl::Status status = CallWith(method, header);
      if (ToUtf8(name) != name) {  // no message: gRPC has no words for it
        EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
        continue;
      }
      ExpectClear(status, name);
      EXPECT_THAT(status.code(),
                  AnyOf(StatusCode::kInvalidArgument, StatusCode::kNotFound,
                        StatusCode::kPermissionDenied))
          << method << ": " << status;
    }
    if (ToUtf8(name) != name) continue;
    // The spec is field 3 of the request, its name field 1.
    const absl::Status created =
        CallWith("Admin/CreateJob", header + Field(3, Field(1, name)));
    ExpectClear(created, name);
    rpc::StreamLine line(job_.channel());
    v1::ToCoordinator hello = proto::ToProto(protocol::ToCoordinator{
        .body = protocol::Hello{
            .worker = {"w"}, .incarnation = 1, .spec = SpecOf("x", 1)}});
    if (!IsPrintableUtf8(name)) continue;  // no client can send it
    hello.mutable_header()->set_job(name);
    hello.mutable_hello()->mutable_spec()->set_name(name);
    line.Write(hello);
    ExpectClear(line.Finish(), name);
  }
  EXPECT_THAT(
      ctl::AdminClient({.addresses = daemon_.address()}).ListJobs().value(),
      ElementsAre(testing::Field(&JobSummary::name, JobName{"running"})));
  job_.ExpectThatItGoesOn();
}

TEST_F(HostileNamesTest, OfWorkersAreRefusedUnlessTheyAreOnlyText) {
  for (const std::string& name : HostileNames()) {
    const bool is_text =
        !name.empty() && name.size() <= 253 && IsPrintableUtf8(name);
    if (is_text || !IsPrintableUtf8(name)) continue;
    rpc::StreamLine line(job_.channel());
    v1::ToCoordinator hello = proto::ToProto(protocol::ToCoordinator{
        .job = {"other"},
        .body = protocol::Hello{
            .worker = {name}, .incarnation = 1, .spec = SpecOf("other", 1)}});
    line.Write(hello);
    const absl::Status status = line.Finish();
    ExpectClear(status, name);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  }
  job_.ExpectThatItGoesOn();
}

TEST(HostileNamesOfFilesTest, InASpec) {
  for (const std::string& name : HostileNames()) {
    JobSpec spec = SpecOf("x", 1);
    spec.name = name;
    ExpectClear(Validate(spec), name);
    spec = SpecOf("x", 1);
    spec.workers = {name};
    ExpectClear(Validate(spec), name);
    const auto read = spec::ParseJobSpec(
        absl::StrCat("name: \"", name, "\"\nmesh: data=1\n"), "job.yaml");
    ExpectClear(read.status(), name);
  }
}

TEST(HostileNamesOfFilesTest, OfCheckpoints) {
  for (const std::string& name : HostileNames()) {
    EXPECT_EQ(checkpoint::ParseFolderName(name), std::nullopt);
    EXPECT_EQ(checkpoint::ParseFolderName(
                  absl::StrCat(name, "step-1-epoch-1-attempt-1/", name)),
              std::nullopt);
    checkpoint::Manifest manifest{.job = "j", .mesh = {{{"data", 1}}}};
    manifest.files = {{.name = name}};
    if (name == "~root") continue;  // a plain name of a file
    ExpectClear(Validate(manifest), name);
    manifest.is_foreign = true;
    if (name != "a/b") ExpectClear(Validate(manifest), name);
  }
}

TEST(HostileNamesOfFilesTest, OfCertificates) {
  const TestFolder folder;
  const std::string made = folder.File("certs");
  const certs::CertificateFolderOptions options = {.now = absl::Now()};
  ASSERT_TRUE(certs::InitCertificates(made, options).ok());
  for (const std::string& name : HostileNames()) {
    if (name == "~root") continue;  // a plain name of a folder
    const absl::Status issued = certs::IssueCertificate(
        made, name, certs::CertificateRole::kWorker, options);
    ExpectClear(issued, name);
    EXPECT_EQ(issued.code(), StatusCode::kInvalidArgument) << issued;
  }
}

}  // namespace
}  // namespace lockstep::security
