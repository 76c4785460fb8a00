// The rows of a domain over a session: frames by halo exchanges of the job's
// plan, the rows by an all-gather.
//
//   SessionDomain domain(session, {.batch = 16});
//   domain.Declare(stage, stages);             // then Seal
//   ... a network with &domain ...
//
// Threads: those of the network.
// Errors:  the first one is status(); from then on all results are zeros.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_SESSION_DOMAIN_H_
#define LOCKSTEP_EXAMPLES_DIGITS_SESSION_DOMAIN_H_

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "examples/digits/row_domain.h"
#include "lockstep/axis_group.h"
#include "lockstep/halo_exchange.h"
#include "lockstep/session.h"

namespace lockstep::digits {

// The mesh axis that cuts the images.
inline constexpr char kDomainAxis[] = "domain";

struct SessionDomainOptions {
  int batch = 1;  // samples of a micro-batch
  // Frames of zeros instead of the neighbours' rows: to see that they matter.
  bool without_halos = false;
};

class SessionDomain final : public RowDomain<double> {
 public:
  // The session's mesh has the axis; the session outlives this.
  SessionDomain(Session& session, SessionDomainOptions options);

  // Declares what the blocks of a stage exchange, before the plan is made.
  absl::Status Declare(int stage, int stages);

  absl::Status status() const { return status_; }

  int size() const override { return size_; }
  int index() const override { return index_; }
  Tensor<double> Frame(const std::string& layer,
                       const Tensor<double>& rows) override;
  Tensor<double> FrameAdjoint(const std::string& layer,
                              const Tensor<double>& d_frame) override;
  Tensor<double> Gather(const Tensor<double>& rows) override;

 private:
  Session& session_;
  const SessionDomainOptions options_;
  int size_ = 1;
  int index_ = 0;
  std::map<std::string, HaloExchange> frames_;  // by convolution
  std::optional<AxisGroup> group_;
  std::optional<PreparedCollective> gather_;
  absl::Status status_;
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_SESSION_DOMAIN_H_
