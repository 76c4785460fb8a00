#include <algorithm>

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
  if (absl::IsNotFound(journal.inspected)) {
    return {Severity::kOk, absl::StrCat(journal.folder, " has no journal yet")};
  }
  if (!journal.inspected.ok()) {
    return {Severity::kError, std::string(journal.inspected.message()),
            kDoesNotStart,
            absl::StrCat("restore it from a copy, or lockstepctl journal "
                         "repair ",
                         folder, " (docs/journal.md)")};
  }
  return {Severity::kOk,
          absl::StrCat(journal.folder, " is intact, ",
                       RoundedSizeText(journal.free_bytes), " is free")};
}

// Whether a majority of its cluster has confirmed what it says.
bool Serves(const EtcdMember& member) {
  return member.says.ok() && member.says->read.ok();
}

// How a member that does not serve fails.
std::string FaultOf(const EtcdMember& member) {
  if (!member.connected.ok()) {
    return absl::StrCat("no member of etcd is reached at ", member.address,
                        ": ", member.connected.message());
  }
  if (!member.says.ok()) {
    return absl::StrCat(absl::IsUnimplemented(member.says.status())
                            ? "what listens at "
                            : "the member of etcd at ",
                        member.address,
                        absl::IsUnimplemented(member.says.status())
                            ? " is no etcd"
                            : " accepts connections and does not answer",
                        ": ", member.says.status().message());
  }
  return absl::StrCat("the member of etcd at ", member.address,
                      " answers, and no majority confirms what it says: ",
                      member.says->read.message());
}

bool IsRefused(const absl::Status& status) {
  return absl::IsPermissionDenied(status) || absl::IsUnauthenticated(status);
}

// `any_serves`: that member, or another one.
Finding JudgeMember(const EtcdMember& member, bool any_serves) {
  if (Serves(member)) {
    return {Severity::kOk,
            absl::StrCat(member.address, " is etcd ", member.says->version,
                         " and has a leader")};
  }
  if (member.connected.ok() && member.lacks_certificates) {
    return {Severity::kSkipped,
            absl::StrCat(member.address,
                         " accepts connections, and was not asked: the "
                         "certificates of --etcd-tls cannot be used")};
  }
  if (member.tls) {
    return {Severity::kError, member.tls->what, "lockstepd ends at its start",
            member.tls->remedy.empty()
                ? "--etcd-tls DIR, with ca.crt of etcd's authority, and with "
                  "tls.crt and tls.key for a client of etcd"
                : member.tls->remedy};
  }
  if (member.says.ok() && IsRefused(member.says->read)) {
    return {Severity::kError,
            absl::StrCat("etcd at ", member.address,
                         " does not let this client read the journal: ",
                         member.says->read.message()),
            "no coordinator can lead",
            "etcdctl role grant-permission ROLE --prefix readwrite PREFIX/, "
            "for the user that is the common name of the certificate of "
            "--etcd-tls"};
  }
  return {any_serves ? Severity::kWarning : Severity::kError, FaultOf(member),
          any_serves ? "coordinators ask another one, which has a majority; "
                       "when that is lost, none leads"
                     : "without a majority no coordinator leads",
          absl::StrCat("etcdctl --endpoints ", Quoted(member.address),
                       " endpoint health; start it, or open its port")};
}

// Each once, of all members.
Findings Alarms(const Facts& facts) {
  const auto any = [&facts](bool etcd::MemberStatus::*alarm) {
    return std::any_of(facts.etcd.begin(), facts.etcd.end(),
                       [alarm](const EtcdMember& member) {
                         return member.says.ok() && *member.says.*alarm;
                       });
  };
  Findings findings;
  if (any(&etcd::MemberStatus::has_no_space)) {
    findings.push_back(
        {Severity::kError, "etcd's quota is used up: it has the alarm NOSPACE",
         "running jobs go on, but nothing new is promised: no job is created, "
         "no epoch begins",
         "etcdctl compact REVISION, etcdctl defrag, etcdctl alarm disarm "
         "(docs/high-availability.md)"});
  }
  if (any(&etcd::MemberStatus::is_corrupt)) {
    findings.push_back(
        {Severity::kError, "etcd has the alarm CORRUPT: its members differ",
         "etcd refuses to write, so no coordinator leads",
         "etcdctl alarm list names the member: remove it, and add it again "
         "with an empty folder"});
  }
  return findings;
}

}  // namespace

Findings CheckJournalFolder(const Facts& facts) {
  if (!facts.journal) return {};
  const JournalFolderFacts& journal = *facts.journal;
  if (!journal.allowed.ok()) {
    return {{Severity::kError, std::string(journal.allowed.message()),
             "lockstepd would end with exit code 2",
             journal.has_etcd_tls
                 ? "--journal etcd://HOST:PORT,.../PREFIX, or without "
                   "--etcd-tls"
                 : absl::StrCat("--journal ",
                                Quoted(absl::StrCat("./", journal.folder)))}};
  }
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
  if (facts.etcd_url && !facts.etcd_url->ok()) {
    return {{Severity::kError, std::string(facts.etcd_url->message()),
             "lockstepd ends at its start",
             absl::IsFailedPrecondition(*facts.etcd_url)
                 ? "--etcd-tls DIR (lockstepd's --etcd_tls), or --insecure"
                 : "a URL with a port for each member and a prefix of its own, "
                   "as etcd://etcd-0:2379,etcd-1:2379/lockstep/main"}};
  }
  const bool any_serves =
      std::any_of(facts.etcd.begin(), facts.etcd.end(), Serves);
  Findings findings;
  for (const EtcdMember& member : facts.etcd) {
    findings.push_back(JudgeMember(member, any_serves));
  }
  const Findings alarms = Alarms(facts);
  findings.insert(findings.end(), alarms.begin(), alarms.end());
  return findings;
}

Findings CheckSpec(const Facts& facts) {
  if (!facts.spec) return {};
  if (facts.spec->ok() && !facts.spec_fits.ok()) {
    const bool is_other_job = facts.assignment.job != facts.spec_name;
    return {{Severity::kError, std::string(facts.spec_fits.message()),
             "lockstepctl run ends with exit code 2",
             is_other_job
                 ? absl::StrCat("--job ", Quoted(facts.spec_name),
                                ", or without --job")
                 : "-n N --nodes M, of which the product is the number of "
                   "ranks, or another mesh"}};
  }
  if (facts.spec->ok()) return {{Severity::kOk, "it can be read"}};
  return {{Severity::kError, std::string(facts.spec->message()),
           "no job is created from it", "docs/spec.md has each field"}};
}

}  // namespace lockstep::doctor
