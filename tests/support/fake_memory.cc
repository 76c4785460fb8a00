#include "tests/support/fake_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "base/check.h"

namespace lockstep::fake {
namespace {

constexpr size_t kPage = 4096;

std::byte* Map(size_t bytes, int access, int file) {
  void* const at = mmap(nullptr, bytes, access, MAP_SHARED, file, 0);
  Check(at != MAP_FAILED, "no memory for a device");
  return static_cast<std::byte*>(at);
}

}  // namespace

DeviceMemory::~DeviceMemory() {
  for (const auto& [at, block] : blocks_) {
    munmap(const_cast<std::byte*>(at), block.bytes);
    munmap(block.reached, block.bytes);
  }
}

void* DeviceMemory::Allocate(size_t bytes) {
  const size_t whole = (bytes + kPage - 1) / kPage * kPage;
  const int file = memfd_create("device", MFD_CLOEXEC);
  Check(file >= 0 && ftruncate(file, static_cast<off_t>(whole)) == 0,
        "no memory for a device");
  std::byte* const at = Map(whole, PROT_NONE, file);
  std::byte* const reached = Map(whole, PROT_READ | PROT_WRITE, file);
  close(file);
  std::memset(reached, 0xff, whole);
  blocks_[at] = {whole, reached};
  return at;
}

bool DeviceMemory::Free(void* memory) {
  const auto found = blocks_.find(static_cast<std::byte*>(memory));
  if (found == blocks_.end()) return false;
  munmap(found->second.reached, found->second.bytes);
  munmap(memory, found->second.bytes);
  blocks_.erase(found);
  return true;
}

const void* DeviceMemory::Find(const void* address) const {
  const auto* const at = static_cast<const std::byte*>(address);
  auto after = blocks_.upper_bound(at);
  if (after == blocks_.begin()) return address;
  const auto& [begin, block] = *--after;
  const size_t past = static_cast<size_t>(at - begin);
  return past < block.bytes ? block.reached + past : address;
}

}  // namespace lockstep::fake
