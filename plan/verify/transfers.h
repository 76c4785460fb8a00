// Is one transfer well-formed?

#ifndef LOCKSTEP_PLAN_VERIFY_TRANSFERS_H_
#define LOCKSTEP_PLAN_VERIFY_TRANSFERS_H_

#include <cstdint>
#include <string>

#include "plan/ir.h"
#include "plan/verify/roster.h"

namespace lockstep::plan {

// Judges transfers by their own fields and by the bucket that they name. The
// plan's tables must have passed; plan and roster outlive this.
class TransferCheck {
 public:
  TransferCheck(const Plan& plan, const CommunicatorMembers& roster)
      : plan_(plan), roster_(roster) {}

  // What is wrong with the first field that is, or nothing: "has no dtype".
  std::string FaultOf(int rank, LaneKind lane, const Transfer& t) const;

  // The same of the local operations, once the fields have passed.
  std::string OpsFault(int rank, const Transfer& t) const;

 private:
  std::string MemberFault(int rank, LaneKind lane, const Transfer& t) const;
  int SizeOf(const Transfer& t) const;
  std::string PayloadFault(const Transfer& t) const;
  std::string OpFault(const Transfer& t) const;
  std::string PartnerFault(int rank, const Transfer& t) const;
  std::string BucketFault(LaneKind lane, const Transfer& t) const;
  // What the bucket asks for that is most like `t`, which names one.
  Transfer AskedOf(const Transfer& t) const;
  static void AskOfSlices(TransferKind kind, const Bucket& bucket,
                          int64_t slice, Transfer& asked);
  static void AskOfLeaves(TransferKind kind, const Bucket& bucket,
                          int64_t slice, Transfer& asked);

  const Plan& plan_;
  const CommunicatorMembers& roster_;
};

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_VERIFY_TRANSFERS_H_
