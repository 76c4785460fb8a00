// What a journal's folder may hold: frames, a database, its write-ahead log and
// mark, and records that decode but make no sense.
//
//   | 0 | bytes of a frame |     | 1 | payload lengths and payloads |
//   | 2 | fields of records |    | 3 | which file | bytes |

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "proto/codec.h"
#include "server/core/coordinator.h"
#include "server/journal/frame.h"
#include "server/journal/sqlite_store.h"
#include "server/journal/wal_check.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_source.h"

namespace lockstep::fuzz {
namespace {

void ReadFrame(FuzzInput& input) {
  const std::string bytes = input.Rest();
  journal::ExamineWal(bytes);
  const auto frame = journal::Decode(bytes);
  if (frame.ok()) {
    Require(journal::Encode(*frame) == bytes, "a frame has one form");
  }
}

// Frames with right checksums, one of which is damaged.
void ReadChain(FuzzInput& input) {
  journal::Chain chain;
  std::vector<std::string> frames;
  const int damaged = input.Below(8);
  const uint8_t flipped = input.Byte();
  while (!input.empty() && frames.size() < 8) {
    frames.push_back(chain.Extend(input.Text(64)));
  }
  const size_t intact = frames.size();
  if (static_cast<size_t>(damaged) < frames.size() && flipped != 0) {
    std::string& frame = frames[static_cast<size_t>(damaged)];
    frame[flipped % frame.size()] =
        static_cast<char>(~frame[flipped % frame.size()]);
    const bool last = static_cast<size_t>(damaged) + 1 == intact;
    const auto recovered = journal::Recover(frames);
    Require(recovered.ok() == last, "damage before an intact frame is found");
    Require(!last || recovered->torn == 1, "a torn end is dropped");
    return;
  }
  const auto recovered = journal::Recover(frames);
  Require(recovered.ok() && recovered->payloads.size() == intact,
          "intact frames are read");
}

// A coordinator refuses records that cannot follow, and goes on with the rest.
void Replay(FuzzInput& input) {
  FuzzSource source(&input);
  core::Coordinator coordinator({});
  uint64_t number = 0;
  for (int i = 0; i < 32 && !input.empty(); ++i) {
    const auto kinds = fill::EachBody<record::Record>();
    record::Record record = kinds[input.Byte() % kinds.size()];
    Fill(source, record);
    record.number = number + 1;
    record.job = {input.Byte() % 4 == 0 ? "b" : "a"};
    if (auto* created = std::get_if<record::JobCreated>(&record.body)) {
      if (input.Byte() % 16 != 0) created->spec.name = record.job.value;
      if (!Validate(created->spec).ok()) {
        created->spec = {.name = record.job.value,
                         .mesh = {{{"data", 1 + input.Below(4)}}}};
      }
    }
    const auto read = proto::ParseRecord(proto::RecordBytes(record));
    if (!read.ok()) continue;
    const core::DurableState before = coordinator.durable();
    if (coordinator.Replay(*read).ok()) {
      ++number;
    } else {
      Require(coordinator.durable() == before,
              "a refused record changes nothing");
    }
  }
  const core::DurableState& state = coordinator.durable();
  const auto snapshot =
      proto::ParseSnapshot(proto::SnapshotParts(core::SnapshotOf(state)));
  Require(snapshot.ok(), "a snapshot is read");
  const auto again = core::StateOf(*snapshot);
  Require(again.ok() && *again == state, "a snapshot has all of the state");
}

// Removed at the end of the program.
struct Scratch {
  Scratch() { Require(mkdtemp(folder.data()) != nullptr, "a folder is made"); }
  ~Scratch() { std::filesystem::remove_all(folder); }
  std::string folder =
      std::filesystem::temp_directory_path() / "lockstep-fuzz-XXXXXX";
};

void ReadFile(FuzzInput& input) {
  namespace fs = std::filesystem;
  static const Scratch scratch;
  const std::string folder = scratch.folder + "/journal";
  fs::remove_all(folder);
  fs::create_directory(folder);
  fs::permissions(folder, fs::perms::owner_all);
  static const char* const kFiles[] = {"journal.db", "journal.db-wal", "mark"};
  while (!input.empty()) {
    const std::string name = kFiles[input.Below(3)];
    uint16_t size = 0;
    input.Copy(&size, sizeof size);
    std::string bytes(size, '\0');
    input.Copy(bytes.data(), bytes.size());
    std::ofstream(folder + "/" + name, std::ios::binary) << bytes;
  }
  auto store =
      journal::SqliteStore::Open(folder, journal::StoreAccess::kInspect);
  if (!store.ok()) return;
  const auto stored = (*store)->Read();
  if (!stored.ok()) return;
  for (const std::string& record : stored->records) {
    proto::ParseRecord(record).IgnoreError();
  }
  if (!stored->snapshot.empty()) {
    proto::ParseSnapshot(stored->snapshot).IgnoreError();
  }
}

constexpr void (*kKinds[])(FuzzInput&) = {&ReadFrame, &ReadChain, &Replay,
                                          &ReadFile};

}  // namespace
}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep::fuzz;
  FuzzInput input(data, size);
  kKinds[input.Below(static_cast<int>(std::size(kKinds)))](input);
  return 0;
}
