#include "tools/doctor/checks.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace lockstep::doctor {

absl::Span<const NamedCheck> Checks() {
  static constexpr NamedCheck kChecks[] = {
      {"spec", &CheckSpec},
      {"memory", &CheckMemory},
      {"/dev/shm", &CheckShm},
      {"open files", &CheckOpenFiles},
      {"processes", &CheckTasks},
      {"locked memory", &CheckLockedMemory},
      {"core dumps", &CheckCore},
      {"gpu", &CheckDriver},
      {"nccl", &CheckNccl},
      {"tls", &CheckTls},
      {"token", &CheckTokens},
      {"host name", &CheckHostName},
      {"host address", &CheckHostAddress},
      {"listen", &CheckListen},
      {"coordinator", &CheckCoordinators},
      {"clock", &CheckClock},
      {"journal", &CheckJournalFolder},
      {"etcd", &CheckEtcd},
  };
  return kChecks;
}

Findings Diagnose(const Facts& facts) {
  Findings all;
  for (const NamedCheck& check : Checks()) {
    for (Finding& finding : check.judge(facts)) {
      finding.check = check.name;
      all.push_back(std::move(finding));
    }
  }
  return all;
}

std::string Quoted(const std::string& text) {
  constexpr char kPlain[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
      "_-./:=,@%+";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) {
    return text;
  }
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

}  // namespace lockstep::doctor
