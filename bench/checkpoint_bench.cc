// Checkpoints of one rank with 256 MiB of state: `./run bench checkpoint`.
//
//   checkpoint_bench [DIR [MIB [SAMPLES]]]     (default: a temporary folder,
//   256, 7)
//
// Runs itself as the only worker of a job (lockstepctl run). Beside each value
// the same work is done plainly, in turns; ratios are of medians.
//
//   stall      Save, from the second one on, and a memcpy of the state
//   write      Save until it is committed, and write(2) in pieces of 4 MiB with
//              one fsync, of the same bytes into the same folder
//   load       Load with all hashes checked, and read(2) plus XXH3 of the
//   blocks slowdown   passes per second of a loop of arithmetic on the other
//   core while
//              a save is being written, and without one

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "bench/figures.h"
#include "client/checkpoint/content_hash.h"
#include "lockstep/checkpointer.h"
#include "lockstep/session.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kTensorBytes = 8 * kMiB;
constexpr size_t kPiece = 4 * kMiB;

struct Arguments {
  std::string directory;
  size_t mib = 256;
  int samples = 7;
};

double SecondsOf(const std::function<void()>& work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void Must(const absl::Status& status, const char* what) {
  if (status.ok()) return;
  std::fprintf(stderr, "checkpoint_bench: %s: %s\n", what,
               status.ToString().c_str());
  std::exit(1);
}

void Must(bool good, const char* what) {
  Must(good ? absl::OkStatus() : absl::ErrnoToStatus(errno, ""), what);
}

void WritePlainly(const std::string& path, const std::vector<char>& bytes) {
  const int file = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644);
  Must(file >= 0, "open");
  for (size_t at = 0; at < bytes.size(); at += kPiece) {
    const size_t count = std::min(kPiece, bytes.size() - at);
    Must(write(file, bytes.data() + at, count) == static_cast<ssize_t>(count),
         "write");
  }
  Must(fsync(file) == 0, "fsync");
  close(file);
}

// Returns a value that depends on the hashes.
uint64_t ReadAndHash(const std::string& path, std::vector<char>* bytes) {
  const int file = open(path.c_str(), O_RDONLY);
  Must(file >= 0, "open");
  uint64_t all = 0;
  for (size_t at = 0; at < bytes->size(); at += kPiece) {
    const size_t count = std::min(kPiece, bytes->size() - at);
    Must(read(file, bytes->data() + at, count) == static_cast<ssize_t>(count),
         "read");
    all ^= checkpoint::HashBlock({bytes->data() + at, count});
  }
  close(file);
  return all;
}

// A thread that counts passes of a loop in registers.
class Spinner {
 public:
  Spinner() : thread_([this] { Run(); }) {}
  ~Spinner() {
    stop_ = true;
    thread_.join();
  }
  // Passes per second while `work` runs.
  double During(const std::function<void()>& work) {
    const uint64_t before = passes_;
    const double seconds = SecondsOf(work);
    return static_cast<double>(passes_ - before) / seconds;
  }
  uint64_t result() const { return value_; }

 private:
  void Run() {
    uint64_t x = 1;
    while (!stop_) {
      for (int i = 0; i < 20000; ++i) x = x * 6364136223846793005u + 1;
      passes_.fetch_add(1, std::memory_order_relaxed);
    }
    value_ = x;
  }

  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> passes_{0};
  std::atomic<uint64_t> value_{0};
  std::thread thread_;
};

int Measure(const Arguments& arguments) {
  auto session = Session::Join({});
  Must(session.status(), "join");
  const size_t tensors = arguments.mib * kMiB / kTensorBytes;
  std::vector<char> state(tensors * kTensorBytes), other(state.size());
  for (size_t i = 0; i < state.size(); ++i) {
    state[i] = static_cast<char>(i * 2654435761u >> 13);
  }
  for (size_t i = 0; i < tensors; ++i) {
    const auto id = (*session)->RegisterState(
        {.name = absl::StrCat("layers.", i, ".weight"),
         .dtype = DType::kF32,
         .shape = {int64_t{1024}, int64_t{kTensorBytes / 4 / 1024}}},
        state.data() + i * kTensorBytes);
    Must(id.status(), "register");
  }
  Must((*session)->Connect(), "connect");
  auto checkpointer = AsyncCheckpointer::Create(
      **session, {.directory = arguments.directory, .keep_last = 1});
  Must(checkpointer.status(), "create");
  const std::string plain = arguments.directory + "/plain";

  int64_t step = 0;
  Must((*checkpointer)->Save({.step = ++step}), "save");
  Must((*checkpointer)->Wait(), "wait");
  WritePlainly(plain, state);
  std::memcpy(other.data(), state.data(), state.size());

  std::vector<double> stall, copy, save, write, load, read;
  for (int i = 0; i < arguments.samples; ++i) {
    double stalled = 0;
    sync();
    save.push_back(SecondsOf([&] {
      stalled = SecondsOf(
          [&] { Must((*checkpointer)->Save({.step = ++step}), "save"); });
      Must((*checkpointer)->Wait(), "wait");
    }));
    stall.push_back(stalled);
    copy.push_back(SecondsOf(
        [&] { std::memcpy(other.data(), state.data(), state.size()); }));
    sync();
    write.push_back(SecondsOf([&] { WritePlainly(plain, state); }));
    load.push_back(
        SecondsOf([&] { Must((*checkpointer)->Load().status(), "load"); }));
    read.push_back(SecondsOf([&] { ReadAndHash(plain, &other); }));
  }

  std::vector<double> alone, beside;
  {
    Spinner spinner;
    for (int i = 0; i < arguments.samples; ++i) {
      sync();
      Must((*checkpointer)->Save({.step = ++step}), "save");
      double seconds = 0;
      beside.push_back(spinner.During([&] {
        seconds = SecondsOf([&] { Must((*checkpointer)->Wait(), "wait"); });
      }));
      sync();
      alone.push_back(spinner.During([&] {
        std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
      }));
    }
  }
  Must((*session)->Leave(), "leave");

  const double gib = static_cast<double>(state.size()) / (1 << 30);
  std::printf(
      "%zu MiB; GiB/s: memcpy %.2f, plain write %.2f, save %.2f, plain read "
      "with hash %.2f, load %.2f\n",
      arguments.mib, gib / Median(copy), gib / Median(write),
      gib / Median(save), gib / Median(read), gib / Median(load));
  Print({{.what = "stall of Save / memcpy",
          .promised = 1.2,
          .measured = Median(stall) / Median(copy),
          .at_most = true},
         {.what = "write rate of a save / of a plain durable write",
          .promised = 0.90,
          .measured = Median(write) / Median(save)},
         {.what = "load rate / plain read and hash",
          .promised = 0.80,
          .measured = Median(read) / Median(load)},
         {.what = "loop on the other core while saving / without",
          .promised = 0.97,
          .measured = Median(beside) / Median(alone)}});
  return 0;
}

int Main(int argc, char** argv) {
  Arguments arguments;
  if (argc > 1) arguments.directory = argv[1];
  if (argc > 2) arguments.mib = static_cast<size_t>(std::atoi(argv[2]));
  if (argc > 3) arguments.samples = std::atoi(argv[3]);
  if (arguments.mib % (kTensorBytes / kMiB) != 0 || arguments.mib == 0 ||
      arguments.samples < 1 || argc > 4) {
    std::fprintf(stderr,
                 "usage: checkpoint_bench [DIR [MIB [SAMPLES]]]; MIB is a "
                 "multiple of 8\n");
    return 2;
  }
  if (std::getenv("LOCKSTEP_ADDRESS") != nullptr) return Measure(arguments);

  std::string made;
  if (arguments.directory.empty()) {
    made = (std::filesystem::temp_directory_path() / "lockstep-bench-XXXXXX");
    Must(mkdtemp(made.data()) != nullptr, "mkdtemp");
    arguments.directory = made;
  }
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string launcher =
      std::filesystem::path(self).parent_path() / "lockstepctl";
  const std::string command = absl::StrCat(
      "'", launcher, "' run -n 1 -- '", self, "' '", arguments.directory, "' ",
      arguments.mib, " ", arguments.samples);
  const int code = std::system(command.c_str());
  if (!made.empty()) std::filesystem::remove_all(made);
  return code == 0 ? 0 : 1;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) { return lockstep::bench::Main(argc, argv); }
