// `lockstepctl certs`: certificates in a folder
// (tools/certs/certificate_folder.h). Each function returns the exit code: 0
// ok, 1 refused.

#ifndef LOCKSTEP_TOOLS_CTL_CERTS_COMMAND_H_
#define LOCKSTEP_TOOLS_CTL_CERTS_COMMAND_H_

#include <string>
#include <vector>

namespace lockstep::ctl {

struct CertsOptions {
  std::string folder;
  std::vector<std::string> hosts;
  int days = 365;
  std::string name;             // of issue
  std::string role = "worker";  // of issue
};

int CertsInit(const CertsOptions& options);
int CertsRenew(const CertsOptions& options);
int CertsIssue(const CertsOptions& options);

}  // namespace lockstep::ctl

#endif  // LOCKSTEP_TOOLS_CTL_CERTS_COMMAND_H_
