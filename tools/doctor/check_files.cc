#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/text/units.h"
#include "tools/doctor/checks.h"

namespace lockstep::doctor {
namespace {

// A journal of a thousand jobs takes some MiB; SQLite needs as much again when
// it is compacted.
constexpr uint64_t kJournalBytes = uint64_t{64} << 20;

constexpr char kDoesNotStart[] = "lockstepd would not start";

Finding JudgeFolder(const JournalFolderFacts& journal) {
  const std::string folder = Quoted(journal.folder);
  if (!journal.exists) {
    if (journal.parent_writable.ok()) {
      return {Severity::kOk, absl::StrCat(journal.folder,
                                          " does not exist; lockstepd makes "
                                          "it")};
    }
    return {
        Severity::kError, std::string(journal.parent_writable.message()),
        kDoesNotStart,
        absl::StrCat("install -d -m 0700 -o lockstepd -g lockstepd ", folder)};
  }
  if (!journal.is_folder) {
    return {Severity::kError, absl::StrCat(journal.folder, " is not a folder"),
            kDoesNotStart, "name another one with --journal"};
  }
  // root may look at the folder of the daemon's user.
  if (journal.owner != 0 && journal.reader != 0 &&
      journal.owner != journal.reader) {
    return {Severity::kError,
            absl::StrFormat("%s belongs to user %d, and this is user %d",
                            journal.folder, journal.owner, journal.reader),
            "lockstepd of this user would not start",
            absl::StrFormat("sudo -u '#%d' lockstepctl doctor ..., or chown "
                            "-R %d %s",
                            journal.owner, journal.reader, folder)};
  }
  if ((journal.mode & 0022) != 0) {
    return {Severity::kError,
            absl::StrFormat("other users may write to %s (mode %04o)",
                            journal.folder, journal.mode & 07777),
            kDoesNotStart, absl::StrCat("chmod 700 ", folder)};
  }
  if (journal.in_use) {
    return {Severity::kOk, absl::StrCat(journal.folder, ": a daemon uses it")};
  }
  if (!journal.inspected) {
    return {Severity::kOk, absl::StrFormat("%s was not read: user %d may",
                                           journal.folder, journal.owner)};
  }
  if (absl::IsNotFound(*journal.inspected)) {
    return {Severity::kOk, absl::StrCat(journal.folder, " has no journal yet")};
  }
  if (!journal.inspected->ok()) {
    return {Severity::kError, std::string(journal.inspected->message()),
            kDoesNotStart,
            absl::StrCat("restore it from a copy, or lockstepctl journal "
                         "repair ",
                         folder, " (docs/journal.md)")};
  }
  return {Severity::kOk,
          absl::StrCat(journal.folder, " is intact, ",
                       RoundedSizeText(journal.free_bytes), " is free")};
}

}  // namespace

Findings CheckJournalFolder(const Facts& facts) {
  if (!facts.journal) return {};
  const JournalFolderFacts& journal = *facts.journal;
  Findings findings = {JudgeFolder(journal)};
  if (journal.free_bytes < kJournalBytes || journal.free_files < 16) {
    findings.push_back(
        {Severity::kError,
         absl::StrCat("the file system of ", journal.folder, " has ",
                      RoundedSizeText(journal.free_bytes), " and ",
                      journal.free_files, " files left"),
         "running jobs go on, but nothing new is promised: no job is created, "
         "no epoch begins",
         absl::StrCat("df -h ", Quoted(journal.folder),
                      "; a larger volume, or remove what is not needed")});
  }
  if (journal.is_on_network) {
    findings.push_back(
        {Severity::kError,
         absl::StrCat(journal.folder, " is on a network file system"),
         "SQLite's log needs shared memory and locks that those do not have: "
         "a journal there may be damaged",
         "use a local disk, or a volume of block storage; for several "
         "coordinators --journal etcd://..."});
  }
  return findings;
}

Findings CheckEtcd(const Facts& facts) {
  Findings findings;
  if (facts.etcd_url && !facts.etcd_url->ok()) {
    return {{Severity::kError, std::string(facts.etcd_url->message()),
             "lockstepd ends at its start",
             "docs/high-availability.md has what --journal and --etcd_tls "
             "take"}};
  }
  size_t reached = 0;
  for (const EtcdMember& member : facts.etcd) {
    reached += member.connected.ok() ? 1 : 0;
  }
  const bool has_majority = reached > facts.etcd.size() / 2;
  for (const EtcdMember& member : facts.etcd) {
    if (member.connected.ok()) {
      findings.push_back({Severity::kOk, absl::StrCat(member.address,
                                                      " accepts connections")});
      continue;
    }
    if (absl::IsFailedPrecondition(member.connected)) {
      findings.push_back({Severity::kError,
                          std::string(member.connected.message()),
                          "lockstepd ends at its start",
                          "--etcd-tls DIR, with ca.crt, tls.crt and tls.key "
                          "for etcd's clients, if etcd serves TLS"});
      continue;
    }
    findings.push_back(
        {has_majority ? Severity::kWarning : Severity::kError,
         absl::StrCat("no member of etcd is reached at ", member.address, ": ",
                      member.connected.message()),
         has_majority ? "the others have a majority; one more loss, and no "
                        "coordinator leads"
                      : "without a majority no coordinator leads",
         absl::StrCat("etcdctl --endpoints ", Quoted(member.address),
                      " endpoint health; open its port")});
  }
  return findings;
}

Findings CheckSpec(const Facts& facts) {
  if (!facts.spec) return {};
  if (facts.spec->ok()) return {{Severity::kOk, "it can be read"}};
  return {{Severity::kError, std::string(facts.spec->message()),
           "no job is created from it", "docs/spec.md has each field"}};
}

}  // namespace lockstep::doctor
