#include "tests/support/faulty_file_system.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

// A status of its own for each thread that gets one: abseil's counts of
// references are not instrumented, so ThreadSanitizer takes a shared one that
// ends for a race.
absl::Status Copy(const absl::Status& error) {
  return absl::Status(error.code(), error.message());
}

}  // namespace

class FaultyFileSystem::File final : public WritableFile {
 public:
  File(FaultyFileSystem* files, std::string path,
       std::unique_ptr<WritableFile> below)
      : files_(files), path_(std::move(path)), below_(std::move(below)) {}

  absl::Status Append(absl::string_view bytes) override {
    if (absl::Status fault = Fault(); !fault.ok()) return fault;
    const size_t fitting = files_->TakeSpace(bytes.size());
    absl::Status status = below_->Append(bytes.substr(0, fitting));
    if (!status.ok() || fitting == bytes.size()) return status;
    return status_ = absl::ResourceExhaustedError(
               absl::StrCat("write ", path_, ": no space left on device"));
  }

  absl::Status StartWriteback() override {
    if (absl::Status fault = Fault(); !fault.ok()) return fault;
    return below_->StartWriteback();
  }

  absl::Status Sync() override {
    if (absl::Status fault = Fault(); !fault.ok()) return fault;
    return below_->Sync();
  }

 private:
  // The first error is returned by all later calls.
  absl::Status Fault() {
    absl::Status fault = files_->Count();
    if (status_.ok()) status_ = std::move(fault);
    return status_;
  }

  FaultyFileSystem* const files_;
  const std::string path_;
  const std::unique_ptr<WritableFile> below_;
  absl::Status status_;
};

class FaultyFileSystem::OpenedFile final : public ReadableFile {
 public:
  OpenedFile(FaultyFileSystem* files, std::unique_ptr<ReadableFile> below)
      : files_(files), below_(std::move(below)) {}

  absl::Status Read(uint64_t offset, size_t bytes, void* to) override {
    if (absl::Status fault = files_->CountRead(bytes); !fault.ok()) {
      return fault;
    }
    return below_->Read(offset, bytes, to);
  }
  absl::StatusOr<uint64_t> Size() override { return below_->Size(); }

 private:
  FaultyFileSystem* const files_;
  const std::unique_ptr<ReadableFile> below_;
};

void FaultyFileSystem::FailFrom(int first, absl::Status error) {
  MutexLock lock(&mutex_);
  first_ = first;
  last_ = std::numeric_limits<int>::max();
  error_ = std::move(error);
}

void FaultyFileSystem::FailAt(int operation, absl::Status error) {
  MutexLock lock(&mutex_);
  first_ = last_ = operation;
  error_ = std::move(error);
}

void FaultyFileSystem::FailReads(absl::Status error) {
  MutexLock lock(&mutex_);
  read_error_ = std::move(error);
}

void FaultyFileSystem::SetSpace(uint64_t bytes) {
  MutexLock lock(&mutex_);
  space_ = bytes;
}

int FaultyFileSystem::operations() const {
  MutexLock lock(&mutex_);
  return operations_;
}

uint64_t FaultyFileSystem::bytes_read() const {
  MutexLock lock(&mutex_);
  return bytes_read_;
}

absl::Status FaultyFileSystem::Count() {
  MutexLock lock(&mutex_);
  ++operations_;
  const bool fails = operations_ >= first_ && operations_ <= last_;
  return fails ? Copy(error_) : absl::OkStatus();
}

absl::Status FaultyFileSystem::CountRead(uint64_t bytes) {
  MutexLock lock(&mutex_);
  bytes_read_ += bytes;
  return Copy(read_error_);
}

size_t FaultyFileSystem::TakeSpace(size_t bytes) {
  MutexLock lock(&mutex_);
  const size_t fitting = std::min<uint64_t>(bytes, space_);
  space_ -= fitting;
  return fitting;
}

absl::StatusOr<FileKind> FaultyFileSystem::KindOf(const std::string& path) {
  return below_->KindOf(path);
}

absl::StatusOr<std::unique_ptr<WritableFile>> FaultyFileSystem::Open(
    const std::string& path, OpenMode mode) {
  if (absl::Status fault = Count(); !fault.ok()) return fault;
  auto below = below_->Open(path, mode);
  if (!below.ok()) return below.status();
  return std::make_unique<File>(this, path, *std::move(below));
}

absl::StatusOr<std::unique_ptr<ReadableFile>> FaultyFileSystem::OpenForReading(
    const std::string& path) {
  auto below = below_->OpenForReading(path);
  if (!below.ok()) return below.status();
  return std::make_unique<OpenedFile>(this, *std::move(below));
}

absl::StatusOr<std::string> FaultyFileSystem::Read(const std::string& path,
                                                   uint64_t offset,
                                                   size_t bytes) {
  return below_->Read(path, offset, bytes);
}

absl::StatusOr<uint64_t> FaultyFileSystem::Size(const std::string& path) {
  return below_->Size(path);
}

absl::Status FaultyFileSystem::MakeDirectory(const std::string& path) {
  if (absl::Status fault = Count(); !fault.ok()) return fault;
  return below_->MakeDirectory(path);
}

absl::StatusOr<std::vector<std::string>> FaultyFileSystem::List(
    const std::string& directory) {
  return below_->List(directory);
}

absl::Status FaultyFileSystem::SyncDirectory(const std::string& directory) {
  if (absl::Status fault = Count(); !fault.ok()) return fault;
  return below_->SyncDirectory(directory);
}

absl::Status FaultyFileSystem::Rename(const std::string& from,
                                      const std::string& to) {
  if (absl::Status fault = Count(); !fault.ok()) return fault;
  return below_->Rename(from, to);
}

absl::Status FaultyFileSystem::Remove(const std::string& path) {
  if (absl::Status fault = Count(); !fault.ok()) return fault;
  return below_->Remove(path);
}

absl::StatusOr<std::unique_ptr<FileLock>> FaultyFileSystem::Lock(
    const std::string& path, absl::string_view holder) {
  if (absl::Status fault = Count(); !fault.ok()) return fault;
  return below_->Lock(path, holder);
}

}  // namespace lockstep
