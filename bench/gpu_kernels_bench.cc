// The device kernels compared to the device's memcpy, in one run: bytes read
// and written per second, by CUDA events, medians of alternating rounds.
//
//   inputs rotate over more than 1 GiB, so that no cache serves them
//
//   kernel            GB/s   of copy   of limit
//
// The limit is the copy; for columns it is the driver's copy of the same
// columns, because memory moves more than the sectors that they touch.
//
// Exit code 1 if a kernel has less than 0.85 of the speed of its limit, 77
// without a GPU.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/device/cast_scale.h"
#include "kernels/device/finite_check.h"
#include "kernels/device/pack.h"
#include "kernels/device/reduce.h"
#include "kernels/device/scale_and_check.h"
#include "kernels/device/strided_box.h"
#include "kernels/device/verdict_gate.h"
#include "tests/gpu/device.h"

namespace lockstep::kernels {
namespace {

constexpr size_t kBytes = 256 << 20;  // per bucket
constexpr int kBuckets = 6;  // 1.5 GiB in total, and as much of tensors
constexpr int kRounds = 21;
constexpr size_t kTensors = 1000;
constexpr double kOfLimitMin = 0.85;

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2,
                   values.end());
  return values[values.size() / 2];
}

// Measures the seconds that `work` takes on the device.
class Stopwatch {
 public:
  Stopwatch() {
    gpu::Require(cudaEventCreate(&begin_), "cudaEventCreate");
    gpu::Require(cudaEventCreate(&end_), "cudaEventCreate");
  }
  ~Stopwatch() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  double Time(const std::function<void()>& work) {
    gpu::Require(cudaEventRecord(begin_), "cudaEventRecord");
    work();
    gpu::Require(cudaEventRecord(end_), "cudaEventRecord");
    gpu::Require(cudaEventSynchronize(end_), "cudaEventSynchronize");
    float milliseconds = 0;
    gpu::Require(cudaEventElapsedTime(&milliseconds, begin_, end_),
                 "cudaEventElapsedTime");
    return milliseconds / 1e3;
  }

 private:
  cudaEvent_t begin_, end_;
};

// A bucket of 1,000 f32 tensors of equal size, which are stored in `tensors`.
struct Bucket {
  Bucket() : bucket(kBytes), tensors(kBytes) {
    const size_t count = kBytes / sizeof(float) / kTensors / 16 * 16;
    for (size_t i = 0; i < kTensors; ++i) {
      slots.push_back(
          {tensors.data() + i * count * sizeof(float), i * count, count});
      ranges.push_back({i * count, count});
    }
    bytes = kTensors * count * sizeof(float);
    gpu::Require(cudaMemset(bucket.data(), 0, kBytes), "cudaMemset");
    gpu::Require(cudaMemset(tensors.data(), 0, kBytes), "cudaMemset");
  }
  gpu::Memory bucket, tensors;
  std::vector<TensorSlot> slots;
  std::vector<ElementRange> ranges;
  size_t bytes = 0;
};

struct Kernel {
  std::string name;
  double passes;  // times the bucket's bytes, read or written
  std::function<int(const Bucket&)> launch;
  // What it is judged by: the copy, or another row above.
  std::string limit = "copy";
  std::vector<double> seconds = {};
};

// From the tensors' memory to the bucket.
int CopyBox(const Bucket& b, const StridedBox& box) {
  const void* const in[] = {b.tensors.data()};
  void* const out[] = {b.bucket.data()};
  return device::CopyBoxes({&box, 1}, in, out, nullptr);
}
int AddBox(const Bucket& b, const StridedBox& box) {
  const void* const in[] = {b.tensors.data()};
  void* const out[] = {b.bucket.data()};
  return device::SumBoxes({&box, 1}, in, out, true, nullptr);
}

// `count` elements in one run, whose input begins at an offset.
StridedBox RowBox(DType dtype, int64_t count, int64_t in_offset) {
  return {.dtype = dtype,
          .dims = 1,
          .in_offset = in_offset,
          .counts = {count},
          .in_strides = {1},
          .out_strides = {1}};
}

// The inside of a field that is padded by one cell on each side: rows of bf16
// whose alignments differ from row to row.
constexpr int64_t kPadRows = 16'384, kPadColumns = 8'188;
constexpr StridedBox kPad = {.dtype = DType::kBF16,
                             .dims = 2,
                             .out_offset = 2 * (kPadColumns + 3),
                             .counts = {kPadRows - 2, kPadColumns},
                             .in_strides = {kPadColumns, 1},
                             .out_strides = {kPadColumns + 2, 1}};
constexpr double kPadBytes = 2.0 * (kPadRows - 2) * kPadColumns;

// Two columns of f32, of rows of 256 bytes: a sector of 32 bytes of each row,
// and 8 bytes of the dense side.
constexpr int64_t kColumnPitch = 64;
constexpr int64_t kColumnRows = kBytes / sizeof(float) / kColumnPitch;
constexpr double kColumnBytes = (32.0 + 8.0) * kColumnRows;
constexpr StridedBox kPackColumns = {.dims = 2,
                                     .counts = {kColumnRows, 2},
                                     .in_strides = {kColumnPitch, 1},
                                     .out_strides = {2, 1}};
constexpr StridedBox kUnpackColumns = {.dims = 2,
                                       .counts = {kColumnRows, 2},
                                       .in_strides = {2, 1},
                                       .out_strides = {kColumnPitch, 1}};

// A row that is not judged.
constexpr char kNoLimit[] = "";

// `passes`: times the bytes of a bucket's tensors.
std::vector<Kernel> BoxKernels(double bytes) {
  using B = const Bucket&;
  constexpr int64_t kFloats = kBytes / sizeof(float);
  return {
      {"box rows", 2,
       [](B b) {
         return CopyBox(
             b, RowBox(DType::kF32, static_cast<int64_t>(b.bytes / 4), 0));
       }},
      {"box rows shifted", 2,
       [](B b) {
         return CopyBox(
             b, RowBox(DType::kBF16, static_cast<int64_t>(b.bytes / 2), 2));
       }},
      {"box pad bf16", 2 * kPadBytes / bytes,
       [](B b) { return CopyBox(b, kPad); }},
      {"2D copy, pack", kColumnBytes / bytes,
       [](B b) {
         return cudaMemcpy2DAsync(b.bucket.data(), 8, b.tensors.data(),
                                  kColumnPitch * 4, 8, kColumnRows,
                                  cudaMemcpyDeviceToDevice);
       },
       kNoLimit},
      {"box columns pack", kColumnBytes / bytes,
       [](B b) { return CopyBox(b, kPackColumns); }, "2D copy, pack"},
      {"2D copy, unpack", kColumnBytes / bytes,
       [](B b) {
         return cudaMemcpy2DAsync(b.bucket.data(), kColumnPitch * 4,
                                  b.tensors.data(), 8, 8, kColumnRows,
                                  cudaMemcpyDeviceToDevice);
       },
       kNoLimit},
      {"box columns unpack", kColumnBytes / bytes,
       [](B b) { return CopyBox(b, kUnpackColumns); }, "2D copy, unpack"},
      {"box fill", kBytes / bytes,
       [](B b) {
         const BoxFill fill = {
             .dims = 1, .counts = {kFloats}, .out_strides = {1}};
         void* const out[] = {b.bucket.data()};
         return device::FillBoxes({&fill, 1}, out, nullptr);
       }},
      {"box add f32", 3 * kBytes / bytes,
       [](B b) { return AddBox(b, RowBox(DType::kF32, kFloats, 0)); }},
      {"box add bf16", 3 * kBytes / bytes,
       [](B b) { return AddBox(b, RowBox(DType::kBF16, 2 * kFloats, 0)); }},
  };
}

std::vector<Kernel> Kernels(const gpu::Memory& scratch,
                            const gpu::Memory& total,
                            const VerdictScalars* verdict) {
  using B = const Bucket&;
  constexpr size_t kFloats = kBytes / sizeof(float);
  const auto check = [&](B b, DType dtype, std::vector<ElementRange> ranges) {
    return device::AddFiniteCheck(
        b.bucket.data(), dtype, ranges, 1, scratch.data(),
        reinterpret_cast<FiniteCheck*>(total.data()), nullptr);
  };
  const auto mean = [&](B b, DType dtype, size_t count) {
    const ElementRange part[] = {{count / 8, count / 8}};
    return device::ScaleAndCheck(
        b.bucket.data(), dtype, 0.125, {0, count}, part, scratch.data(),
        reinterpret_cast<FiniteCheck*>(total.data()), nullptr);
  };
  return {
      {"copy", 2,
       [](B b) {
         return cudaMemcpyAsync(b.bucket.data(), b.tensors.data(), b.bytes,
                                cudaMemcpyDeviceToDevice);
       }},
      {"pack", 2,
       [](B b) {
         return device::Pack(b.slots, DType::kF32, b.bucket.data(), nullptr);
       }},
      {"pack scaled", 2,
       [](B b) {
         return device::PackScaled(b.slots, DType::kF32, 0.5, b.bucket.data(),
                                   nullptr);
       }},
      {"pack added", 3,
       [](B b) {
         return device::PackAdded(b.slots, DType::kF32, 0.5, b.bucket.data(),
                                  nullptr);
       }},
      {"unpack", 2,
       [](B b) {
         return device::Unpack(b.bucket.data(), b.slots, DType::kF32, nullptr);
       }},
      {"cast f32 to bf16", 1.5,
       [](B b) {
         return device::CastScale(b.tensors.data(), DType::kF32, 1,
                                  b.bucket.data(), DType::kBF16, kFloats,
                                  nullptr);
       }},
      {"cast bf16 to f32", 1.5,
       [](B b) {
         return device::CastScale(b.tensors.data(), DType::kBF16, 1,
                                  b.bucket.data(), DType::kF32, kFloats,
                                  nullptr);
       }},
      {"scale f32", 2,
       [](B b) {
         return device::Scale(b.bucket.data(), DType::kF32, 0.5, kFloats,
                              nullptr);
       }},
      {"reduce 4 rows f32", 1.25,  // each row is a quarter
       [](B b) {
         return device::ReduceRows(b.tensors.data(), 4, b.bucket.data(),
                                   kFloats / 4, DType::kF32, ReduceOp::kMax,
                                   nullptr);
       }},
      {"reduce 4 rows bf16", 1.25,
       [](B b) {
         return device::ReduceRows(b.tensors.data(), 4, b.bucket.data(),
                                   kFloats / 2, DType::kBF16, ReduceOp::kMax,
                                   nullptr);
       }},
      {"commit copy", 2,
       [verdict](B b) {
         return device::CommitCopy(verdict, b.tensors.data(), b.bucket.data(),
                                   b.bytes, nullptr);
       }},
      {"commit unpack", 2,
       [verdict](B b) {
         return device::CommitUnpack(verdict, b.bucket.data(), b.slots,
                                     DType::kF32, nullptr);
       }},
      {"finite check f32", 1,
       [check](B b) {
         return check(b, DType::kF32, {{0, kFloats}});
       }},
      {"finite check bf16", 1,
       [check](B b) {
         return check(b, DType::kBF16, {{0, 2 * kFloats}});
       }},
      {"finite check, 1000", 1,
       [check](B b) { return check(b, DType::kF32, b.ranges); }},
      // All of the bucket is scaled; one of 8 ranks checks its part.
      {"scale, check f32", 2,
       [mean](B b) { return mean(b, DType::kF32, kFloats); }},
      {"scale, check bf16", 2,
       [mean](B b) { return mean(b, DType::kBF16, 2 * kFloats); }},
  };
}

int Run() {
  std::vector<std::unique_ptr<Bucket>> buckets;
  for (int i = 0; i < kBuckets; ++i) {
    buckets.push_back(std::make_unique<Bucket>());
  }
  const ElementRange whole[] = {{0, kBytes}};
  const gpu::Memory scratch(FiniteCheckScratchBytes(whole));
  const gpu::Memory total(sizeof(FiniteCheck));
  gpu::Memory verdict(sizeof(VerdictScalars));
  const VerdictScalars allows = {.commit = 1, .finite = 1};
  verdict.Write(&allows, sizeof allows);
  std::vector<Kernel> kernels = Kernels(
      scratch, total, reinterpret_cast<const VerdictScalars*>(verdict.data()));
  for (Kernel& kernel : BoxKernels(static_cast<double>(buckets[0]->bytes))) {
    kernels.push_back(std::move(kernel));
  }
  Stopwatch stopwatch;
  for (int round = -2; round < kRounds; ++round) {
    for (Kernel& kernel : kernels) {
      const double seconds = stopwatch.Time([&] {
        for (const auto& bucket : buckets) {
          gpu::Require(kernel.launch(*bucket), kernel.name.c_str());
        }
      });
      if (round >= 0) kernel.seconds.push_back(seconds);
    }
  }
  std::printf("%-18s %9s %8s %9s\n", "kernel", "GB/s", "of copy", "of limit");
  std::map<std::string, double> speeds;
  int slow = 0;
  for (const Kernel& kernel : kernels) {
    const double moved =
        kernel.passes * static_cast<double>(buckets[0]->bytes) * kBuckets;
    const double speed = moved / Median(kernel.seconds) / 1e9;
    speeds[kernel.name] = speed;
    const double of_copy = speed / speeds.at("copy");
    if (kernel.limit == kNoLimit) {
      std::printf("%-18s %9.0f %8.2f\n", kernel.name.c_str(), speed, of_copy);
      continue;
    }
    const double of_limit = speed / speeds.at(kernel.limit);
    const bool fast = of_limit >= kOfLimitMin;
    slow += fast ? 0 : 1;
    std::printf("%-18s %9.0f %8.2f %9.2f%s\n", kernel.name.c_str(), speed,
                of_copy, of_limit, fast ? "" : "  below 0.85");
  }
  return slow == 0 ? 0 : 1;
}

}  // namespace
}  // namespace lockstep::kernels

int main() {
  const std::string why = lockstep::gpu::WhyNoGpu();
  if (!why.empty()) {
    std::printf("skipped: %s\n", why.c_str());
    return 77;
  }
  return lockstep::kernels::Run();
}
