#include "tests/conformance/halo/halo_ranks.h"

#include <map>
#include <set>
#include <thread>
#include <utility>

#include "plan/compile.h"
#include "plan/verify/verify.h"
#include "tests/support/forwarding_communicator.h"

namespace lockstep::conformance {
namespace {

// A communicator of a group that keeps it.
class LentCommunicator final : public ForwardingCommunicator {
 public:
  explicit LentCommunicator(Communicator* lent)
      : ForwardingCommunicator(std::shared_ptr<Communicator>(
            std::shared_ptr<Communicator>(), lent)) {}
};

}  // namespace

absl::StatusOr<plan::Plan> CompileHalos(const Mesh& mesh,
                                        const HaloDeclarations& declared) {
  return plan::Compile(
      {.mesh = mesh,
       .registrations = std::vector<std::vector<Parameter>>(declared.size()),
       .halos = declared});
}

absl::StatusOr<std::unique_ptr<HaloRanks>> HaloRanks::Make(
    const Mesh& mesh, const HaloDeclarations& declared, Groups& groups,
    bool checked) {
  std::unique_ptr<HaloRanks> made(new HaloRanks(groups));
  if (absl::Status s = made->Declare(mesh, declared); !s.ok()) return s;
  if (absl::Status s = made->Connect(checked); !s.ok()) return s;
  return made;
}

HaloRanks::~HaloRanks() {
  ranks_.clear();  // before the communicators that it is lent
  if (failed_) groups_.Drop();
}

absl::Status HaloRanks::Declare(const Mesh& mesh,
                                const HaloDeclarations& declared) {
  HaloDeclarations normalized;
  for (const std::vector<HaloSpec>& specs : declared) {
    Rank& rank = ranks_.emplace_back();
    rank.registry = std::make_unique<session::HaloRegistry>(
        [](const std::vector<int>&, const std::string&,
           const absl::Status& error) { return error; });
    for (const HaloSpec& spec : specs) {
      auto halo = rank.registry->Declare(mesh, spec);
      if (!halo.ok()) return halo.status();
      rank.halos.push_back(*std::move(halo));
    }
    normalized.push_back(rank.registry->declarations());
  }
  auto plan = CompileHalos(mesh, normalized);
  if (!plan.ok()) return plan.status();
  plan_ = *std::move(plan);
  return plan::Verify(plan_);
}

absl::Status HaloRanks::Connect(bool checked) {
  std::vector<session::HaloRegistry::Communicators> communicators(
      ranks_.size());
  for (auto& of_rank : communicators) {
    of_rank.resize(plan_.communicators.size());
  }
  std::map<std::vector<int>, int> groups_of;  // how many of the same ranks
  std::set<int> used;
  for (const plan::Halo& halo : plan_.halos) used.insert(halo.communicator);
  used.erase(-1);  // one rank alone
  for (const int c : used) {
    const std::vector<int>& members = plan_.communicators[c].ranks;
    const auto group = groups_.Get(members, groups_of[members]++);
    if (!group.ok()) return group.status();
    for (size_t i = 0; i < members.size(); ++i) {
      communicators[members[i]][c] =
          std::make_unique<LentCommunicator>((**group)[i].get());
    }
  }
  for (size_t r = 0; r < ranks_.size(); ++r) {
    const int rank = static_cast<int>(r);
    const auto memory = groups_.MemoryOf(rank);
    const auto context = groups_.ContextOf(rank);
    if (!memory.ok()) return memory.status();
    if (!context.ok()) return context.status();
    ranks_[r].memory = *memory;
    absl::Status connected = ranks_[r].registry->Connect(
        plan_, rank, checked, *context, memory->allocate,
        /*traffic=*/nullptr, &communicators[r]);
    if (!connected.ok()) return connected;
  }
  return absl::OkStatus();
}

absl::Status HaloRanks::ForAll(
    const std::function<absl::Status(int rank)>& body) {
  std::vector<absl::Status> statuses(ranks_.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size(); ++rank) {
    threads.emplace_back([&, rank] {
      statuses[rank] = body(rank);
      if (statuses[rank].ok()) return;
      for (Rank& other : ranks_) other.registry->Abort("a rank failed");
    });
  }
  for (std::thread& thread : threads) thread.join();
  absl::Status cause;
  for (const absl::Status& status : statuses) {
    const bool follows = absl::IsUnavailable(cause) || absl::IsAborted(cause);
    if (cause.ok() || (follows && !status.ok())) cause = status;
  }
  failed_ = failed_ || !cause.ok();
  return cause;
}

}  // namespace lockstep::conformance
