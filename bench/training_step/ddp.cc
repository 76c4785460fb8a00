#include "bench/training_step/ddp.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace lockstep::bench {
namespace {

// A temporary file with one tensor per line.
class ShapesFile {
 public:
  explicit ShapesFile(const Inventory& inventory)
      : path_(std::filesystem::temp_directory_path() /
              absl::StrCat("lockstep-shapes-", getpid())) {
    std::ofstream file(path_);
    for (const Tensor& tensor : inventory) {
      file << absl::StrJoin(tensor.shape, " ") << "\n";
    }
  }
  ~ShapesFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

}  // namespace

std::optional<DdpSeconds> MeasureDdp(const std::string& script,
                                     const Inventory& inventory, int steps) {
  const ShapesFile shapes(inventory);
  // Debian's Python, even if another one is first in PATH.
  const std::string command =
      absl::StrCat("/usr/bin/python3 ", script, " ", shapes.path(), " ", steps);
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  DdpSeconds measured;
  char version[64] = "";
  const int read =
      std::fscanf(pipe, "with %lf without %lf %63s", &measured.synchronised,
                  &measured.alone, version);
  if (pclose(pipe) != 0 || read != 3) return std::nullopt;
  measured.version = version;
  return measured;
}

}  // namespace lockstep::bench
