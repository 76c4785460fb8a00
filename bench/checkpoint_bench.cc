// What a checkpoint of 256 MiB costs one rank: the stall of Save, the time to
// write it, and what the writer takes from a computation on another core.
//
//   checkpoint_bench DIR        on the file system to measure

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "base/file_system.h"
#include "client/checkpoint/content_hash.h"
#include "client/state/saver.h"
#include "tests/client/state/fake_coordinator.h"

namespace lockstep::state {
namespace {

constexpr size_t kBytes = size_t{256} << 20;

double Seconds(const std::function<void()>& work) {
  const absl::Time begin = absl::Now();
  work();
  return absl::ToDoubleSeconds(absl::Now() - begin);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void PinTo(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

char* Mapped() {
  return static_cast<char*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

// Iterations of arithmetic in registers and the first-level cache, while
// `stop` is false.
double ComputeRate(const std::function<void()>& meanwhile) {
  std::atomic<bool> stop{false};
  uint64_t rounds = 0;
  double seconds = 0;
  std::thread compute([&] {
    PinTo(0);
    std::vector<float> a(1 << 16, 1.25f);
    const absl::Time begin = absl::Now();
    while (!stop) {
      for (float& x : a) x = x * 0.999f + 0.5f;
      ++rounds;
    }
    seconds = absl::ToDoubleSeconds(absl::Now() - begin);
  });
  meanwhile();
  stop = true;
  compute.join();
  return static_cast<double>(rounds) / seconds;
}

int Main(const std::string& directory) {
  PinTo(1);
  char* const memory = Mapped();
  char* const copy = Mapped();
  for (size_t i = 0; i < kBytes; ++i) memory[i] = (i * 2654435761u) >> 13;
  std::memset(copy, 1, kBytes);
  std::vector<double> copies, plain, hash;
  for (int i = 0; i < 7; ++i) {
    copies.push_back(Seconds([&] { std::memcpy(copy, memory, kBytes); }));
    hash.push_back(Seconds([&] {
      checkpoint::ContentHasher hasher;
      hasher.Update({memory, kBytes});
      hasher.hashes();
    }));
    const std::string path = directory + "/plain";
    plain.push_back(Seconds([&] {
      const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0666);
      for (size_t at = 0; at < kBytes; at += 4 << 20) {
        if (write(fd, memory + at, 4 << 20) != 4 << 20) std::abort();
      }
      if (fsync(fd) != 0) std::abort();
      close(fd);
    }));
    unlink(path.c_str());
  }
  PosixFileSystem files;
  FakeCoordinator coordinator(1);
  const auto device = transport::MakeHostDeviceContext();
  CheckpointJob job{.name = "bench", .mesh = {{{"data", 1}}}};
  constexpr int kTensors = 64;
  for (size_t i = 0; i < kTensors; ++i) {
    job.tensors.push_back(
        {"t" + std::to_string(i), {DType::kF32, {kBytes / kTensors / 4}}});
    job.held.push_back(
        {i, {{0}, {kBytes / kTensors / 4}}, memory + i * (kBytes / kTensors)});
  }
  job.written = job.held;
  auto saver = Saver::Open(job, {&files, coordinator.channel(0), device.get()},
                           {.directory = directory});
  if (!saver.ok()) {
    std::fprintf(stderr, "%s\n", saver.status().ToString().c_str());
    return 1;
  }
  std::vector<double> stalls, writes, rate_alone, rate_beside, loads;
  const auto save = [&](int64_t step) {
    double stall = Seconds([&] {
      if (!(*saver)->Save({.step = step}, nullptr).ok()) std::abort();
    });
    const double write = Seconds([&] {
      if (!(*saver)->Wait().ok()) std::abort();
    });
    if (step == 0) std::printf("first stall %.4f s\n", stall);
    if (step > 0) stalls.push_back(stall), writes.push_back(write);
    absl::SleepFor(absl::Milliseconds(200));  // old ones are removed
  };
  for (int i = 0; i < 8; ++i) save(i);
  for (int i = 0; i < 5; ++i) {
    rate_alone.push_back(
        ComputeRate([] { absl::SleepFor(absl::Milliseconds(300)); }));
    absl::SleepFor(absl::Milliseconds(100));
    if (!(*saver)->Save({.step = 100 + i}, nullptr).ok()) std::abort();
    rate_beside.push_back(ComputeRate([&] { (*saver)->Wait().IgnoreError(); }));
    absl::SleepFor(absl::Milliseconds(200));
    loads.push_back(Seconds([&] {
      if (!(*saver)->Load({}).ok()) std::abort();
    }));
  }
  const double gb = kBytes / 1e9;
  std::printf("memcpy %.4f s (%.1f GB/s), hash %.4f s\n", Median(copies),
              gb / Median(copies), Median(hash));
  std::printf("stall %.4f s: %.2f of memcpy\n", Median(stalls),
              Median(stalls) / Median(copies));
  std::printf(
      "plain durable write %.3f s (%.2f GB/s), save %.3f s: rate %.2f\n",
      Median(plain), gb / Median(plain), Median(writes),
      Median(plain) / Median(writes));
  std::printf("best: plain %.3f, save %.3f: rate %.2f; compute %.3f\n",
              *std::min_element(plain.begin(), plain.end()),
              *std::min_element(writes.begin(), writes.end()),
              *std::min_element(plain.begin(), plain.end()) /
                  *std::min_element(writes.begin(), writes.end()),
              *std::max_element(rate_beside.begin(), rate_beside.end()) /
                  *std::max_element(rate_alone.begin(), rate_alone.end()));
  std::printf("compute beside a save: %.3f of alone\n",
              Median(rate_beside) / Median(rate_alone));
  std::printf("load %.3f s (%.2f GB/s)\n", Median(loads), gb / Median(loads));
  return 0;
}

}  // namespace
}  // namespace lockstep::state

int main(int argc, char** argv) {
  return lockstep::state::Main(argc > 1 ? argv[1] : ".");
}
