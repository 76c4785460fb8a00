#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text/count.h"
#include "base/tls/tls_folder.h"
#include "tools/doctor/certificate_age.h"
#include "tools/doctor/checks.h"

namespace lockstep::doctor {
namespace {

std::string RenewFix(const std::string& folder) {
  return absl::StrCat(
      "lockstepctl certs renew CERTS (the parent of the folders that certs "
      "init made), and put the new files in ",
      Quoted(folder),
      ", or into the Secret behind it; with cert-manager: cmctl renew");
}

// Best first: the most probable cause of what ReadTlsFolder refuses.
std::string TlsFix(const TlsFacts& tls, absl::Time now) {
  const std::string key = Quoted(absl::StrCat(tls.folder, "/", tls::kKeyFile));
  if (absl::IsNotFound(tls.usable)) {
    return absl::StrCat(
        "lockstepctl certs init CERTS --host NAME makes such folders: name "
        "one of them with --tls. In Kubernetes: kubectl get secret, and the "
        "volume that mounts it at ",
        Quoted(tls.folder));
  }
  if (!tls.key.ok()) {
    return absl::StrCat("chmod 600 ", key, " as its owner, or chown root ", key,
                        " && chmod 640 ", key,
                        "; in Kubernetes defaultMode: 0440");
  }
  if (tls.certificate && tls.certificate->until <= now) {
    return RenewFix(tls.folder);
  }
  if (tls.certificate && tls.certificate->from > now) {
    return "correct the clock of this host: timedatectl";
  }
  return "name another folder of lockstepctl certs with --tls, or make new "
         "ones: lockstepctl certs renew CERTS";
}

}  // namespace

Findings CheckTls(const Facts& facts) {
  Findings findings;
  for (const TlsFacts& tls : facts.tls) {
    if (!tls.usable.ok()) {
      findings.push_back({Severity::kError, std::string(tls.usable.message()),
                          "no connection can be made with these files",
                          TlsFix(tls, facts.now)});
      continue;
    }
    const tls::CertificateFacts& own = *tls.certificate;
    const std::string about = absl::StrCat(
        tls.folder, ": the certificate ", own.Owner(),
        own.hosts.empty()
            ? ""
            : absl::StrCat(" for ", absl::StrJoin(own.hosts, ", ")),
        " is valid until ", DayText(own.until), ", ",
        LeftText(own.until, facts.now));
    if (ExpiresSoon(own, facts.assignment.expires_within, facts.now)) {
      findings.push_back(
          {Severity::kWarning, about,
           "after that no new connection can be made: workers do not resume "
           "when the coordinator restarts",
           RenewFix(tls.folder)});
    } else {
      findings.push_back({Severity::kOk, about});
    }
  }
  return findings;
}

Findings CheckTokens(const Facts& facts) {
  Findings findings;
  for (const TokenFacts& token : facts.tokens) {
    if (token.usable.ok()) {
      findings.push_back(
          {Severity::kOk,
           absl::StrCat(token.source, ": ", Count(token.tokens, "token"))});
      continue;
    }
    const std::string file = Quoted(token.source);
    std::string fix = "set it to a token of UTF-8 text, without line breaks";
    if (token.is_file && absl::IsFailedPrecondition(token.usable)) {
      fix = absl::StrCat("chmod 600 ", file, " as its owner, or chown root ",
                         file, " && chmod 640 ", file,
                         "; in Kubernetes defaultMode: 0440");
    } else if (token.is_file) {
      fix = absl::StrCat("(umask 077; openssl rand -hex 32 > ", file, ")");
    }
    findings.push_back({Severity::kError, std::string(token.usable.message()),
                        "calls without a valid token are refused",
                        std::move(fix)});
  }
  if (!facts.daemon_tokens) return findings;
  const DaemonTokenFacts& both = *facts.daemon_tokens;
  if (!both.usable.ok()) {
    findings.push_back({Severity::kError, std::string(both.usable.message()),
                        "lockstepd would end with exit code 2",
                        "a file of its own for each of the two: (umask 077; "
                        "openssl rand -hex 32 > FILE)"});
  } else if (!both.warning.empty()) {
    findings.push_back(
        {Severity::kWarning, both.warning,
         "who guesses a token operates jobs, or joins them; without "
         "join tokens each worker needs the token of all jobs",
         "(umask 077; openssl rand -hex 32 > FILE)"});
  }
  return findings;
}

}  // namespace lockstep::doctor
