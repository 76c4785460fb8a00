// What lockstepctl doctor, and the launcher, say about certificates and tokens.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/strip.h"
#include "base/join_token.h"
#include "base/secret_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/security/certificates.h"
#include "tests/support/paths.h"
#include "tests/support/program.h"

namespace lockstep::security {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

class DoctorTlsTest : public testing::Test {
 protected:
  DoctorTlsTest() {
    EXPECT_TRUE(WriteSecretFile(folder_.File("operators"), DrawSecret()).ok());
    EXPECT_TRUE(WriteSecretFile(folder_.File("workers"), secret_).ok());
  }

  // The address of a daemon with these certificates.
  std::string Serve(const Identity& identity) {
    daemons_.push_back(std::make_unique<Program>(std::vector<std::string>{
        ProgramPath("lockstepd"), "--listen", "127.0.0.1:0", "--tls",
        identity.folder, "--token_file", folder_.File("operators"),
        "--worker_token_file", folder_.File("workers")}));
    const std::string line = daemons_.back()->ReadLine();
    return std::string(absl::StripPrefix(line, "lockstepd listening on "));
  }

  ToolOutcome Doctor(const std::string& address, const Identity& identity,
                     const std::string& token_file) {
    return RunProgram({"lockstepctl", "--address", address, "--tls",
                       identity.folder, "--token-file",
                       folder_.File(token_file), "doctor", "--job", "digits"});
  }

  const Certificates& made_ = TheCertificates();
  const std::string secret_ = DrawSecret();
  const TestFolder folder_;
  std::vector<std::unique_ptr<Program>> daemons_;
};

TEST_F(DoctorTlsTest, AnOperatorAndAWorkerAreWell) {
  ASSERT_TRUE(WriteSecretFile(folder_.File("join"),
                              JoinToken(secret_, "digits").value())
                  .ok());
  const std::string address = Serve(made_.coordinator);
  const ToolOutcome alice = Doctor(address, made_.operator_, "operators");
  EXPECT_EQ(alice.code, 0) << alice.output;
  EXPECT_THAT(alice.output, ContainsRegex("ok +coordinator .*an operator"));
  EXPECT_THAT(alice.output, ContainsRegex("ok +tls .*of alice"));
  const ToolOutcome worker = Doctor(address, made_.worker, "join");
  EXPECT_EQ(worker.code, 0) << worker.output;
  EXPECT_THAT(worker.output,
              ContainsRegex("ok +coordinator .*a worker of the job"));
}

TEST_F(DoctorTlsTest, ATokenOfAnotherJobIsAnError) {
  ASSERT_TRUE(WriteSecretFile(folder_.File("join"),
                              JoinToken(secret_, "others").value())
                  .ok());
  const ToolOutcome worker =
      Doctor(Serve(made_.coordinator), made_.worker, "join");
  EXPECT_EQ(worker.code, 1) << worker.output;
  EXPECT_THAT(worker.output,
              ContainsRegex("error +coordinator .*another job's"));
}

TEST_F(DoctorTlsTest, EachBadCertificateIsNamedWithAFix) {
  const std::string address = Serve(made_.coordinator);
  const ToolOutcome expired = Doctor(address, made_.expired_worker, "workers");
  EXPECT_EQ(expired.code, 1);
  EXPECT_THAT(expired.output, ContainsRegex("error +tls .* expired at "));
  EXPECT_THAT(expired.output, HasSubstr("fix: lockstepctl certs renew"));
  const ToolOutcome early = Doctor(address, made_.future_worker, "workers");
  EXPECT_EQ(early.code, 1);
  EXPECT_THAT(early.output, ContainsRegex("error +tls .* is not valid before"));
  EXPECT_THAT(early.output, HasSubstr("fix: correct the clock"));
  // The folder is well by itself.
  const ToolOutcome strange = Doctor(address, made_.strange_worker, "workers");
  EXPECT_EQ(strange.code, 1);
  EXPECT_THAT(strange.output, ContainsRegex("error +coordinator .* not signed "
                                            "by the authority of ca.crt"));
}

TEST_F(DoctorTlsTest, ACoordinatorOfAnotherHostIsNamed) {
  const ToolOutcome worker =
      Doctor(Serve(made_.elsewhere), made_.worker, "workers");
  EXPECT_EQ(worker.code, 1) << worker.output;
  EXPECT_THAT(worker.output, ContainsRegex("error +coordinator .*and not for "
                                           "127.0.0.1"));
}

TEST_F(DoctorTlsTest, TheFolderOfACoordinatorIsForListening) {
  const auto listen = [&](const Identity& identity) {
    return RunProgram({"lockstepctl", "--tls", identity.folder, "--token-file",
                       folder_.File("operators"), "doctor", "--listen",
                       "127.0.0.1:0", "--worker-token-file",
                       folder_.File("workers")});
  };
  EXPECT_EQ(listen(made_.coordinator).code, 0)
      << listen(made_.coordinator).output;
  EXPECT_EQ(listen(made_.worker).code, 1);
  ASSERT_TRUE(WriteSecretFile(folder_.File("workers"), "short").ok());
  EXPECT_THAT(listen(made_.coordinator).output,
              ContainsRegex("warning +token .*of workers has 5 bytes"));
}

TEST_F(DoctorTlsTest, ALauncherSaysTheFixOfAnExpiredCertificateInItsLine) {
  const ToolOutcome launcher =
      RunProgram({"lockstepctl", "--address", Serve(made_.coordinator), "--tls",
                  made_.expired_worker.folder, "--token-file",
                  folder_.File("workers"), "run", "-n", "1", "--", "true"});
  EXPECT_EQ(launcher.code, 2);
  EXPECT_THAT(launcher.output,
              ContainsRegex("tls.crt: .* expired at .*; fix: lockstepctl certs "
                            "renew"));
  EXPECT_EQ(std::count(launcher.output.begin(), launcher.output.end(), '\n'), 1)
      << launcher.output;
}

}  // namespace
}  // namespace lockstep::security
