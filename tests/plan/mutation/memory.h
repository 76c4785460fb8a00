// Memory cells that the steps of a plan read and write.
//
//   buffer    (rank, index)      written by the task that sends from it or by
//                                the receive; read by the send or by tasks
//   gradient  (rank, parameter)  added to by the last task of each micro-batch,
//                                replaced by shared sums, read by reductions
//   partial   (rank, bucket)     with leaves: written by the exchange
//                                of slices, read by the gather of sums

#ifndef LOCKSTEP_TESTS_PLAN_MUTATION_MEMORY_H_
#define LOCKSTEP_TESTS_PLAN_MUTATION_MEMORY_H_

#include <map>
#include <tuple>
#include <vector>

#include "tests/plan/mutation/expected.h"
#include "tests/plan/mutation/wiring.h"

namespace lockstep::plan::oracle {

struct Access {
  int cell = kNone;
  bool writes = false;
};

class Memory {
 public:
  // After AssignRoles.
  Memory(const Expected& expected, const Wiring& wiring);

  size_t cells() const { return cells_.size(); }
  int Buffer(const Step& message) const {
    return At(Kind::kBuffer, message.rank, message.transfer->buffer);
  }
  int Gradient(int rank, int parameter) const {
    return At(Kind::kGradient, rank, parameter);
  }
  int Partial(int rank, int bucket) const {
    return At(Kind::kPartial, rank, bucket);
  }

  // Cells that the step uses from its start to its completion.
  const std::vector<Access>& AccessesOf(int step) const {
    return accesses_[step];
  }
  // Parameters whose gradients the task adds to.
  const std::vector<int>& ContributesTo(int step) const {
    return contributes_to_[step];
  }

 private:
  enum class Kind { kBuffer, kGradient, kPartial };

  int At(Kind kind, int rank, int index) const {
    return cells_.at({kind, rank, index});
  }
  int Make(Kind kind, int rank, int index) {
    return cells_
        .try_emplace({kind, rank, index}, static_cast<int>(cells_.size()))
        .first->second;
  }
  void ReadTask(const Expected& expected, const Wiring& wiring, int number);
  void ReadTransfer(const Wiring& wiring, int number);

  std::map<std::tuple<Kind, int, int>, int> cells_;
  std::vector<std::vector<Access>> accesses_;
  std::vector<std::vector<int>> contributes_to_;
};

}  // namespace lockstep::plan::oracle

#endif  // LOCKSTEP_TESTS_PLAN_MUTATION_MEMORY_H_
