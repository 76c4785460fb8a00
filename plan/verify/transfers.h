// Checks that one transfer is well-formed.

#ifndef LOCKSTEP_PLAN_VERIFY_TRANSFERS_H_
#define LOCKSTEP_PLAN_VERIFY_TRANSFERS_H_

#include <cstdint>
#include <string>

#include "plan/ir.h"
#include "plan/verify/roster.h"

namespace lockstep::plan {

// Checks transfers by their own fields and by their bucket. The plan's tables
// must have passed; plan and roster outlive this.
class TransferCheck {
 public:
  TransferCheck(const Plan& plan, const CommunicatorMembers& roster)
      : plan_(plan), roster_(roster) {}

  // The fault of the first invalid field, "has no dtype"; empty if none is.
  std::string FaultOf(int rank, LaneKind lane, const Transfer& t) const;

  // The same for the local operations of a transfer with valid fields.
  std::string OpsFault(int rank, const Transfer& t) const;

 private:
  std::string MemberFault(int rank, LaneKind lane, const Transfer& t) const;
  int SizeOf(const Transfer& t) const;
  std::string PayloadFault(const Transfer& t) const;
  std::string OpFault(const Transfer& t) const;
  std::string PartnerFault(int rank, const Transfer& t) const;
  std::string BucketFault(LaneKind lane, const Transfer& t) const;
  // The transfer that the bucket of `t` needs and that is most similar to `t`.
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
