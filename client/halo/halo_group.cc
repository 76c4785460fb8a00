#include "client/halo/halo_group.h"

#include <utility>

namespace lockstep::halo {

absl::StatusOr<Stream*> HaloGroup::OwnStream() {
  if (own_ == nullptr) {
    auto made = context_->MakeStream("ls-halo");
    if (!made.ok()) return made.status();
    own_ = *std::move(made);
  }
  return own_.get();
}

HostStream& HaloGroup::InlineStream() {
  if (inline_ == nullptr) {
    inline_ = std::make_unique<HostStream>("ls-halo-inline",
                                           HostStream::Execution::kInline);
  }
  return *inline_;
}

void HaloGroup::BeginOn(Stream& stream) {
  if (last_ != &stream) stream.WaitFor(newest_);
  last_ = &stream;
}

}  // namespace lockstep::halo
