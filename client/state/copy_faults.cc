#include "client/state/copy_faults.h"

#include "absl/strings/str_cat.h"
#include "client/checkpoint/safetensors.h"
#include "client/state/missing_memory.h"

namespace lockstep::state {

void CopyFaults::Note(size_t tensor, const absl::Status& status) {
  if (status.ok() || number_ != 0) return;
  number_ = TensorOfRank(tensor, rank_);
  cause_ = status;
}

absl::Status CopyFaults::Error(uint64_t largest) const {
  if (largest == 0) return absl::OkStatus();
  const int rank = RankOf(largest);
  return absl::InternalError(absl::StrCat(
      checkpoint::TensorText(tensors_[TensorOf(largest)].name), " of rank ",
      rank, " cannot be copied: ",
      largest == number_ ? cause_.message()
                         : absl::StrCat("rank ", rank, " has the cause")));
}

absl::Status CopyFaults::Or(const absl::Status& status) const {
  return number_ == 0 ? status : Error(number_);
}

}  // namespace lockstep::state
