#include "tests/support/memory_file_system.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"

namespace lockstep {
namespace {

absl::Status NoSuch(const std::string& path) {
  return absl::NotFoundError(absl::StrCat(path, " does not exist"));
}
absl::Status IsThere(const std::string& path) {
  return absl::AlreadyExistsError(absl::StrCat(path, " exists"));
}
absl::Status WrongKind(const std::string& path) {
  return absl::FailedPreconditionError(
      absl::StrCat(path, " is a directory, or is none"));
}
absl::Status NotEmpty(const std::string& path) {
  return absl::FailedPreconditionError(absl::StrCat(path, " is not empty"));
}

std::vector<std::string> Split(const std::string& path) {
  return absl::StrSplit(path, '/', absl::SkipEmpty());
}

}  // namespace

class MemoryFileSystem::File final : public WritableFile {
 public:
  File(MemoryFileSystem* files, std::shared_ptr<Node> node, int incarnation)
      : files_(files), node_(std::move(node)), life_(incarnation) {}

  absl::Status Append(absl::string_view bytes) override {
    MutexLock lock(&files_->mutex_);
    if (life_ != files_->incarnations_) return Crashed();
    node_->bytes.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }

  // Promises nothing, so a crash may lose these bytes too.
  absl::Status StartWriteback() override {
    MutexLock lock(&files_->mutex_);
    return life_ == files_->incarnations_ ? absl::OkStatus() : Crashed();
  }

  absl::Status Sync() override {
    MutexLock lock(&files_->mutex_);
    if (life_ != files_->incarnations_) return Crashed();
    node_->durable_bytes = node_->bytes;
    return absl::OkStatus();
  }

 private:
  MemoryFileSystem* const files_;
  const std::shared_ptr<Node> node_;
  const int life_;
};

class MemoryFileSystem::OpenedFile final : public ReadableFile {
 public:
  OpenedFile(MemoryFileSystem* files, std::string path,
             std::shared_ptr<Node> node, int incarnation)
      : files_(files),
        path_(std::move(path)),
        node_(std::move(node)),
        life_(incarnation) {}

  absl::Status Read(uint64_t offset, size_t bytes, void* to) override {
    MutexLock lock(&files_->mutex_);
    if (life_ != files_->incarnations_) return Crashed();
    const std::string& all = node_->bytes;
    if (offset > all.size() || bytes > all.size() - offset) {
      return absl::OutOfRangeError(absl::StrCat(path_, " ends before"));
    }
    std::copy_n(all.data() + offset, bytes, static_cast<char*>(to));
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> Size() override {
    MutexLock lock(&files_->mutex_);
    if (life_ != files_->incarnations_) return Crashed();
    return node_->bytes.size();
  }

 private:
  MemoryFileSystem* const files_;
  const std::string path_;
  const std::shared_ptr<Node> node_;
  const int life_;
};

class MemoryFileSystem::HeldLock final : public FileLock {
 public:
  HeldLock(MemoryFileSystem* files, std::shared_ptr<Node> node, int incarnation)
      : files_(files), node_(std::move(node)), life_(incarnation) {}
  ~HeldLock() override {
    MutexLock lock(&files_->mutex_);
    if (node_->locked_in == life_) node_->locked_in = 0;
  }

 private:
  MemoryFileSystem* const files_;
  const std::shared_ptr<Node> node_;
  const int life_;
};

MemoryFileSystem::MemoryFileSystem() : root_(std::make_shared<Node>()) {
  root_->is_directory = true;
}

void MemoryFileSystem::Crash() {
  MutexLock lock(&mutex_);
  ++incarnations_;
  Forget(root_.get());
}

void MemoryFileSystem::CrashPartly(uint64_t seed) {
  MutexLock lock(&mutex_);
  ++incarnations_;
  Random random(seed);
  KeepSome(root_.get(), &random);
  Forget(root_.get());
}

absl::Status MemoryFileSystem::Crashed() {
  return absl::AbortedError("the machine crashed since the file was opened");
}

// Makes some of the state durable that was not.
void MemoryFileSystem::KeepSome(Node* node, Random* random) {
  constexpr size_t kBlock = 512;
  if ((*random)() % 2 == 0) node->durable_names = node->names;
  if (node->bytes != node->durable_bytes && (*random)() % 4 != 0) {
    const size_t synced = node->bytes.starts_with(node->durable_bytes)
                              ? node->durable_bytes.size()
                              : 0;
    const size_t kept =
        synced + (*random)() % (node->bytes.size() - synced + 1);
    std::string left = node->bytes.substr(0, kept);
    for (size_t at = synced; at < kept; at += kBlock) {
      const size_t end = std::min(kept, at + kBlock);
      if ((*random)() % 4 == 0) std::fill(&left[at], &left[0] + end, '\0');
    }
    node->durable_bytes = std::move(left);
  }
  for (auto& [name, child] : node->names) KeepSome(child.get(), random);
  // Those under their old names only.
  for (auto& [name, child] : node->durable_names) {
    const auto now = node->names.find(name);
    if (now == node->names.end()) KeepSome(child.get(), random);
  }
}

void MemoryFileSystem::Forget(Node* node) {
  node->bytes = node->durable_bytes;
  node->names = node->durable_names;
  for (auto& [name, child] : node->names) Forget(child.get());
}

absl::StatusOr<MemoryFileSystem::Place> MemoryFileSystem::FindPlace(
    const std::string& path) const {
  Check(!path.empty() && path[0] == '/', "paths in memory are absolute");
  std::vector<std::string> parts = Split(path);
  if (parts.empty()) return WrongKind(path);
  Place place{.parent = root_.get(), .name = parts.back()};
  parts.pop_back();
  for (const std::string& part : parts) {
    const auto found = place.parent->names.find(part);
    if (found == place.parent->names.end()) return NoSuch(path);
    if (!found->second->is_directory) return WrongKind(path);
    place.parent = found->second.get();
  }
  return place;
}

absl::StatusOr<std::shared_ptr<MemoryFileSystem::Node>>
MemoryFileSystem::FindNode(const std::string& path) const {
  if (Split(path).empty()) return root_;
  const absl::StatusOr<Place> place = FindPlace(path);
  if (!place.ok()) return place.status();
  const auto found = place->parent->names.find(place->name);
  if (found == place->parent->names.end()) return NoSuch(path);
  return found->second;
}

absl::StatusOr<std::shared_ptr<MemoryFileSystem::Node>>
MemoryFileSystem::FindFile(const std::string& path) const {
  auto node = FindNode(path);
  if (node.ok() && (*node)->is_directory) return WrongKind(path);
  return node;
}

absl::StatusOr<std::shared_ptr<MemoryFileSystem::Node>>
MemoryFileSystem::FindDirectory(const std::string& path) const {
  auto node = FindNode(path);
  if (node.ok() && !(*node)->is_directory) return WrongKind(path);
  return node;
}

absl::StatusOr<FileKind> MemoryFileSystem::KindOf(const std::string& path) {
  MutexLock lock(&mutex_);
  const auto node = FindNode(path);
  if (!node.ok()) return node.status();
  return (*node)->is_directory ? FileKind::kDirectory : FileKind::kRegular;
}

absl::StatusOr<std::unique_ptr<WritableFile>> MemoryFileSystem::Open(
    const std::string& path, OpenMode mode) {
  MutexLock lock(&mutex_);
  const absl::StatusOr<Place> place = FindPlace(path);
  if (!place.ok()) return place.status();
  std::shared_ptr<Node>& node = place->parent->names[place->name];
  if (node != nullptr && mode == OpenMode::kCreate) return IsThere(path);
  if (node != nullptr && node->is_directory) return WrongKind(path);
  if (node == nullptr) node = std::make_shared<Node>();
  if (mode == OpenMode::kTruncate) node->bytes.clear();
  return std::make_unique<File>(this, node, incarnations_);
}

absl::StatusOr<std::unique_ptr<ReadableFile>> MemoryFileSystem::OpenForReading(
    const std::string& path) {
  MutexLock lock(&mutex_);
  auto node = FindFile(path);
  if (!node.ok()) return node.status();
  return std::make_unique<OpenedFile>(this, path, *std::move(node),
                                      incarnations_);
}

absl::StatusOr<std::string> MemoryFileSystem::Read(const std::string& path,
                                                   uint64_t offset,
                                                   size_t bytes) {
  MutexLock lock(&mutex_);
  const auto node = FindFile(path);
  if (!node.ok()) return node.status();
  const std::string& all = (*node)->bytes;
  return all.substr(std::min<uint64_t>(offset, all.size()), bytes);
}

absl::StatusOr<uint64_t> MemoryFileSystem::Size(const std::string& path) {
  MutexLock lock(&mutex_);
  const auto node = FindFile(path);
  if (!node.ok()) return node.status();
  return (*node)->bytes.size();
}

absl::Status MemoryFileSystem::MakeDirectory(const std::string& path) {
  MutexLock lock(&mutex_);
  const absl::StatusOr<Place> place = FindPlace(path);
  if (!place.ok()) return place.status();
  std::shared_ptr<Node>& node = place->parent->names[place->name];
  if (node != nullptr) return IsThere(path);
  node = std::make_shared<Node>();
  node->is_directory = true;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> MemoryFileSystem::List(
    const std::string& directory) {
  MutexLock lock(&mutex_);
  const auto node = FindDirectory(directory);
  if (!node.ok()) return node.status();
  std::vector<std::string> names;
  for (const auto& [name, child] : (*node)->names) names.push_back(name);
  return names;
}

absl::Status MemoryFileSystem::SyncDirectory(const std::string& directory) {
  MutexLock lock(&mutex_);
  const auto node = FindDirectory(directory);
  if (!node.ok()) return node.status();
  (*node)->durable_names = (*node)->names;
  return absl::OkStatus();
}

absl::Status MemoryFileSystem::Rename(const std::string& from,
                                      const std::string& to) {
  MutexLock lock(&mutex_);
  const auto node = FindNode(from);
  if (!node.ok()) return node.status();
  const absl::StatusOr<Place> source = FindPlace(from);
  const absl::StatusOr<Place> target = FindPlace(to);
  if (!target.ok()) return target.status();
  const auto there = target->parent->names.find(target->name);
  if (there != target->parent->names.end() && there->second != *node) {
    if (there->second->is_directory != (*node)->is_directory) {
      return WrongKind(to);
    }
    if (!there->second->names.empty()) return NotEmpty(to);
  }
  source->parent->names.erase(source->name);
  target->parent->names[target->name] = *node;
  return absl::OkStatus();
}

absl::Status MemoryFileSystem::Remove(const std::string& path) {
  MutexLock lock(&mutex_);
  const auto node = FindNode(path);
  if (!node.ok()) return node.status();
  if (!(*node)->names.empty()) return NotEmpty(path);
  const absl::StatusOr<Place> place = FindPlace(path);
  if (!place.ok()) return place.status();
  place->parent->names.erase(place->name);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<FileLock>> MemoryFileSystem::Lock(
    const std::string& path, absl::string_view holder) {
  MutexLock lock(&mutex_);
  const absl::StatusOr<Place> place = FindPlace(path);
  if (!place.ok()) return place.status();
  std::shared_ptr<Node>& node = place->parent->names[place->name];
  if (node == nullptr) node = std::make_shared<Node>();
  if (node->is_directory) return WrongKind(path);
  if (node->locked_in == incarnations_) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is locked by ", node->bytes));
  }
  node->locked_in = incarnations_;
  node->bytes = std::string(holder);
  return std::make_unique<HeldLock>(this, node, incarnations_);
}

}  // namespace lockstep
