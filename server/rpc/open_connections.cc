#include "server/rpc/open_connections.h"

#include <sys/stat.h>

#include <optional>

namespace lockstep::rpc {
namespace {

std::optional<ino_t> SocketOf(int descriptor) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0 || !S_ISSOCK(status.st_mode)) return {};
  return status.st_ino;
}

}  // namespace

void OpenConnections::Add(int descriptor) {
  if (const auto inode = SocketOf(descriptor)) inodes_[descriptor] = *inode;
}

size_t OpenConnections::Count() {
  std::erase_if(inodes_, [](const auto& connection) {
    return SocketOf(connection.first) != connection.second;
  });
  return inodes_.size();
}

}  // namespace lockstep::rpc
