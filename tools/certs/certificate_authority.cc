#include "tools/certs/certificate_authority.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"

namespace lockstep::certs {
namespace {

constexpr size_t kNameBytesMax = 64;  // ub-common-name of X.520
constexpr int kSerialBytes = 16;

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;

std::string TakeText(const Bio& bio) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &bytes);
  return std::string(bytes, static_cast<size_t>(size));
}

PemPair ToPem(X509* certificate, EVP_PKEY* key) {
  const Bio written(BIO_new(BIO_s_mem()), &BIO_free);
  const Bio secret(BIO_new(BIO_s_mem()), &BIO_free);
  Check(PEM_write_bio_X509(written.get(), certificate) == 1 &&
            PEM_write_bio_PKCS8PrivateKey(secret.get(), key, nullptr, nullptr,
                                          0, nullptr, nullptr) == 1,
        "a certificate and its key can be written to memory");
  return {TakeText(written), TakeText(secret)};
}

tls::KeyHandle NewKey() {
  tls::KeyHandle key(EVP_EC_gen("P-256"));
  Check(key != nullptr, "OpenSSL makes a P-256 key");
  return key;
}

void SetSerial(X509* certificate) {
  std::array<unsigned char, kSerialBytes> bytes{};
  Check(RAND_bytes(bytes.data(), kSerialBytes) == 1,
        "the kernel gives random bytes");
  bytes[0] &= 0x7f;  // positive
  BIGNUM* const number = BN_bin2bn(bytes.data(), kSerialBytes, nullptr);
  BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate));
  BN_free(number);
}

void SetName(X509_NAME* name, const std::string& common_name,
             const std::string& unit) {
  const auto add = [name](const char* field, const std::string& value) {
    Check(X509_NAME_add_entry_by_txt(
              name, field, MBSTRING_UTF8,
              reinterpret_cast<const unsigned char*>(value.data()),
              static_cast<int>(value.size()), -1, 0) == 1,
          "a checked name is a name");
  };
  if (!unit.empty()) add("OU", unit);
  add("CN", common_name);
}

bool AddExtension(X509* certificate, X509* issuer, int id,
                  const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension =
      X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str());
  if (extension == nullptr) {
    ERR_clear_error();
    return false;
  }
  const bool added = X509_add_ext(certificate, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  return added;
}

void SetValidity(X509* certificate, const Validity& validity) {
  ASN1_TIME_set(X509_getm_notBefore(certificate), absl::ToTimeT(validity.from));
  ASN1_TIME_set(X509_getm_notAfter(certificate), absl::ToTimeT(validity.until));
}

// A certificate without subject and extensions.
tls::X509Handle Blank(EVP_PKEY* key, const Validity& validity) {
  tls::X509Handle blank(X509_new());
  Check(blank != nullptr && X509_set_version(blank.get(), 2) == 1 &&
            X509_set_pubkey(blank.get(), key) == 1,
        "OpenSSL makes a certificate");
  SetSerial(blank.get());
  SetValidity(blank.get(), validity);
  return blank;
}

void Sign(X509* certificate, EVP_PKEY* key) {
  Check(X509_sign(certificate, key, EVP_sha256()) > 0,
        "OpenSSL signs a certificate");
}

bool IsAddressText(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> address;
  return inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), address.data()) == 1;
}

bool IsHostName(const std::string& host) {
  return !host.empty() && host.size() <= 253 &&
         std::all_of(host.begin(), host.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                  c == '-' || c == '.' || c == '*' || c == '_';
         });
}

// "DNS:localhost,IP:127.0.0.1"
absl::StatusOr<std::string> AlternativeNames(
    const std::vector<std::string>& hosts) {
  std::vector<std::string> names;
  for (const std::string& host : hosts) {
    if (IsAddressText(host)) {
      names.push_back(absl::StrCat("IP:", host));
    } else if (IsHostName(host)) {
      names.push_back(absl::StrCat("DNS:", host));
    } else {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", host, "' is neither the name nor the address of a host"));
    }
  }
  return absl::StrJoin(names, ",");
}

absl::Status CheckName(const std::string& name) {
  const bool printable =
      std::none_of(name.begin(), name.end(),
                   [](unsigned char c) { return absl::ascii_iscntrl(c); });
  if (!name.empty() && name.size() <= kNameBytesMax && printable) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", name,
                   "' cannot be the name in a certificate: it is empty, longer "
                   "than ",
                   kNameBytesMax, " bytes or has a control character"));
}

}  // namespace

bool IsHost(const std::string& host) {
  return IsAddressText(host) || IsHostName(host);
}

CertificateAuthority::CertificateAuthority(PemPair pem,
                                           tls::X509Handle certificate,
                                           tls::KeyHandle key)
    : pem_(std::move(pem)),
      certificate_(std::move(certificate)),
      key_(std::move(key)) {}

CertificateAuthority CertificateAuthority::Create(const std::string& name,
                                                  const Validity& validity) {
  tls::KeyHandle key = NewKey();
  tls::X509Handle own = Blank(key.get(), validity);
  SetName(X509_get_subject_name(own.get()), name, "");
  X509_set_issuer_name(own.get(), X509_get_subject_name(own.get()));
  Check(AddExtension(own.get(), own.get(), NID_basic_constraints,
                     "critical,CA:TRUE,pathlen:0") &&
            AddExtension(own.get(), own.get(), NID_key_usage,
                         "critical,keyCertSign,cRLSign") &&
            AddExtension(own.get(), own.get(), NID_subject_key_identifier,
                         "hash"),
        "OpenSSL knows the extensions of an authority");
  Sign(own.get(), key.get());
  PemPair pem = ToPem(own.get(), key.get());
  return CertificateAuthority(std::move(pem), std::move(own), std::move(key));
}

absl::StatusOr<CertificateAuthority> CertificateAuthority::Parse(
    const PemPair& pem) {
  auto certificates = tls::ParseCertificates(pem.certificate);
  if (!certificates.ok()) return certificates.status();
  auto key = tls::ParseKey(pem.key);
  if (!key.ok()) return key.status();
  tls::X509Handle own = std::move(certificates->front());
  const bool pair = X509_check_private_key(own.get(), key->get()) == 1;
  ERR_clear_error();
  if (!pair) {
    return absl::InvalidArgumentError(
        "the key is not that of the authority's certificate");
  }
  return CertificateAuthority(pem, std::move(own), *std::move(key));
}

absl::StatusOr<PemPair> CertificateAuthority::Issue(
    const CertificateRequest& request) const {
  if (absl::Status fit = CheckName(request.name); !fit.ok()) return fit;
  const absl::StatusOr<std::string> hosts = AlternativeNames(request.hosts);
  if (!hosts.ok()) return hosts.status();
  const bool serves = request.role == CertificateRole::kCoordinator;
  const bool operates = request.role == CertificateRole::kOperator;

  const tls::KeyHandle key = NewKey();
  const tls::X509Handle leaf = Blank(key.get(), request.validity);
  SetName(X509_get_subject_name(leaf.get()), request.name,
          operates ? tls::kOperatorUnit : "");
  X509_set_issuer_name(leaf.get(), X509_get_subject_name(certificate_.get()));
  const auto add = [&](int id, const std::string& value) {
    return AddExtension(leaf.get(), certificate_.get(), id, value);
  };
  const bool extended =
      add(NID_basic_constraints, "critical,CA:FALSE") &&
      add(NID_key_usage, "critical,digitalSignature") &&
      add(NID_ext_key_usage, serves ? "serverAuth" : "clientAuth") &&
      add(NID_subject_key_identifier, "hash") &&
      add(NID_authority_key_identifier, "keyid") &&
      (hosts->empty() || add(NID_subject_alt_name, *hosts));
  if (!extended) {
    return absl::InvalidArgumentError(
        absl::StrCat("no certificate can be made for the hosts ", *hosts));
  }
  Sign(leaf.get(), key_.get());
  return ToPem(leaf.get(), key.get());
}

}  // namespace lockstep::certs
