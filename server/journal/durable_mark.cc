#include "server/journal/durable_mark.h"

#include <sys/types.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_format.h"
#include "server/journal/private_file.h"

namespace lockstep::journal {
namespace {

std::string WhyMissing(const std::optional<WalExtent>& log) {
  if (!log) {
    return "there is no journal.db-wal: it was removed, or an older copy of "
           "journal.db was put in place";
  }
  if (!log->cut) {
    return absl::StrFormat("journal.db-wal is damaged at byte %d", log->valid);
  }
  return absl::StrFormat(
      "journal.db-wal ends at byte %d: it was cut, or an older copy was put in "
      "place",
      log->valid);
}

}  // namespace

absl::StatusOr<DurableMark> ReadMark(FileSystem* files,
                                     const std::string& path) {
  const auto bytes = ReadWhole(files, path);
  if (absl::IsNotFound(bytes.status())) return DurableMark{};
  if (!bytes.ok()) return bytes.status();
  const auto frame = Decode(*bytes);
  if (!frame.ok()) return DurableMark{true, {}, frame.status()};
  return DurableMark{true, Chain(frame->number, frame->predecessor), {}};
}

absl::Status CompareWithMark(const DurableMark& mark, const JournalEnd& end) {
  if (!mark.exists) {
    return absl::DataLossError(absl::StrFormat(
        "the file mark is missing, so records after the newest here, %d, may "
        "be missing too: the copy is incomplete",
        end.last));
  }
  const uint64_t promised = mark.newest.last_number();
  if (promised > end.last) {
    return absl::DataLossError(absl::StrFormat(
        "record %d of the journal is damaged or missing: %d of %d records that "
        "were durable are gone; %s",
        end.last + 1, promised - end.last, promised, WhyMissing(end.log)));
  }
  if (end.hash_at_mark && *end.hash_at_mark != mark.newest.last_hash()) {
    return absl::DataLossError(absl::StrFormat(
        "record %d of the journal is not the one that was durable: another "
        "journal was put in its place",
        promised));
  }
  return absl::OkStatus();
}

absl::StatusOr<MarkFile> MarkFile::Open(const std::string& path) {
  absl::StatusOr<FileDescriptor> fd = OpenPrivateFile(path);
  if (!fd.ok()) return fd.status();
  return MarkFile(path, *std::move(fd));
}

void MarkFile::Write(const Chain& newest) {
  const std::string bytes = EndFrame(newest);
  [[maybe_unused]] const ssize_t written =
      pwrite(fd_.get(), bytes.data(), bytes.size(), 0);
}

absl::Status MarkFile::Renew(const Chain& newest) {
  const std::string bytes = EndFrame(newest);
  errno = 0;
  if (pwrite(fd_.get(), bytes.data(), bytes.size(), 0) !=
          static_cast<ssize_t>(bytes.size()) ||
      ftruncate(fd_.get(), static_cast<off_t>(bytes.size())) != 0 ||
      fsync(fd_.get()) != 0) {
    // A short write is that of a full disk.
    return absl::ErrnoToStatus(errno != 0 ? errno : ENOSPC, path_);
  }
  return absl::OkStatus();
}

}  // namespace lockstep::journal
