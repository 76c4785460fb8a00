#include "server/etcd/etcd_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace lockstep::etcd {
namespace {

using journal::Chain;
using journal::StoredJournal;

constexpr char kFormat[] = "lockstep journal 1";
// etcd takes 1.5 MiB with keys and framing.
constexpr size_t kTransactionBytesMax = 1 << 20;
constexpr int64_t kPageKeys = 8;  // of 512 KiB at most
// A leader that reaches no member for as long leads no more, which cancels the
// client: these end no attempt early.
constexpr absl::Duration kWriteTimeout = absl::Seconds(2);
constexpr absl::Duration kReadTimeout = absl::Seconds(10);

std::string Padded(uint64_t number) { return absl::StrFormat("%020d", number); }

std::string ChunkKey(const std::string& key, size_t chunk) {
  return absl::StrFormat("%s/%04d", key, chunk);
}

}  // namespace

std::string EtcdStore::KeyOf(const std::string& name) const {
  return absl::StrCat(prefix_, "/", name);
}

// --- Reading -----------------------------------------------------------------

absl::StatusOr<StoredJournal> EtcdStore::Read() {
  const auto leader = client_->Read({fence_.key, ""}, 1, 0, kReadTimeout);
  if (!leader.ok()) return leader.status();
  turn_ = leader->keys.empty() ? 1 : leader->keys.front().version;
  const absl::Status format = CheckFormat();
  if (absl::IsDataLoss(format)) return Damaged(format);
  if (!format.ok()) return format;
  last_ = KeyOf("format");
  StoredJournal stored;
  const auto newest = NewestSnapshot();
  if (!newest.ok()) return newest.status();
  // Other snapshots are left over from interrupted attempts.
  if (!newest->empty()) {
    const auto frames =
        ReadFrames(absl::StrCat(KeyOf("snapshot/"), *newest, "/"));
    if (!frames.ok()) return frames.status();
    std::vector<std::string> bytes;
    for (const auto& frame : *frames) bytes.push_back(frame.second);
    auto snapshot = journal::ReadSnapshot(bytes);
    if (!snapshot.ok()) return Damaged(snapshot.status());
    stored.snapshot = std::move(snapshot->parts);
    stored.snapshot_end = snapshot->of;
    last_ = KeyOf("snapshot");
  }
  const auto frames = ReadFrames(KeyOf("record/"));
  if (!frames.ok()) return frames.status();
  std::vector<std::string> records;
  for (const auto& frame : *frames) records.push_back(frame.second);
  auto recovered = journal::Recover(records, stored.snapshot_end);
  if (!recovered.ok()) return Damaged(recovered.status());
  stored.records = std::move(recovered->payloads);
  stored.chain = recovered->chain;
  const absl::Status head = CheckHead(stored, records);
  if (absl::IsDataLoss(head)) return Damaged(head);
  if (!head.ok()) return head;
  if (!stored.records.empty()) {
    const auto& [key, frame] = (*frames)[stored.records.size() - 1];
    last_ = ChunkKey(key, (frame.size() - 1) / kChunkBytesMax);
  }
  if (recovered->torn > 0) {
    stored.notes.push_back(std::string(
        "the journal in etcd ends with a record that was not written whole: "
        "it was never promised, and is dropped"));
    const absl::Status dropped =
        Commit({{KeyOf(absl::StrCat("record/",
                                    Padded(stored.chain.last_number() + 1))),
                 WithPrefix(KeyOf("record/")).to}},
               {});
    if (!dropped.ok()) return dropped;
  }
  return stored;
}

// What looks damaged may be what the next leader has changed meanwhile: only
// one that still leads can tell.
absl::StatusOr<StoredJournal> EtcdStore::Damaged(absl::Status damage) {
  if (absl::Status leads = Commit({}, {}); !leads.ok()) return leads;
  return StoredJournal{.damage = std::move(damage)};
}

absl::Status EtcdStore::CheckFormat() {
  const auto page = client_->Read({KeyOf("format"), ""}, 1, 0, kReadTimeout);
  if (!page.ok()) return page.status();
  if (page->keys.empty()) {
    if (absl::Status rest = CheckNoRest(); !rest.ok()) return rest;
    return Commit({}, {{KeyOf("format"), kFormat},
                       {KeyOf("head"), journal::EndFrame(Chain())}});
  }
  const std::string& format = page->keys.front().value;
  if (format == kFormat) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the journal in etcd at ", prefix_, " has the format \"",
                   format, "\", this version reads \"", kFormat, "\""));
}

// DataLoss: the format is gone, and the rest of a journal is there.
absl::Status EtcdStore::CheckNoRest() {
  for (const KeyRange& range :
       {KeyRange{KeyOf("head"), ""}, WithPrefix(KeyOf("record/")),
        WithPrefix(KeyOf("snapshot"))}) {
    const auto page = client_->Read(range, 1, 0, kReadTimeout);
    if (!page.ok()) return page.status();
    if (page->keys.empty()) continue;
    return absl::DataLossError(
        absl::StrCat(KeyOf("format"), " is gone from etcd, and ",
                     page->keys.front().key, " is there"));
  }
  return absl::OkStatus();
}

absl::Status EtcdStore::CheckHead(const StoredJournal& stored,
                                  const std::vector<std::string>& records) {
  const auto page = client_->Read({KeyOf("head"), ""}, 1, 0, kReadTimeout);
  if (!page.ok()) return page.status();
  if (page->keys.empty()) {
    return absl::DataLossError(absl::StrCat(
        KeyOf("head"), " is gone from etcd, so records may be missing"));
  }
  const auto head = journal::Decode(page->keys.front().value);
  if (!head.ok()) {
    return absl::DataLossError(
        absl::StrCat(KeyOf("head"),
                     " in etcd is damaged, so records may be "
                     "missing: ",
                     head.status().message()));
  }
  const uint64_t end = stored.chain.last_number();
  if (head->number > end) {
    return absl::DataLossError(absl::StrFormat(
        "record %d of the journal is missing in etcd: %d of %d records that "
        "were durable are gone; somebody removed them",
        end + 1, head->number - end, head->number));
  }
  const uint64_t behind = end - head->number;
  const bool is_record = behind < stored.records.size();
  if (!is_record && head->number != stored.snapshot_end.last_number()) {
    return absl::OkStatus();  // inside the snapshot
  }
  const uint64_t hash =
      is_record ? journal::HashOf(records[stored.records.size() - 1 - behind])
                : stored.snapshot_end.last_hash();
  if (hash == head->predecessor) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat(
      "record %d of the journal in etcd is not the one that was durable: "
      "another journal was put in its place",
      head->number));
}

absl::StatusOr<std::string> EtcdStore::NewestSnapshot() {
  const auto page = client_->Read({KeyOf("snapshot"), ""}, 1, 0, kReadTimeout);
  if (!page.ok()) return page.status();
  return page->keys.empty() ? "" : page->keys.front().value;
}

absl::StatusOr<std::vector<KeyValue>> EtcdStore::ReadAll(
    const std::string& prefix) {
  std::vector<KeyValue> all;
  KeyRange range = WithPrefix(prefix);
  while (true) {
    // Nobody else writes: no revision is needed.
    auto page = client_->Read(range, kPageKeys, 0, kReadTimeout);
    if (!page.ok()) return page.status();
    for (KeyValue& key : page->keys) all.push_back(std::move(key));
    if (!page->more) return all;
    range.from = absl::StrCat(all.back().key, absl::string_view("\0", 1));
  }
}

absl::StatusOr<EtcdStore::Frames> EtcdStore::ReadFrames(
    const std::string& prefix) {
  auto keys = ReadAll(prefix);
  if (!keys.ok()) return keys.status();
  Frames frames;
  for (KeyValue& chunk : *keys) {
    const std::string key = chunk.key.substr(0, chunk.key.rfind('/'));
    if (frames.empty() || frames.back().first != key) {
      frames.emplace_back(key, std::move(chunk.value));
    } else {
      frames.back().second += chunk.value;
    }
  }
  return frames;
}

// --- Writing -----------------------------------------------------------------

absl::Status EtcdStore::Append(uint64_t first,
                               const std::vector<std::string>& frames,
                               const Chain& end) {
  Frames named;
  for (const std::string& frame : frames) {
    named.emplace_back(KeyOf(absl::StrCat("record/", Padded(first++))), frame);
  }
  return Write(named, &last_, {{KeyOf("head"), journal::EndFrame(end)}});
}

absl::Status EtcdStore::ReplaceBySnapshot(
    const Chain& of, const std::vector<std::string>& parts) {
  const std::string number = Padded(of.last_number());
  const std::string folder = KeyOf(absl::StrCat("snapshot/", number, "/"));
  const KeyRange own = WithPrefix(folder);
  const KeyRange all = WithPrefix(KeyOf("snapshot/"));
  const auto newest = NewestSnapshot();
  if (!newest.ok()) return newest.status();
  if (*newest == number) return absl::OkStatus();
  // Delete frames of an interrupted attempt.
  if (absl::Status s = Commit({own}, {}); !s.ok()) return s;

  Frames frames;
  for (const std::string& frame : journal::SnapshotFrames(of, parts)) {
    frames.emplace_back(absl::StrCat(folder, Padded(frames.size())), frame);
  }
  std::string last;  // a snapshot needs no record before it
  if (absl::Status s = Write(frames, &last); !s.ok()) return s;
  const absl::Status done =
      Commit({{all.from, own.from},
              {own.to, all.to},
              {KeyOf("record/"),
               KeyOf(absl::StrCat("record/", Padded(of.last_number() + 1)))}},
             {{KeyOf("snapshot"), number}});
  if (done.ok()) last_ = KeyOf("snapshot");
  return done;
}

absl::Status EtcdStore::Write(const Frames& frames, std::string* last,
                              const std::vector<KeyValue>& with) {
  std::vector<KeyValue> puts;
  size_t bytes = 0;
  const auto flush = [&](const std::vector<KeyValue>& also = {}) {
    bytes = 0;
    const std::string key = puts.back().key;
    puts.insert(puts.end(), also.begin(), also.end());
    const absl::Status done = Commit({}, std::exchange(puts, {}), *last);
    if (done.ok()) *last = key;
    return done;
  };
  for (const auto& [key, frame] : frames) {
    for (size_t at = 0, chunk = 0; at < frame.size();
         at += kChunkBytesMax, ++chunk) {
      std::string part = frame.substr(at, kChunkBytesMax);
      const bool is_full = puts.size() == kOperationsMax ||
                           bytes + part.size() > kTransactionBytesMax;
      if (is_full && !puts.empty()) {
        if (absl::Status s = flush(); !s.ok()) return s;
      }
      bytes += part.size();
      puts.push_back({ChunkKey(key, chunk), std::move(part)});
    }
  }
  return puts.empty() ? absl::OkStatus() : flush(with);
}

// Again until it is known to have succeeded or failed.
absl::Status EtcdStore::Commit(const std::vector<KeyRange>& deletes,
                               std::vector<KeyValue> puts,
                               const std::string& behind) {
  const Transaction transaction{.fence = fence_,
                                .turn = turn_,
                                .behind = behind,
                                .deletes = deletes,
                                .puts = std::move(puts)};
  bool is_in_doubt = false;
  while (true) {
    const absl::Status done =
        client_->Commit(transaction, kWriteTimeout, is_in_doubt);
    if (done.ok()) ++turn_;
    if (!absl::IsUnavailable(done)) return done;
    is_in_doubt = true;
  }
}

}  // namespace lockstep::etcd
