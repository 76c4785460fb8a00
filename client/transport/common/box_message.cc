#include "client/transport/common/box_message.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace lockstep::transport {
namespace {

int64_t ElementsOf(const MessageBox& box) {
  int64_t elements = 1;
  for (int d = 0; d < box.dims; ++d) elements *= box.counts[d];
  return elements;
}

// Elements from the first one on that are contiguous in memory.
int64_t RunOf(const MessageBox& box) {
  int64_t run = 1;
  for (int d = box.dims; d > 0 && box.strides[d - 1] == run; --d) {
    run *= box.counts[d - 1];
  }
  return run;
}

void AddReach(const MessageBox& box, std::vector<MemoryReach>* reaches) {
  int64_t begin = 0, end = 0;
  Check(ReachOf(box, &begin, &end), "a box cannot be addressed");
  for (MemoryReach& reach : *reaches) {
    if (reach.memory != box.memory) continue;
    reach.begin = std::min(reach.begin, begin);
    reach.end = std::max(reach.end, end);
    return;
  }
  reaches->push_back({box.memory, begin, end});
}

}  // namespace

BoxMessage MakeBoxMessage(std::vector<MessageBox> boxes,
                          std::vector<kernels::StridedBox> copies,
                          int64_t bytes) {
  BoxMessage made{
      .boxes = std::move(boxes), .copies = std::move(copies), .bytes = bytes};
  int64_t all = 0, runs = 0;
  for (const MessageBox& box : made.boxes) {
    AddReach(box, &made.reaches);
    made.memories =
        std::max(made.memories, static_cast<size_t>(box.memory) + 1);
    const int64_t elements = ElementsOf(box);
    all += elements * static_cast<int64_t>(SizeOf(box.dtype));
    runs += elements / RunOf(box);
  }
  made.run_bytes = runs == 0 ? 0 : all / runs;
  return made;
}

bool ReachOf(const MessageBox& box, int64_t* begin, int64_t* end) {
  const auto size = static_cast<int64_t>(SizeOf(box.dtype));
  *begin = box.offset;
  int64_t last = box.offset;
  for (int d = 0; d < box.dims; ++d) {
    int64_t step = 0;
    if (box.counts[d] < 1 ||
        __builtin_mul_overflow(box.counts[d] - 1, box.strides[d], &step) ||
        __builtin_mul_overflow(step, size, &step)) {
      return false;
    }
    int64_t* const side = step < 0 ? begin : &last;
    if (__builtin_add_overflow(*side, step, side)) return false;
  }
  return !__builtin_add_overflow(last, size, end);
}

}  // namespace lockstep::transport
