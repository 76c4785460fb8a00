#include "kernels/box_threads.h"
#include "kernels/box_tiles.h"
#include "kernels/device/dispatch.cuh"
#include "kernels/device/lists.cuh"
#include "kernels/device/strided_box.h"

namespace lockstep::kernels::device {
namespace {

static_assert(kBoxThreads == kThreads && kBoxWarp == kWarp);

constexpr size_t kManyBoxes = 112;
static_assert(sizeof(List<TiledFill, kManyBoxes>) <= 32'764);

// The box of this block's tile. Boxes are not empty, so their first tiles
// ascend.
template <class Box, size_t kCapacity>
__device__ __forceinline__ const Box& BoxOfBlock(
    const List<Box, kCapacity>& list) {
  unsigned box = 0;
  for (unsigned end = list.size; end - box > 1;) {
    const unsigned middle = (box + end) / 2;
    if (list.items[middle].first_tile <= blockIdx.x) {
      box = middle;
    } else {
      end = middle;
    }
  }
  return list.items[box];
}

template <class Box, size_t kCapacity>
__global__ void __launch_bounds__(kThreads)
    MoveBoxes(const __grid_constant__ List<Box, kCapacity> list) {
  const Box& box = BoxOfBlock(list);
  MoveTile(box, blockIdx.x - box.first_tile, threadIdx.x);
}

template <size_t kCapacity>
__global__ void __launch_bounds__(kThreads)
    AddBoxes(const __grid_constant__ List<TiledBox, kCapacity> list, bool add) {
  const TiledBox& box = BoxOfBlock(list);
  SumTile(box, blockIdx.x - box.first_tile, threadIdx.x, add);
}

// Collects boxes and launches them: launch(list, tiles), for a short or a long
// list. Keeps the first error, after which it launches nothing.
template <class Box, class Launch>
class BoxLauncher {
 public:
  explicit BoxLauncher(Launch launch) : launch_(launch) { list_.size = 0; }

  void Add(const Box& box) {
    if (list_.size == kManyBoxes || tiles_ + box.tiles() > kBlocksMax) Flush();
    list_.items[list_.size] = box;
    list_.items[list_.size++].first_tile = static_cast<uint32_t>(tiles_);
    tiles_ += box.tiles();
  }

  Launched Finish() {
    Flush();
    return launched_;
  }

 private:
  void Flush() {
    if (list_.size > 0 && launched_ == kLaunched) {
      const auto tiles = static_cast<unsigned>(tiles_);
      launched_ =
          list_.size <= kShortList
              ? launch_(
                    ListOf<Box, kShortList>(std::span(list_.items, list_.size)),
                    tiles)
              : launch_(list_, tiles);
    }
    list_.size = 0;
    tiles_ = 0;
  }

  const Launch launch_;
  List<Box, kManyBoxes> list_;
  size_t tiles_ = 0;
  Launched launched_ = kLaunched;
};

template <class Box, class Launch>
BoxLauncher<Box, Launch> LauncherOf(Launch launch) {
  return BoxLauncher<Box, Launch>(launch);
}

// Calls f(piece) for the pieces of a box; none if it is empty.
template <class F>
void ForPiecesOf(const StridedBox& any, F f) {
  const StridedBox box = Simplified(any);
  if (!IsEmpty(box)) ForBoxPieces(box, f);
}

template <class Box>
auto MoverOn(Stream stream) {
  return LauncherOf<Box>([stream](const auto& list, unsigned tiles) {
    return LaunchKernel(MoveBoxes<Box, kItemsMaxOf<decltype(list)>>, tiles,
                        kThreads, stream, list);
  });
}

}  // namespace

Launched CopyBoxes(std::span<const StridedBox> boxes,
                   std::span<const void* const> in, std::span<void* const> out,
                   Stream stream) {
  auto launcher = MoverOn<TiledBox>(stream);
  for (const StridedBox& box : boxes) {
    ForPiecesOf(box, [&](const StridedBox& piece) {
      CheckWritesOnce(piece);
      launcher.Add(TileCopy(piece, MemoryOf(in, piece.in_memory),
                            MemoryOf(out, piece.out_memory)));
    });
  }
  return launcher.Finish();
}

Launched FillBoxes(std::span<const BoxFill> boxes, std::span<void* const> out,
                   Stream stream) {
  auto launcher = MoverOn<TiledFill>(stream);
  for (const BoxFill& fill : boxes) {
    ForPiecesOf(BoxOf(fill), [&](const StridedBox& piece) {
      CheckWritesOnce(piece);
      launcher.Add(
          TileFill(piece, fill.value, MemoryOf(out, piece.out_memory)));
    });
  }
  return launcher.Finish();
}

Launched SumBoxes(std::span<const StridedBox> boxes,
                  std::span<const void* const> in, std::span<void* const> out,
                  bool add, Stream stream) {
  auto launcher = LauncherOf<TiledBox>([=](const auto& list, unsigned tiles) {
    return LaunchKernel(AddBoxes<kItemsMaxOf<decltype(list)>>, tiles, kThreads,
                        stream, list, add);
  });
  for (const StridedBox& box : boxes) {
    ForPiecesOf(box, [&](const StridedBox& piece) {
      launcher.Add(TileSum(piece, MemoryOf(in, piece.in_memory),
                           MemoryOf(out, piece.out_memory)));
    });
  }
  return launcher.Finish();
}

}  // namespace lockstep::kernels::device
