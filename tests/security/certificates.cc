#include "tests/security/certificates.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/time/clock.h"
#include "base/check.h"
#include "base/secret_file.h"
#include "base/tls/tls_folder.h"
#include "gtest/gtest.h"
#include "tests/support/paths.h"
#include "tests/support/program.h"

namespace lockstep::security {
namespace {

using certs::CertificateAuthority;
using certs::CertificateRole;
using certs::Validity;

class Maker {
 public:
  Certificates Make() {
    const Validity now = {now_ - absl::Hours(1), now_ + absl::Hours(24)};
    const Validity past = {now_ - absl::Hours(48), now_ - absl::Hours(1)};
    const Validity future = {now_ + absl::Hours(24), now_ + absl::Hours(48)};
    const auto own = CertificateAuthority::Create("tests", Long());
    const auto other = CertificateAuthority::Create("strangers", Long());
    const std::vector<std::string> here = {"localhost", "127.0.0.1"};
    using enum CertificateRole;
    return {
        .coordinator = Issue(own, {"coordinator", kCoordinator, here, now}),
        .worker = Issue(own, {"worker", kWorker, {}, now}),
        .operator_ = Issue(own, {"alice", kOperator, {}, now}),
        .expired_worker = Issue(own, {"expired", kWorker, {}, past}),
        .expired_server =
            Issue(own, {"expired-server", kCoordinator, here, past}),
        .future_worker = Issue(own, {"future", kWorker, {}, future}),
        .elsewhere =
            Issue(own, {"elsewhere", kCoordinator, {"elsewhere.test"}, now}),
        .self_signed =
            Write("self-signed", other.pem().certificate, other.pem()),
        .strange_worker = Issue(other, {"stranger", kWorker, {}, now}),
        .strange_operator =
            Issue(other, {"strange-operator", kOperator, {}, now}),
        .strange_coordinator =
            Issue(other, {"strange-coordinator", kCoordinator, here, now}),
        .worker_as_server = Issue(own, {"mallory", kWorker, here, now}),
    };
  }

 private:
  Validity Long() const {
    return {now_ - absl::Hours(100), now_ + absl::Hours(100)};
  }

  Identity Issue(const CertificateAuthority& authority,
                 const certs::CertificateRequest& request) {
    const auto own = authority.Issue(request);
    Check(own.ok(), "the test's certificates can be made");
    return Write(request.name, authority.pem().certificate, *own);
  }

  Identity Write(const std::string& name, const std::string& authority,
                 const certs::PemPair& own) {
    const std::string folder = folder_.File(name);
    WriteIdentity(folder, authority, own);
    return {folder, authority, own};
  }

  static inline TestFolder folder_;
  const absl::Time now_ = absl::Now();
};

}  // namespace

TestFolder::TestFolder() {
  std::string pattern = testing::TempDir() + "security-XXXXXX";
  Check(mkdtemp(pattern.data()) != nullptr, "a folder can be made");
  path_ = pattern;
}

TestFolder::~TestFolder() { std::filesystem::remove_all(path_); }

const Certificates& TheCertificates() {
  static const Certificates certificates = Maker().Make();
  return certificates;
}

void WriteIdentity(const std::string& folder, const std::string& authority,
                   const certs::PemPair& own) {
  std::filesystem::create_directories(folder);
  const tls::TlsFiles files = tls::FilesIn(folder);
  const bool written = WriteSecretFile(files.authority, authority).ok() &&
                       WriteSecretFile(files.key, own.key).ok() &&
                       WriteSecretFile(files.certificate, own.certificate).ok();
  Check(written, "the test's certificates can be written");
}

void CopyOver(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::trunc) << text;
}

ToolOutcome RunProgram(std::vector<std::string> command) {
  command[0] = ProgramPath(command[0]);
  Program program(command);
  ToolOutcome outcome;
  outcome.output = program.ReadAll();
  outcome.code = program.Wait();
  outcome.output += program.Errors();
  return outcome;
}

}  // namespace lockstep::security
