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
    } else if (MayPass(effect)) {
      passing_.push_back(std::move(effect));
    } else {
      if (const auto* send = std::get_if<core::Send>(&effect)) {
        ++held_sends_[send->session];
      }
      held_.push_back({.after = admitted_, .effect = std::move(effect)});
    }
  }
  return records;
}

bool DurabilityGate::MayPass(const core::Effect& effect) const {
  const auto* send = std::get_if<core::Send>(&effect);
  return send != nullptr &&
         std::holds_alternative<protocol::Decide>(send->message.body) &&
         held_sends_.count(send->session) == 0;
}

void DurabilityGate::MarkDurable(uint64_t record_number) {
  durable_ = std::max(durable_, record_number);
}

core::Effects DurabilityGate::Release() {
  core::Effects released = std::exchange(passing_, {});
  while (!held_.empty() && held_.front().after <= durable_) {
    if (const auto* send = std::get_if<core::Send>(&held_.front().effect)) {
      const auto count = held_sends_.find(send->session);
      if (--count->second == 0) held_sends_.erase(count);
    }
    released.push_back(std::move(held_.front().effect));
    held_.pop_front();
  }
  return released;
}

std::vector<core::AdminReply> DurabilityGate::TakeReplies() {
  std::vector<core::AdminReply> replies;
  std::erase_if(held_, [&replies](const HeldEffect& held) {
    const auto* reply = std::get_if<core::AdminReply>(&held.effect);
    if (reply != nullptr) replies.push_back(*reply);
    return reply != nullptr;
  });
  return replies;
}

}  // namespace lockstep::runtime
