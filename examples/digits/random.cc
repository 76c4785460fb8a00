#include "examples/digits/random.h"

#include <numeric>
#include <utility>

namespace lockstep::digits {
namespace {

// The finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable
// pseudorandom number generators", 2014).
uint64_t Mix(uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

constexpr uint64_t kGoldenGamma = 0x9e3779b97f4a7c15;

}  // namespace

Dice::Dice(uint64_t seed, absl::string_view name)
    : key_(Mix(seed + kGoldenGamma)) {
  for (unsigned char letter : name) key_ = Mix(key_ ^ letter) + kGoldenGamma;
}

uint64_t Dice::Bits(uint64_t index) const {
  return Mix(key_ + kGoldenGamma * (index + 1));
}

double Dice::Uniform(uint64_t index) const {
  return static_cast<double>(Bits(index) >> 11) / 9007199254740992.0;
}

std::vector<int> Permutation(const Dice& dice, int size) {
  std::vector<int> order(size);
  std::iota(order.begin(), order.end(), 0);
  for (int left = size; left > 1; --left) {
    const uint64_t chosen = dice.Bits(left) % static_cast<uint64_t>(left);
    std::swap(order[left - 1], order[chosen]);
  }
  return order;
}

}  // namespace lockstep::digits
