// A folder for temporary files of this user alone, which goes away with it.

#ifndef LOCKSTEP_TOOLS_LAUNCH_SCRATCH_FOLDER_H_
#define LOCKSTEP_TOOLS_LAUNCH_SCRATCH_FOLDER_H_

#include <cstdlib>
#include <filesystem>
#include <string>

namespace lockstep::launch {

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern =
        std::filesystem::temp_directory_path() / "lockstep-XXXXXX";
    if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  // Empty if none could be made.
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace lockstep::launch

#endif  // LOCKSTEP_TOOLS_LAUNCH_SCRATCH_FOLDER_H_
