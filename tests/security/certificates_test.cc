// `lockstepctl certs`, and TLS folders that cannot be used.

#include "tests/security/certificates.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/time/clock.h"
#include "base/process.h"
#include "base/tls/live_tls_folder.h"
#include "base/tls/tls_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/paths.h"
#include "tools/certs/certificate_folder.h"

namespace lockstep::security {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using tls::CertificateRole;
using tls::CheckTlsFolder;

mode_t ModeOf(const std::string& path) {
  struct stat file {};
  EXPECT_EQ(lstat(path.c_str(), &file), 0) << path;
  return file.st_mode & 07777;
}

absl::Status Trouble(const std::string& folder) {
  return CheckTlsFolder(folder, absl::Now()).status();
}

// What a coordinator's certificate is valid for in any case.
std::vector<std::string> AndOwnHosts(std::vector<std::string> hosts) {
  hosts.insert(hosts.end(),
               {"localhost", "127.0.0.1", "0:0:0:0:0:0:0:1", HostName()});
  return hosts;
}

class CertsCommandTest : public testing::Test {
 protected:
  ToolOutcome Certs(std::vector<std::string> words) {
    words.insert(words.begin(), {"lockstepctl", "certs"});
    return RunProgram(words);
  }
  const TestFolder root_;
  const std::string own_ = root_.File("certs");
};

TEST_F(CertsCommandTest, InitMakesAUsableFolderForEachSide) {
  const ToolOutcome made =
      Certs({"init", own_, "--host", "train.test,10.0.0.7"});
  ASSERT_EQ(made.code, 0) << made.output;
  EXPECT_THAT(made.output, HasSubstr("lockstepd --tls"));
  for (const char* side : {"coordinator", "worker", "operator"}) {
    const std::string folder = own_ + "/" + side;
    const auto facts = CheckTlsFolder(folder, absl::Now());
    ASSERT_TRUE(facts.ok()) << facts.status();
    EXPECT_EQ(facts->common_name, side);
    EXPECT_EQ(facts->IsOperator(), std::string(side) == "operator");
    EXPECT_EQ(ModeOf(folder), 0700u);
    EXPECT_EQ(ModeOf(tls::FilesIn(folder).key), 0600u);
  }
  EXPECT_EQ(ModeOf(own_ + "/ca/ca.key"), 0600u);
  EXPECT_THAT(
      CheckTlsFolder(own_ + "/coordinator", absl::Now())->hosts,
      testing::ElementsAreArray(AndOwnHosts({"train.test", "10.0.0.7"})));
}

TEST_F(CertsCommandTest, InitReplacesNoAuthority) {
  ASSERT_EQ(Certs({"init", own_}).code, 0);
  const std::string before = ContentsOf(own_ + "/ca/ca.key");
  const ToolOutcome again = Certs({"init", own_});
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.output, HasSubstr("certs renew"));
  EXPECT_EQ(ContentsOf(own_ + "/ca/ca.key"), before);
}

TEST_F(CertsCommandTest, RenewKeepsAuthorityAndHosts) {
  ASSERT_EQ(Certs({"init", own_, "--host", "train.test"}).code, 0);
  const std::string authority = ContentsOf(own_ + "/worker/ca.crt");
  const std::string key = ContentsOf(own_ + "/worker/tls.key");
  const ToolOutcome renewed = Certs({"renew", own_, "--days", "30"});
  ASSERT_EQ(renewed.code, 0) << renewed.output;
  EXPECT_EQ(ContentsOf(own_ + "/worker/ca.crt"), authority);
  EXPECT_NE(ContentsOf(own_ + "/worker/tls.key"), key);
  const auto facts = CheckTlsFolder(own_ + "/coordinator", absl::Now());
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_THAT(facts->hosts,
              testing::ElementsAreArray(AndOwnHosts({"train.test"})));
  EXPECT_LT(facts->until, absl::Now() + absl::Hours(24 * 31));
  EXPECT_GT(facts->until, absl::Now() + absl::Hours(24 * 29));
}

// After a rotation of the authority, whose new folder the certificates are of.
TEST_F(CertsCommandTest, RenewBringsNoReplacedAuthorityBack) {
  ASSERT_EQ(Certs({"init", own_}).code, 0);
  ASSERT_EQ(Certs({"init", own_ + ".new"}).code, 0);
  const std::string file = own_ + "/worker/ca.crt";
  const std::string old = ContentsOf(file);
  const std::string fresh = ContentsOf(own_ + ".new/worker/ca.crt");
  for (const std::string& trusted : {old + fresh, fresh}) {
    std::ofstream(file) << trusted;
    const ToolOutcome renewed = Certs({"renew", own_});
    EXPECT_EQ(renewed.code, 1);
    EXPECT_THAT(renewed.output, testing::HasSubstr(file + " is not"));
    EXPECT_EQ(ContentsOf(file), trusted);
  }
  std::ofstream(file) << old;
  EXPECT_EQ(Certs({"renew", own_}).code, 0);
}

TEST_F(CertsCommandTest, RenewWithHostsReplacesThoseOfBefore) {
  ASSERT_EQ(Certs({"init", own_, "--host", "train.test"}).code, 0);
  ASSERT_EQ(Certs({"renew", own_, "--host", "other.test,localhost"}).code, 0);
  EXPECT_THAT(CheckTlsFolder(own_ + "/coordinator", absl::Now())->hosts,
              testing::ElementsAre("other.test", "localhost", "127.0.0.1",
                                   "0:0:0:0:0:0:0:1", HostName()));
}

TEST_F(CertsCommandTest, IssueNamesAClient) {
  ASSERT_EQ(Certs({"init", own_}).code, 0);
  ASSERT_EQ(Certs({"issue", own_, "alice", "--role", "operator"}).code, 0);
  const auto alice = CheckTlsFolder(own_ + "/alice", absl::Now());
  ASSERT_TRUE(alice.ok()) << alice.status();
  EXPECT_EQ(alice->common_name, "alice");
  EXPECT_TRUE(alice->IsOperator());
  ASSERT_EQ(Certs({"issue", own_, "node7"}).code, 0);
  EXPECT_FALSE(CheckTlsFolder(own_ + "/node7", absl::Now())->IsOperator());
  EXPECT_EQ(Certs({"issue", own_, "alice"}).code, 1) << "there is one";
}

TEST_F(CertsCommandTest, NoNameLeadsOutOfTheFolder) {
  ASSERT_EQ(Certs({"init", own_}).code, 0);
  for (const char* name : {"../alice", "a/b", "..", ".", "", "ca", "/tmp/x"}) {
    const ToolOutcome issued = Certs({"issue", own_, name});
    EXPECT_NE(issued.code, 0) << name;
    EXPECT_THAT(issued.output, HasSubstr(name));
  }
  EXPECT_FALSE(fs::exists(root_.File("alice")));
}

TEST_F(CertsCommandTest, WrongHostsAndNamesAreRefusedInOneLine) {
  for (const char* host : {"a b", "host:7070", "DNS:evil,IP:1.2.3.4 x", "é"}) {
    const ToolOutcome made =
        Certs({"init", root_.File("other"), "--host", host});
    EXPECT_EQ(made.code, 1) << host;
    EXPECT_EQ(std::count(made.output.begin(), made.output.end(), '\n'), 1)
        << made.output;
    fs::remove_all(root_.File("other"));
  }
  const ToolOutcome without = Certs({"renew", root_.File("none")});
  EXPECT_EQ(without.code, 1);
  EXPECT_THAT(without.output, HasSubstr("certs init"));
}

// A link that another user has planted is replaced, and not followed.
TEST_F(CertsCommandTest, FollowsNoPlantedLink) {
  ASSERT_EQ(Certs({"init", own_}).code, 0);
  const std::string victim = root_.File("victim");
  { std::ofstream(victim) << "untouched"; }
  const auto plant = [&](const char* name) {
    const std::string path = own_ + "/worker/" + name;
    fs::remove(path);
    fs::create_symlink(victim, path);
  };
  for (const char* name : {"tls.key", "tls.key.new", "tls.crt"}) plant(name);
  ASSERT_EQ(Certs({"renew", own_}).code, 0);
  EXPECT_EQ(ContentsOf(victim), "untouched");
  // It is not the authority's certificate.
  plant("ca.crt");
  EXPECT_EQ(Certs({"renew", own_}).code, 1);
  EXPECT_EQ(ContentsOf(victim), "untouched");
  fs::remove(own_ + "/worker/ca.crt");
  ASSERT_EQ(Certs({"renew", own_}).code, 0);
  EXPECT_TRUE(Trouble(own_ + "/worker").ok()) << Trouble(own_ + "/worker");
  // Nor is a folder that links elsewhere.
  fs::create_symlink(root_.path(), own_ + "/bob");
  EXPECT_EQ(Certs({"issue", own_, "bob"}).code, 1);
  EXPECT_FALSE(fs::exists(root_.File("tls.key")));
}

// --- Folders that cannot be used --------------------------------------------

TEST(TlsFolderTest, NamesTheFileAndTheFault) {
  const Certificates& made = TheCertificates();
  EXPECT_TRUE(Trouble(made.worker.folder).ok());
  const auto expect = [](const std::string& folder, const char* fault) {
    const absl::Status trouble = Trouble(folder);
    EXPECT_EQ(trouble.code(), StatusCode::kFailedPrecondition) << trouble;
    EXPECT_THAT(std::string(trouble.message()),
                AllOf(HasSubstr(folder), HasSubstr(fault)));
  };
  expect(made.expired_worker.folder, "expired");
  expect(made.future_worker.folder, "not valid before");

  const TestFolder scratch;
  const std::string mixed = scratch.File("mixed");
  WriteIdentity(mixed, made.worker.authority, made.strange_worker.own);
  expect(mixed, "not signed by the authority");
  WriteIdentity(mixed, made.worker.authority,
                {made.worker.own.certificate, made.strange_worker.own.key});
  expect(mixed, "is not the key of");
  WriteIdentity(mixed, made.worker.authority, made.worker.own);
  fs::permissions(mixed + "/tls.key", fs::perms(0644));
  expect(mixed, "chmod 600");
}

TEST(TlsFolderTest, RefusesTextThatIsNoCertificate) {
  const Certificates& made = TheCertificates();
  const TestFolder scratch;
  const std::string folder = scratch.File("x");
  EXPECT_EQ(Trouble(folder).code(), StatusCode::kNotFound);
  const std::string& good = made.worker.own.certificate;
  for (const std::string& text :
       {std::string("nonsense"), good.substr(0, good.size() / 2),
        std::string("-----BEGIN CERTIFICATE-----\nAAAA\n"
                    "-----END CERTIFICATE-----\n"),
        good + "-----BEGIN CERTIFICATE-----\nAAAA\n"}) {
    WriteIdentity(folder, made.worker.authority, {text, made.worker.own.key});
    const absl::Status trouble = Trouble(folder);
    EXPECT_EQ(trouble.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(trouble.message()), HasSubstr("tls.crt"));
  }
  // A key with a passphrase would be asked for on a terminal.
  WriteIdentity(folder, made.worker.authority,
                {good,
                 "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n"
                 "DEK-Info: AES-256-CBC,00000000000000000000000000000000\n\n"
                 "AAAA\n-----END EC PRIVATE KEY-----\n"});
  EXPECT_THAT(std::string(Trouble(folder).message()), HasSubstr("passphrase"));
}

// --- Folders that change ----------------------------------------------------

class LiveTlsFolderTest : public testing::Test {
 protected:
  LiveTlsFolderTest() {
    WriteIdentity(folder_, made_.worker.authority, made_.worker.own);
    auto live = tls::LiveTlsFolder::Open(
        folder_, {CertificateRole::kWorker, CertificateRole::kOperator},
        absl::Now(),
        {.trouble =
             [this](const std::string& line) { troubles_.push_back(line); },
         .change =
             [this](const std::string& line) { changes_.push_back(line); }});
    EXPECT_TRUE(live.ok()) << live.status();
    live_ = *std::move(live);
  }

  const Certificates& made_ = TheCertificates();
  const TestFolder scratch_;
  const std::string folder_ = scratch_.File("worker");
  const tls::TlsFiles files_ = tls::FilesIn(folder_);
  std::vector<std::string> troubles_;
  std::vector<std::string> changes_;
  std::unique_ptr<tls::LiveTlsFolder> live_;
};

TEST_F(LiveTlsFolderTest, FilesThatCannotBeUsedReplaceNothingAndAreToldOnce) {
  const auto before = live_->current();
  EXPECT_EQ(live_->Look(absl::Now()), before);
  const certs::PemPair& own = made_.worker.own;
  const std::string& authority = made_.worker.authority;
  const struct {
    const std::string* path;
    std::string text;
  } broken[] = {
      {&files_.key, ""},
      {&files_.key, own.key.substr(0, own.key.size() / 2)},
      {&files_.key, made_.operator_.own.key},
      {&files_.certificate, ""},
      {&files_.certificate, own.certificate.substr(0, 300)},
      {&files_.certificate, made_.operator_.own.certificate},
      {&files_.authority, ""},
      {&files_.authority, authority.substr(0, authority.size() / 2)},
      {&files_.authority, made_.strange_worker.authority},
  };
  size_t told = 0;
  for (const auto& [path, text] : broken) {
    SCOPED_TRACE(*path + " with " + text);
    const std::string whole = ContentsOf(*path);
    CopyOver(*path, text);
    EXPECT_EQ(live_->Look(absl::Now()), before);
    EXPECT_EQ(live_->Look(absl::Now()), before);
    EXPECT_EQ(live_->current(), before);
    ASSERT_EQ(troubles_.size(), ++told);
    EXPECT_THAT(troubles_.back(),
                AllOf(HasSubstr(folder_), HasSubstr("stay in use")));
    CopyOver(*path, whole);
    EXPECT_EQ(live_->Look(absl::Now()), before);
  }
  EXPECT_EQ(troubles_.size(), told);
  EXPECT_THAT(changes_, testing::IsEmpty());
}

TEST_F(LiveTlsFolderTest, FilesThatAreGoneOrPublicOrExpiredReplaceNothing) {
  const auto before = live_->current();
  fs::permissions(files_.key, fs::perms(0644));
  EXPECT_EQ(live_->Look(absl::Now()), before);
  fs::remove(files_.key);
  EXPECT_EQ(live_->Look(absl::Now()), before);
  WriteIdentity(folder_, made_.worker.authority, made_.expired_worker.own);
  EXPECT_EQ(live_->Look(absl::Now()), before);
  EXPECT_THAT(troubles_,
              testing::ElementsAre(HasSubstr("chmod 600"), HasSubstr("tls.key"),
                                   HasSubstr("expired at")));
}

TEST_F(LiveTlsFolderTest, GoodFilesAreUsedAndTheirChangeIsTold) {
  CopyOver(files_.key, made_.operator_.own.key);
  live_->Look(absl::Now());
  CopyOver(files_.certificate, made_.operator_.own.certificate);
  const auto now = live_->Look(absl::Now());
  EXPECT_EQ(now->facts.common_name, "alice");
  EXPECT_EQ(now->key, made_.operator_.own.key);
  EXPECT_EQ(live_->current(), now);
  EXPECT_EQ(troubles_.size(), 1u);
  EXPECT_THAT(changes_, testing::ElementsAre(
                            AllOf(HasSubstr(folder_), HasSubstr("alice"))));
}

}  // namespace
}  // namespace lockstep::security
