#include "tools/ctl/token_command.h"

#include <cstdio>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/join_token.h"
#include "base/secret_file.h"
#include "base/text/utf8.h"
#include "spec/value_format.h"

namespace lockstep::ctl {
namespace {

absl::StatusOr<std::string> JoinTokenFrom(const std::string& file,
                                          const std::string& job) {
  const std::string fault = spec::NameForm().Fault(job, JobSpec{});
  if (!fault.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("no job can have this name: ", fault));
  }
  const absl::StatusOr<std::string> secret = ReadSecretFile(file);
  if (!secret.ok()) return secret.status();
  absl::StatusOr<std::string> token = JoinToken(*secret, job);
  if (token.ok()) return token;
  return absl::Status(token.status().code(),
                      absl::StrCat(file, ": ", token.status().message()));
}

}  // namespace

int PrintJoinToken(const std::string& job,
                   const std::string& worker_token_file) {
  const auto token = JoinTokenFrom(worker_token_file, job);
  if (token.ok()) {
    absl::PrintF("%s\n", *token);
    return 0;
  }
  absl::FPrintF(stderr, "lockstepctl: %s\n",
                Printable(token.status().message()));
  return 1;
}

}  // namespace lockstep::ctl
