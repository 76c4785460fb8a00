#include "server/rpc/caller.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/grpcpp.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/text/utf8.h"
#include "base/tls/certificate.h"
#include "server/access/address.h"

namespace lockstep::rpc {

CallerIdentity CallerOf(const grpc::AuthContext* context) {
  if (context == nullptr) return {};
  const std::vector<grpc::string_ref> pem =
      context->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (pem.empty()) return {};
  CallerIdentity caller{.has_certificate = true};
  const auto certificates =
      tls::ParseCertificates({pem.front().data(), pem.front().size()});
  // gRPC has verified it, so it parses; if not, the caller is no operator.
  if (!certificates.ok()) return caller;
  const tls::CertificateFacts facts = tls::FactsOf(*certificates->front());
  caller.name = Printable(facts.common_name);
  caller.is_operator = facts.IsOperator();
  return caller;
}

std::string NameOf(const CallerIdentity& caller, absl::string_view credential,
                   absl::string_view peer) {
  std::string name = caller.name;
  if (name.empty()) {
    name = credential.empty() ? "an operator" : std::string(credential);
  } else if (!credential.empty()) {
    absl::StrAppend(&name, " with ", credential);
  }
  return absl::StrCat(name, " at ", AddressOfGrpcPeer(peer));
}

}  // namespace lockstep::rpc
