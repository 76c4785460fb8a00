#include "base/tls/live_tls_folder.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace lockstep::tls {
namespace {

bool HaveSameFiles(const TlsContents& one, const TlsContents& other) {
  return one.authority == other.authority &&
         one.certificate == other.certificate && one.key == other.key;
}

void Say(const std::function<void(const std::string&)>& log,
         const std::string& line) {
  if (log) log(line);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LiveTlsFolder>> LiveTlsFolder::Open(
    const std::string& folder, std::vector<CertificateRole> roles,
    absl::Time now, TlsFolderLog log) {
  auto contents = ReadTlsFolder(folder, roles, now);
  if (!contents.ok()) return contents.status();
  return absl::WrapUnique(new LiveTlsFolder(
      folder, std::move(roles), std::move(log), *std::move(contents)));
}

LiveTlsFolder::LiveTlsFolder(std::string folder,
                             std::vector<CertificateRole> roles,
                             TlsFolderLog log, TlsContents contents)
    : folder_(std::move(folder)),
      roles_(std::move(roles)),
      log_(std::move(log)),
      contents_(std::make_shared<const TlsContents>(std::move(contents))) {}

std::shared_ptr<const TlsContents> LiveTlsFolder::Look(absl::Time now) {
  auto read = ReadTlsFolder(folder_, roles_, now);
  const std::string trouble(read.status().message());
  bool is_new_trouble = false;
  bool is_change = false;
  std::shared_ptr<const TlsContents> contents;
  {
    MutexLock lock(&mutex_);
    is_new_trouble = trouble != std::exchange(trouble_, trouble);
    is_change = read.ok() && !HaveSameFiles(*read, *contents_);
    if (is_change) {
      contents_ = std::make_shared<const TlsContents>(*std::move(read));
    }
    contents = contents_;
  }
  if (!trouble.empty() && is_new_trouble) {
    Say(log_.trouble,
        absl::StrCat("the certificates in ", folder_,
                     " cannot be used, and those that were read before stay "
                     "in use: ",
                     trouble));
  }
  if (is_change) {
    Say(log_.change,
        absl::StrCat(
            "the certificates in ", folder_,
            " have changed: new connections use that of ",
            contents->facts.common_name, ", which is valid until ",
            absl::FormatTime("%Y-%m-%d %H:%M UTC", contents->facts.until,
                             absl::UTCTimeZone())));
  }
  return contents;
}

std::shared_ptr<const TlsContents> LiveTlsFolder::current() const {
  MutexLock lock(&mutex_);
  return contents_;
}

}  // namespace lockstep::tls
