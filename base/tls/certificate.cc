#include "base/tls/certificate.h"

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/text/utf8.h"

namespace lockstep::tls {
namespace {

struct FreeBio {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
using Bio = std::unique_ptr<BIO, FreeBio>;

// Does not own its certificates.
struct FreeStack {
  void operator()(STACK_OF(X509) * stack) const { sk_X509_free(stack); }
};

Bio Reader(absl::string_view text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// OpenSSL would ask for a passphrase on the terminal.
int NoPassphrase(char*, int, int, void*) { return -1; }

absl::Time TimeOf(const ASN1_TIME* time) {
  std::tm fields{};
  if (ASN1_TIME_to_tm(time, &fields) != 1) return absl::InfinitePast();
  return absl::FromTM(fields, absl::UTCTimeZone());
}

std::string Day(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d %H:%M UTC", time, absl::UTCTimeZone());
}

std::vector<std::string> Entries(const X509_NAME* name, int id) {
  std::vector<std::string> entries;
  int at = -1;
  while ((at = X509_NAME_get_index_by_NID(name, id, at)) >= 0) {
    unsigned char* text = nullptr;
    const int size = ASN1_STRING_to_UTF8(
        &text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at)));
    if (size < 0) continue;
    entries.emplace_back(reinterpret_cast<char*>(text), size);
    OPENSSL_free(text);
  }
  return entries;
}

std::string AddressText(const ASN1_OCTET_STRING* address) {
  const unsigned char* bytes = ASN1_STRING_get0_data(address);
  const int size = ASN1_STRING_length(address);
  if (size == 4) {
    return absl::StrFormat("%d.%d.%d.%d", bytes[0], bytes[1], bytes[2],
                           bytes[3]);
  }
  std::string text;
  for (int i = 0; i + 1 < size; i += 2) {
    absl::StrAppendFormat(&text, "%s%x", i == 0 ? "" : ":",
                          bytes[i] << 8 | bytes[i + 1]);
  }
  return text;
}

std::vector<std::string> HostsOf(const X509& certificate) {
  std::vector<std::string> hosts;
  auto* const names = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names, i);
    if (name->type == GEN_DNS) {
      const ASN1_IA5STRING* const host = name->d.dNSName;
      hosts.push_back(
          Printable({reinterpret_cast<const char*>(ASN1_STRING_get0_data(host)),
                     static_cast<size_t>(ASN1_STRING_length(host))}));
    } else if (name->type == GEN_IPADD) {
      hosts.push_back(AddressText(name->d.iPAddress));
    }
  }
  GENERAL_NAMES_free(names);
  return hosts;
}

absl::Status Explain(int error, const X509& leaf, const X509& at) {
  const absl::Time from = TimeOf(X509_get0_notBefore(&at));
  const absl::Time until = TimeOf(X509_get0_notAfter(&at));
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return absl::FailedPreconditionError(absl::StrCat(
          "the certificate ", FactsOf(at).Owner(), " expired at ", Day(until)));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return absl::FailedPreconditionError(absl::StrCat(
          "the certificate ", FactsOf(at).Owner(), " is not valid before ",
          Day(from), ": is this host's clock right?"));
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return absl::FailedPreconditionError(
          absl::StrCat("the certificate ", FactsOf(leaf).Owner(),
                       " is not signed by the authority of ca.crt"));
    default:
      return absl::FailedPreconditionError(absl::StrCat(
          "the certificate ", FactsOf(leaf).Owner(),
          " is not valid: ", X509_verify_cert_error_string(error)));
  }
}

}  // namespace

absl::StatusOr<std::vector<X509Handle>> ParseCertificates(
    absl::string_view pem) {
  const Bio bio = Reader(pem);
  std::vector<X509Handle> certificates;
  while (true) {
    X509Handle next(
        PEM_read_bio_X509(bio.get(), nullptr, &NoPassphrase, nullptr));
    if (next == nullptr) break;
    certificates.push_back(std::move(next));
  }
  const unsigned long error = ERR_peek_last_error();
  ERR_clear_error();
  const bool at_end = ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
  if (at_end && !certificates.empty()) return certificates;
  return absl::InvalidArgumentError(certificates.empty() && at_end
                                        ? "there is no PEM certificate in it"
                                        : "a PEM certificate in it is broken");
}

absl::StatusOr<KeyHandle> ParseKey(absl::string_view pem) {
  KeyHandle key(PEM_read_bio_PrivateKey(Reader(pem).get(), nullptr,
                                        &NoPassphrase, nullptr));
  ERR_clear_error();
  if (key != nullptr) return key;
  return absl::InvalidArgumentError(
      "there is no PEM private key without a passphrase in it");
}

bool CertificateFacts::IsOperator() const {
  return std::find(units.begin(), units.end(), kOperatorUnit) != units.end();
}

std::string CertificateFacts::Owner() const {
  return common_name.empty() ? "without a common name"
                             : absl::StrCat("of ", common_name);
}

CertificateFacts FactsOf(const X509& certificate) {
  const X509_NAME* const subject = X509_get_subject_name(&certificate);
  const std::vector<std::string> names = Entries(subject, NID_commonName);
  return {.common_name = names.empty() ? "" : Printable(names.back()),
          .units = Entries(subject, NID_organizationalUnitName),
          .hosts = HostsOf(certificate),
          .from = TimeOf(X509_get0_notBefore(&certificate)),
          .until = TimeOf(X509_get0_notAfter(&certificate))};
}

std::string RoleText(CertificateRole role) {
  switch (role) {
    case CertificateRole::kCoordinator: return "a coordinator's";
    case CertificateRole::kWorker: return "a worker's";
    case CertificateRole::kOperator: return "an operator's";
  }
  Fatal("no role of a certificate");
}

bool HasRole(X509* certificate, CertificateRole role) {
  if (role == CertificateRole::kCoordinator) {
    return X509_check_purpose(certificate, X509_PURPOSE_SSL_SERVER, 0) == 1;
  }
  return X509_check_purpose(certificate, X509_PURPOSE_SSL_CLIENT, 0) == 1 &&
         FactsOf(*certificate).IsOperator() ==
             (role == CertificateRole::kOperator);
}

absl::Status CheckDates(const X509& certificate, absl::Time now) {
  if (now < TimeOf(X509_get0_notBefore(&certificate))) {
    return Explain(X509_V_ERR_CERT_NOT_YET_VALID, certificate, certificate);
  }
  if (now > TimeOf(X509_get0_notAfter(&certificate))) {
    return Explain(X509_V_ERR_CERT_HAS_EXPIRED, certificate, certificate);
  }
  return absl::OkStatus();
}

absl::Status CheckChain(const std::vector<X509Handle>& chain,
                        const std::vector<X509Handle>& roots, absl::Time now) {
  Check(!chain.empty(), "a chain has a leaf");
  const std::unique_ptr<X509_STORE, decltype(&X509_STORE_free)> store(
      X509_STORE_new(), &X509_STORE_free);
  for (const X509Handle& root : roots) {
    X509_STORE_add_cert(store.get(), root.get());
  }
  const std::unique_ptr<STACK_OF(X509), FreeStack> others(sk_X509_new_null());
  for (size_t i = 1; i < chain.size(); ++i) {
    sk_X509_push(others.get(), chain[i].get());
  }
  const std::unique_ptr<X509_STORE_CTX, decltype(&X509_STORE_CTX_free)> context(
      X509_STORE_CTX_new(), &X509_STORE_CTX_free);
  Check(X509_STORE_CTX_init(context.get(), store.get(), chain.front().get(),
                            others.get()) == 1,
        "OpenSSL has memory");
  X509_VERIFY_PARAM_set_time(X509_STORE_CTX_get0_param(context.get()),
                             absl::ToTimeT(now));
  const bool good = X509_verify_cert(context.get()) == 1;
  ERR_clear_error();
  if (good) return absl::OkStatus();
  X509* const at = X509_STORE_CTX_get_current_cert(context.get());
  return Explain(X509_STORE_CTX_get_error(context.get()), *chain.front(),
                 at == nullptr ? *chain.front() : *at);
}

}  // namespace lockstep::tls
