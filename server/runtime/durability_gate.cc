#include "server/runtime/durability_gate.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep::runtime {

std::vector<record::Record> DurabilityGate::Admit(core::Effects effects) {
  std::vector<record::Record> records;
  for (core::Effect& effect : effects) {
    if (auto* persist = std::get_if<core::Persist>(&effect)) {
      admitted_ = persist->record.number;
      records.push_back(std::move(persist->record));
    } else {
      held_.push_back({.after = admitted_, .effect = std::move(effect)});
    }
  }
  return records;
}

void DurabilityGate::MarkDurable(uint64_t record_number) {
  durable_ = std::max(durable_, record_number);
}

core::Effects DurabilityGate::Release() {
  core::Effects released;
  while (!held_.empty() && held_.front().after <= durable_) {
    released.push_back(std::move(held_.front().effect));
    held_.pop_front();
  }
  return released;
}

}  // namespace lockstep::runtime
