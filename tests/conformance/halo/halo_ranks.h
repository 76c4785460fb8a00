// Ranks of one process that exchange halos as sessions do: their declarations
// are compiled into a plan, which is verified, and a HaloRegistry connects each
// rank with communicators of the plan.

#ifndef LOCKSTEP_TESTS_CONFORMANCE_HALO_HALO_RANKS_H_
#define LOCKSTEP_TESTS_CONFORMANCE_HALO_HALO_RANKS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/session/halo_registry.h"
#include "lockstep/halo_exchange.h"
#include "lockstep/halo_spec.h"
#include "lockstep/mesh.h"
#include "plan/ir.h"
#include "tests/conformance/cases/groups.h"

namespace lockstep::conformance {

using HaloDeclarations = std::vector<std::vector<HaloSpec>>;  // by world rank

// The plan of a job of these ranks that has halo exchanges only.
absl::StatusOr<plan::Plan> CompileHalos(const Mesh& mesh,
                                        const HaloDeclarations& declared);

class HaloRanks {
 public:
  // `groups` must outlive it. Errors: those of the registry, the compiler, the
  // verifier and of connecting. `checked`: ranks compare what they call.
  static absl::StatusOr<std::unique_ptr<HaloRanks>> Make(
      const Mesh& mesh, const HaloDeclarations& declared, Groups& groups,
      bool checked = false);
  ~HaloRanks();

  int size() const { return static_cast<int>(ranks_.size()); }
  const plan::Plan& plan() const { return plan_; }
  // The exchange that is declared[rank][number].
  const HaloExchange& at(int rank, size_t number = 0) const {
    return ranks_[rank].halos[number];
  }
  const GroupMemory& memory(int rank) const { return ranks_[rank].memory; }
  session::HaloRegistry& registry(int rank) { return *ranks_[rank].registry; }

  // Calls body(rank) on a thread for each rank. If one returns an error, aborts
  // the exchanges of all. Returns the cause: the first error that no other
  // rank's failure explains.
  absl::Status ForAll(const std::function<absl::Status(int rank)>& body);

 private:
  struct Rank {
    std::unique_ptr<session::HaloRegistry> registry;
    std::vector<HaloExchange> halos;
    GroupMemory memory;
  };

  explicit HaloRanks(Groups& groups) : groups_(groups) {}
  absl::Status Declare(const Mesh& mesh, const HaloDeclarations& declared);
  absl::Status Connect(bool checked);

  Groups& groups_;
  plan::Plan plan_;
  std::vector<Rank> ranks_;
  bool failed_ = false;  // a call: the communicators are of no more use
};

}  // namespace lockstep::conformance

#endif  // LOCKSTEP_TESTS_CONFORMANCE_HALO_HALO_RANKS_H_
