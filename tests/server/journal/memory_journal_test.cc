#include "server/journal/memory_journal.h"

#include "tests/server/journal/journal_contract.h"

namespace lockstep::journal {
namespace {

class MemoryShelf : public JournalShelf {
 public:
  std::unique_ptr<Journal> Open() override {
    return std::make_unique<MemoryJournal>(&store_);
  }
  void FlipBit(int number) override { store_.frames[number - 1].back() ^= 1; }
  void Remove(int number) override {
    store_.frames.erase(store_.frames.begin() + number - 1);
  }
  void TearLast() override { store_.frames.back().pop_back(); }

 private:
  MemoryStore store_;
};

INSTANTIATE_TEST_SUITE_P(Memory, JournalContract, testing::Values([] {
                           return std::make_unique<MemoryShelf>();
                         }));

}  // namespace
}  // namespace lockstep::journal
