// The checks of `lockstepctl doctor`: each is a pure function of the facts.
//
// A check returns a finding for each object that it has judged, also for those
// that are well, and none if there was no such object.

#ifndef LOCKSTEP_TOOLS_DOCTOR_CHECKS_H_
#define LOCKSTEP_TOOLS_DOCTOR_CHECKS_H_

#include <string>

#include "absl/types/span.h"
#include "tools/doctor/facts.h"
#include "tools/doctor/finding.h"

namespace lockstep::doctor {

struct NamedCheck {
  const char* name;
  Findings (*judge)(const Facts&);
};

// All of them, in the order in which they are printed.
absl::Span<const NamedCheck> Checks();

// What they find.
Findings Diagnose(const Facts& facts);

// --- Machine (check_machine.cc) ---
Findings CheckMemory(const Facts& facts);
Findings CheckShm(const Facts& facts);
Findings CheckOpenFiles(const Facts& facts);
Findings CheckTasks(const Facts& facts);
Findings CheckLockedMemory(const Facts& facts);
Findings CheckCore(const Facts& facts);

// --- GPUs (check_gpu.cc) ---
Findings CheckDriver(const Facts& facts);
Findings CheckNccl(const Facts& facts);

// --- Secrets (check_secrets.cc) ---
Findings CheckTls(const Facts& facts);
Findings CheckTokens(const Facts& facts);

// --- Network (check_network.cc) ---
Findings CheckHostName(const Facts& facts);
Findings CheckHostAddress(const Facts& facts);
Findings CheckListen(const Facts& facts);
Findings CheckCoordinators(const Facts& facts);
Findings CheckClock(const Facts& facts);

// --- Files (check_files.cc) ---
Findings CheckSpec(const Facts& facts);
Findings CheckJournalFolder(const Facts& facts);
Findings CheckEtcd(const Facts& facts);

// `text` for a command line of a shell.
std::string Quoted(const std::string& text);

}  // namespace lockstep::doctor

#endif  // LOCKSTEP_TOOLS_DOCTOR_CHECKS_H_
