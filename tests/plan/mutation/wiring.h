// A plan as steps: the tasks and transfers of each rank, their queues and their
// dependencies.
//
//   rank 0  lane "to rank 1"   [send F0][send F1]...    a queue of units; the
//           tasks              [F0][F1][B0]...          steps of a unit start
//                                                       together
//
// Rules, as the executor has them:
//   - The tasks of a rank are a queue. A task waits for its `after`.
//   - Each lane is a queue (model 1), or all lanes of a rank are one queue in
//     launch order (model 2). Neighbours with one group number are one unit.
//   - A unit starts when the unit before it is complete and the `after` and
//     `after_task` of its transfers are complete.
//   - The rank's first task waits for the parameters of sharded buckets.
//   - The verdict waits for all other steps of its rank.
//   - Without a pipeline each rank computes once: after the gathers of
//     parameters, before all other transfers.

#ifndef LOCKSTEP_TESTS_PLAN_MUTATION_WIRING_H_
#define LOCKSTEP_TESTS_PLAN_MUTATION_WIRING_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "plan/ir.h"
#include "tests/plan/mutation/judge.h"

namespace lockstep::plan::oracle {

inline constexpr int kNone = -1;

enum class Role : uint8_t {
  kTask,
  kLocalCompute,  // the rank's computation without a pipeline
  kSend,          // a message between stages
  kReceive,
  kSharedSum,         // sums a parameter of the first and the last stage
  kGatherParameters,  // gathers the parameters of a sharded bucket
  kReduce,            // reduces a bucket's gradients
  kReduceFlags,       // reduces the flags of a bucket with slices
  kExchange,          // exchanges slices of a bucket with leaves
  kGatherSums,        // gathers the summed slices of a bucket with leaves
  kOther,             // in halo and state lanes: only has to complete
};

// A task, or one side of a transfer.
struct Step {
  int rank = 0;
  Role role = Role::kTask;
  const Task* task = nullptr;
  const Transfer* transfer = nullptr;
  TransferRef at;          // the transfer's position
  std::vector<int> needs;  // steps that must be complete
  int channel = kNone;     // matches transfers of several ranks

  // Tasks, set by AssignRoles; in order of parts.
  std::vector<int> inputs;   // receives
  std::vector<int> outputs;  // sends
  std::vector<int> rereads;  // receives that are read a second time
  // Messages, set by AssignRoles.
  int made_by = kNone;    // send: the task
  int needed_by = kNone;  // receive: the task
  int part = kNone;
  // Shared sums, set by AssignRoles.
  int parameter = kNone;
};

struct Fault {
  Fate fate;
  std::string why;
};

class Wiring {
 public:
  // The plan must outlive this.
  Wiring(const Plan& plan, bool one_queue);

  // An invalid reference, communicator, peer or launch order.
  const std::optional<Fault>& fault() const { return fault_; }

  const Plan& plan() const { return plan_; }
  std::vector<Step>& steps() { return steps_; }
  const std::vector<Step>& steps() const { return steps_; }
  // Lists of units.
  const std::vector<std::vector<std::vector<int>>>& queues() const {
    return queues_;
  }
  size_t channels() const { return channels_.size(); }

  int TaskStep(int rank, int task) const { return first_task_[rank] + task; }
  int TransferStep(int rank, const TransferRef& ref) const {
    return number_of_[rank][ref.lane][ref.index];
  }
  const CommunicatorSpec& GroupOf(const Step& step) const {
    return plan_.communicators[step.transfer->communicator];
  }

 private:
  void Cannot(const std::string& why);
  void Number(int rank);
  int Find(int rank, const TransferRef& ref);
  void ConnectTasks(int rank);
  void ConnectTransfer(int rank, int number);
  void OpenChannel(Step& step);
  void ComputeOnce(int rank);
  void GatherFirst(int rank);
  void VerdictLast(int rank);
  bool Gathers(int number) const;
  void Queue(int rank, bool one_queue);
  void QueueTasks(int rank);

  const Plan& plan_;
  std::optional<Fault> fault_;
  std::vector<Step> steps_;
  std::vector<std::vector<std::vector<int>>> number_of_;  // rank, lane, index
  std::vector<int> first_task_;
  std::vector<int> local_compute_;  // of each rank, or kNone
  std::vector<std::vector<std::vector<int>>> queues_;
  std::map<std::tuple<int, int, int>, int> channels_;
};

}  // namespace lockstep::plan::oracle

#endif  // LOCKSTEP_TESTS_PLAN_MUTATION_WIRING_H_
