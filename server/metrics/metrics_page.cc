#include "server/metrics/metrics_page.h"

#include <algorithm>
#include <future>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/tls/certificate.h"
#include "base/tls/tls_folder.h"

namespace lockstep::metrics {
namespace {

// The end of the first certificate of a PEM text that ends.
absl::Time FirstEnd(const std::string& pem) {
  absl::Time end = absl::InfiniteFuture();
  const auto certificates = tls::ParseCertificates(pem);
  if (!certificates.ok()) return end;
  for (const tls::X509Handle& one : *certificates) {
    end = std::min(end, tls::FactsOf(*one).until);
  }
  return end;
}

// Also if the loop answers later, or never.
absl::StatusOr<core::Measurements> MeasureWithin(
    absl::Duration patience, runtime::CoordinatorLoop* loop) {
  auto answered =
      std::make_shared<std::promise<absl::StatusOr<core::Measurements>>>();
  auto answer = answered->get_future();
  loop->Measure([answered](absl::StatusOr<core::Measurements> measured) {
    answered->set_value(std::move(measured));
  });
  if (answer.wait_for(absl::ToChronoMilliseconds(patience)) !=
      std::future_status::ready) {
    return absl::DeadlineExceededError(
        absl::StrCat("the coordinator's loop has not answered within ",
                     absl::FormatDuration(patience)));
  }
  return answer.get();
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsPage>> MetricsPage::Make(
    const std::string& version, const Folders& folders,
    absl::Duration patience) {
  auto page = absl::WrapUnique(new MetricsPage(version, patience));
  MutexLock lock(&page->mutex_);
  const auto add = [&](const std::string& folder, std::string prefix,
                       std::vector<tls::CertificateRole> roles) {
    if (folder.empty()) return absl::OkStatus();
    // The log of who uses the same files says what is wrong.
    auto opened =
        tls::LiveTlsFolder::Open(folder, std::move(roles), absl::Now(), {});
    if (!opened.ok()) return opened.status();
    page->certificates_.push_back({std::move(prefix), *std::move(opened)});
    return absl::OkStatus();
  };
  absl::Status added =
      add(folders.tls, "", {tls::CertificateRole::kCoordinator});
  if (added.ok()) added = add(folders.etcd_tls, "etcd/", {});
  if (!added.ok()) return added;
  return page;
}

MetricsPage::MetricsPage(const std::string& version, absl::Duration patience)
    : patience_(patience) {
  sink_.GetGauge({"lockstep_build_info", {{"version", version}}})->Set(1);
  sink_.GetGauge({"lockstep_leader"})->Set(0);
}

void MetricsPage::Show(Shown shown) {
  sink_.GetGauge({"lockstep_term"})->Set(static_cast<double>(shown.term.value));
  sink_.GetGauge({"lockstep_leader"})->Set(1);
  MutexLock lock(&mutex_);
  shown_ = std::move(shown);
  made_at_ = absl::InfinitePast();
}

void MetricsPage::Hide() {
  sink_.GetGauge({"lockstep_leader"})->Set(0);
  MutexLock lock(&mutex_);
  shown_ = {};
  made_at_ = absl::InfinitePast();
}

absl::StatusOr<std::shared_ptr<const std::string>> MetricsPage::Text(
    absl::Time now) {
  MutexLock lock(&mutex_);
  if (now < made_at_ || now >= made_at_ + kFresh) {
    made_ = Make(now);
    made_at_ = now;
  }
  return made_;
}

absl::StatusOr<std::shared_ptr<const std::string>> MetricsPage::Make(
    absl::Time now) {
  MeasureCertificates(now);
  std::vector<MetricSample> samples;
  if (shown_.loop != nullptr) {
    const auto measured = MeasureWithin(patience_, shown_.loop);
    if (!measured.ok()) return measured.status();
    samples = SamplesOf(*measured);
    for (MetricSample& sample : SamplesOf(shown_.limits())) {
      samples.push_back(std::move(sample));
    }
  }
  return std::make_shared<const std::string>(sink_.Text(samples));
}

void MetricsPage::MeasureCertificates(absl::Time now) {
  for (const Certificates& certificates : certificates_) {
    const auto files = certificates.folder->Look(now);
    for (const auto& [file, pem] :
         {std::pair(tls::kAuthorityFile, files->authority),
          std::pair(tls::kCertificateFile, files->certificate)}) {
      sink_
          .GetGauge({"lockstep_certificate_expiry_timestamp_seconds",
                     {{"file", absl::StrCat(certificates.prefix, file)}}})
          ->Set(absl::ToDoubleSeconds(FirstEnd(pem) - absl::UnixEpoch()));
    }
  }
}

}  // namespace lockstep::metrics
