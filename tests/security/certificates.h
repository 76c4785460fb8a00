// The certificates of the security tests, made once for the whole program: good
// ones, and those that must be refused.

#ifndef LOCKSTEP_TESTS_SECURITY_CERTIFICATES_H_
#define LOCKSTEP_TESTS_SECURITY_CERTIFICATES_H_

#include <string>
#include <vector>

#include "tools/certs/certificate_authority.h"

namespace lockstep::security {

// A folder that is removed at the end of its scope.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// A TLS folder, and the same as text.
struct Identity {
  std::string folder;
  std::string authority;  // PEM, as the others
  certs::PemPair own;
};

struct Certificates {
  Identity coordinator;  // for localhost and 127.0.0.1
  Identity worker;
  Identity operator_;       // of the common name "alice"
  Identity expired_worker;  // since an hour
  Identity expired_server;
  Identity future_worker;     // from tomorrow on
  Identity elsewhere;         // a coordinator of another host
  Identity self_signed;       // accepts only itself
  Identity strange_worker;    // of another authority, which it accepts
  Identity strange_operator;  // of the same other authority, as the next
  Identity strange_coordinator;
  Identity worker_as_server;  // a worker's with a host name
};
const Certificates& TheCertificates();

// Writes files as certs::... does, without checking them.
void WriteIdentity(const std::string& folder, const std::string& authority,
                   const certs::PemPair& own);

// As cp does: the file is empty for a moment, and keeps its mode.
void CopyOver(const std::string& path, const std::string& text);

struct ToolOutcome {
  int code = -1;
  std::string output;  // stdout, then stderr
};
// Runs a program of the test's folder to its end. Unlike a Supervisor it may be
// used beside gRPC's threads, which would take its signals.
ToolOutcome RunProgram(std::vector<std::string> command);

}  // namespace lockstep::security

#endif  // LOCKSTEP_TESTS_SECURITY_CERTIFICATES_H_
