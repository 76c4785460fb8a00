// Runs a fuzz target without libFuzzer, which GCC does not have: on each file
// of a corpus, and then on mutants of them for some seconds.
//
//   messages_fuzz CORPUS SECONDS SEED LAST
//
// The input that is running is in the file LAST, behind its length in 8 bytes.
// It stays there if the target aborts, crashes, or takes longer than 10 s.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;

constexpr size_t kInputBytesMax = 8192;
constexpr size_t kCorpusBytesMax = 256 << 10;
constexpr unsigned kInputSecondsMax = 10;

// The file LAST.
class LastInput {
 public:
  explicit LastInput(const std::string& path) : path_(path) {
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || ftruncate(file, kBytes) != 0) std::abort();
    bytes_ = static_cast<char*>(
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    if (bytes_ == MAP_FAILED) std::abort();
    close(file);
  }

  void Set(const std::string& input) {
    const uint64_t size = input.size();
    std::memcpy(bytes_, &size, sizeof size);
    std::memcpy(bytes_ + sizeof size, input.data(), input.size());
  }
  // Nothing went wrong.
  ~LastInput() { fs::remove(path_); }

 private:
  static constexpr size_t kBytes = sizeof(uint64_t) + kCorpusBytesMax;

  const std::string path_;
  char* bytes_;
};

// In memory of exactly its size, so that a sanitizer sees a read behind it.
void RunOn(const std::string& bytes) {
  alarm(kInputSecondsMax);
  const std::vector<uint8_t> input(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

class Mutator {
 public:
  Mutator(const std::vector<std::string>& corpus, uint64_t seed)
      : corpus_(corpus), random_(seed) {}

  std::string Next() {
    std::string input = corpus_[Below(corpus_.size())];
    for (size_t i = 1 + Below(8); i > 0; --i) Change(&input);
    if (input.size() > kInputBytesMax) input.resize(kInputBytesMax);
    return input;
  }

 private:
  size_t Below(size_t count) { return random_() % count; }

  char AnyByte() {
    static const char kMarked[] = "\0\1\2\x7F\x80\xFF 09{}[]\":,-.=/\n";
    return Below(2) == 0 ? kMarked[Below(sizeof kMarked - 1)]
                         : static_cast<char>(random_());
  }

  void Change(std::string* input) {
    const size_t at = Below(input->size() + 1);
    const size_t rest = input->size() - at;
    switch (Below(8)) {
      case 0:
        if (rest > 0) (*input)[at] ^= static_cast<char>(1 << Below(8));
        return;
      case 1:
        if (rest > 0) (*input)[at] = AnyByte();
        return;
      case 2: input->insert(at, 1, AnyByte()); return;
      case 3: input->erase(at, Below(std::min<size_t>(rest, 16) + 1)); return;
      case 4: input->insert(at, Below(16), AnyByte()); return;
      case 5: {  // the beginning of this one and the end of another
        const std::string& other = corpus_[Below(corpus_.size())];
        input->replace(at, rest, other, Below(other.size() + 1));
        return;
      }
      case 6: {  // a part of itself again
        const size_t from = Below(input->size() + 1);
        input->insert(at, input->substr(from, Below(64)));
        return;
      }
      default: {  // a number
        uint64_t number = random_() >> Below(64);
        if (Below(4) == 0) number = ~number;
        const size_t bytes = size_t{1} << Below(4);
        if (rest < bytes) return;
        std::memcpy(input->data() + at, &number, bytes);
      }
    }
  }

  const std::vector<std::string>& corpus_;
  std::mt19937_64 random_;
};

std::vector<std::string> ReadAll(const char* folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());  // one seed, one run
  std::vector<std::string> inputs;
  for (const fs::path& path : files) {
    std::ifstream in(path, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(in),
                        std::istreambuf_iterator<char>());
    if (inputs.back().size() > kCorpusBytesMax) std::abort();
  }
  return inputs;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: %s CORPUS SECONDS SEED LAST\n", argv[0]);
    return 2;
  }
  const std::vector<std::string> corpus = ReadAll(argv[1]);
  if (corpus.empty()) return 2;
  LastInput last(argv[4]);
  for (const std::string& input : corpus) {
    last.Set(input);
    RunOn(input);
  }
  Mutator mutator(corpus, std::strtoull(argv[3], nullptr, 10));
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::seconds(std::atoi(argv[2]));
  uint64_t runs = 0;
  while (std::chrono::steady_clock::now() < end) {
    const std::string input = mutator.Next();
    last.Set(input);
    RunOn(input);
    ++runs;
  }
  std::printf("number_of_executed_units: %llu\n",
              static_cast<unsigned long long>(runs));
  return 0;
}
