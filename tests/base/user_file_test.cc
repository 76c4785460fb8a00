// Files that are named by users.

#include "base/user_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>

#include "base/file_descriptor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;

class UserFileTest : public testing::Test {
 protected:
  UserFileTest() {
    std::string pattern = testing::TempDir() + "user-file-XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~UserFileTest() override { std::filesystem::remove_all(folder_); }
  std::string Path(const std::string& name) const {
    return folder_ + "/" + name;
  }

  std::string folder_;
};

TEST_F(UserFileTest, ReadsWhatWasWritten) {
  const std::string bytes(200'000, '\7');
  ASSERT_TRUE(WriteUserFile(Path("f"), bytes).ok());
  EXPECT_EQ(ReadUserFile(Path("f"), bytes.size()).value(), bytes);
  ASSERT_TRUE(WriteUserFile(Path("f"), "less").ok());
  EXPECT_EQ(ReadUserFile(Path("f"), 4).value(), "less");
  ASSERT_TRUE(WriteUserFile(Path("f"), "").ok());
  EXPECT_EQ(ReadUserFile(Path("f"), 0).value(), "");
}

TEST_F(UserFileTest, ADirectoryIsNamedAsOne) {
  const absl::Status status = ReadUserFile(folder_, 10).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(folder_), HasSubstr("is a directory")));
  EXPECT_FALSE(WriteUserFile(folder_, "x").ok());
}

TEST_F(UserFileTest, WhatHasNoEndIsNotReadToIt) {
  const absl::Status status = ReadUserFile("/dev/zero", 1000).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("/dev/zero"), HasSubstr("1000 bytes")));
}

TEST_F(UserFileTest, APipeIsReadToItsEnd) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "spec", 4), 4);
  close(ends[1]);
  EXPECT_EQ(
      ReadUserFile("/proc/self/fd/" + std::to_string(ends[0]), 100).value(),
      "spec");
  close(ends[0]);
}

// Whether or not it has another end, which could be the one that never closes.
TEST_F(UserFileTest, ANamedPipeIsRefusedAtOnce) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  const auto refuses = [this](const absl::Status& status) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(Path("pipe")), HasSubstr("named pipe")));
  };
  refuses(ReadUserFile(Path("pipe"), 10).status());
  refuses(WriteUserFile(Path("pipe"), "x"));
  const FileDescriptor other(open(Path("pipe").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(other.valid());
  refuses(ReadUserFile(Path("pipe"), 10).status());
  refuses(WriteUserFile(Path("pipe"), "x"));
}

// More than a pipe holds, and later than it is opened.
TEST_F(UserFileTest, AShellsPipeIsWaitedForAtBothEnds) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const FileDescriptor out(ends[0]), in(ends[1]);
  const auto name = [](const FileDescriptor& file) {
    return "/proc/self/fd/" + std::to_string(file.get());
  };
  const std::string bytes(1 << 20, 'x');
  std::thread writer([&] {
    EXPECT_EQ(WriteUserFile(name(in), bytes), absl::OkStatus());
    EXPECT_EQ(WriteUserFile(name(in), "end"), absl::OkStatus());
  });
  EXPECT_THAT(std::string(ReadUserFile(name(out), 1 << 20).status().message()),
              HasSubstr("is larger than"));
  writer.join();
}

TEST_F(UserFileTest, ErrorsNameTheFileAndTheReason) {
  const absl::Status absent = ReadUserFile(Path("none"), 10).status();
  EXPECT_EQ(absent.code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(absent.message()),
              AllOf(HasSubstr(Path("none")), HasSubstr(strerror(ENOENT))));
  const absl::Status full = WriteUserFile("/dev/full", "bytes");
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()),
              AllOf(HasSubstr("/dev/full"), HasSubstr(strerror(ENOSPC))));
}

// The files in /proc of a process that has just ended can be opened but not
// read.
TEST_F(UserFileTest, AFileThatIsOpenedAndNotReadIsAnError) {
  const absl::Status status = ReadUserFile("/proc/self/mem", 10).status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("/proc/self/mem"));
}

}  // namespace
}  // namespace lockstep
