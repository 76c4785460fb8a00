// The page of --metrics_address: what this coordinator counts, and what its
// loop, its limits and its certificates are now.
//
//   ls-metrics ──Text──▶ page ──Measure──▶ ls-coordinator, once a second
//                          ▲                     │
//                          └─────────────────────┘ within kPatience
//
// A coordinator that waits until it leads has a page, too, without jobs.
//
// Threads: any. Text may wait for the loop; the loop never waits for it.

#ifndef LOCKSTEP_SERVER_METRICS_METRICS_PAGE_H_
#define LOCKSTEP_SERVER_METRICS_METRICS_PAGE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/tls/live_tls_folder.h"
#include "protocol/ids.h"
#include "protocol/limit_use.h"
#include "server/metrics/prometheus_metrics.h"
#include "server/runtime/coordinator_loop.h"

namespace lockstep::metrics {

class MetricsPage {
 public:
  // A text is given out for so long, so that many scrapes cost no more.
  static constexpr absl::Duration kFresh = absl::Seconds(1);
  // For the loop, which answers within microseconds unless it is stuck.
  static constexpr absl::Duration kPatience = absl::Seconds(2);

  // Folders of certificates, as --tls and --etcd_tls name them; may be empty.
  struct Folders {
    std::string tls;
    std::string etcd_tls;
  };
  // `patience` is for tests. Errors: those of LiveTlsFolder::Open.
  static absl::StatusOr<std::unique_ptr<MetricsPage>> Make(
      const std::string& version, const Folders& folders,
      absl::Duration patience = kPatience);

  // For everything that counts.
  PrometheusMetrics* sink() { return &sink_; }

  // What a coordinator that serves has: until Hide, or the end of the page.
  // `limits` returns those that the loop does not know.
  struct Shown {
    LeaderTerm term;
    runtime::CoordinatorLoop* loop = nullptr;
    std::function<std::vector<LimitUse>()> limits;
  };
  void Show(Shown shown);
  void Hide();

  // DeadlineExceeded: the loop is stuck.
  absl::StatusOr<std::shared_ptr<const std::string>> Text(absl::Time now);

 private:
  MetricsPage(const std::string& version, absl::Duration patience);
  absl::StatusOr<std::shared_ptr<const std::string>> Make(absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MeasureCertificates(absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const absl::Duration patience_;
  PrometheusMetrics sink_;
  Mutex mutex_;
  struct Certificates {
    std::string prefix;  // of the label `file`
    std::unique_ptr<tls::LiveTlsFolder> folder;
  };
  std::vector<Certificates> certificates_ ABSL_GUARDED_BY(mutex_);
  Shown shown_ ABSL_GUARDED_BY(mutex_);
  absl::Time made_at_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::StatusOr<std::shared_ptr<const std::string>> made_
      ABSL_GUARDED_BY(mutex_) = absl::UnavailableError("no text yet");
};

}  // namespace lockstep::metrics

#endif  // LOCKSTEP_SERVER_METRICS_METRICS_PAGE_H_
