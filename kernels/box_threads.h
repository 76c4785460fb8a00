// What one thread of a device does for a tile of a strided box: kernels/device/
// strided_box.cu runs it on a device, and a test on the host, thread by thread.
// There are no warp operations and no shared memory.
//
//   row, `out` aligned, `in` not:     in  |..abcdefgh|ijklmnop|
//   a vector of `out` is shifted           low ↘   ↙ high
//   together of two of `in`           out      |abcdefghij|
//
// Internal to kernels/.

#ifndef LOCKSTEP_KERNELS_BOX_THREADS_H_
#define LOCKSTEP_KERNELS_BOX_THREADS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/any_element.h"
#include "kernels/box_tiles.h"
#include "kernels/host_device.h"

namespace lockstep::kernels {

// Words of any type's bytes.
template <class Part, int kParts>
struct alignas(sizeof(Part) * kParts) [[gnu::may_alias]] BoxWord {
  Part part[kParts];
};
using BoxVector = BoxWord<uint32_t, 4>;

template <class T>
LOCKSTEP_HD T& As(std::byte* at) {
  return *reinterpret_cast<T*>(at);
}
template <class T>
LOCKSTEP_HD const T& As(const std::byte* at) {
  return *reinterpret_cast<const T*>(at);
}

// Calls f(word) with a word of 2^log2 bytes.
template <class F>
LOCKSTEP_HD void WithBoxWord(unsigned log2, F f) {
  switch (log2) {
    case 0: return f(BoxWord<uint8_t, 1>{});
    case 1: return f(BoxWord<uint16_t, 1>{});
    case 2: return f(BoxWord<uint32_t, 1>{});
    case 3: return f(BoxWord<uint32_t, 2>{});
    default: return f(BoxVector{});
  }
}

// --- words ------------------------------------------------------------------

template <class Word>
LOCKSTEP_HD Word WordAt(const TiledBox& box, const BoxPlace& place) {
  return As<Word>(box.in + place.in);
}
template <class Word>
LOCKSTEP_HD Word WordAt(const TiledFill& fill, const BoxPlace& place) {
  return As<Word>(fill.value + place.first * sizeof(Word) % sizeof(BoxVector));
}

// All loads are issued before the first store waits for one.
template <class Word, class Box>
LOCKSTEP_HD void MoveWords(const Box& box, uint32_t tile, uint32_t thread) {
  Word words[kPerBoxThread];
  std::byte* to[kPerBoxThread];
  LOCKSTEP_UNROLL
  for (uint32_t k = 0; k < kPerBoxThread; ++k) {
    const uint32_t item = (tile * kPerBoxThread + k) * kBoxThreads + thread;
    to[k] = nullptr;
    if (item >= box.items) continue;
    const BoxPlace place = PlaceOf(box, item);
    words[k] = WordAt<Word>(box, place);
    to[k] = box.out + place.out;
  }
  LOCKSTEP_UNROLL
  for (uint32_t k = 0; k < kPerBoxThread; ++k) {
    if (to[k] != nullptr) As<Word>(to[k]) = words[k];
  }
}

// --- rows -------------------------------------------------------------------

// Bytes [shift, shift + 16) of `low` and `high`, one after the other.
LOCKSTEP_HD BoxVector Shifted(const BoxVector& low, const BoxVector& high,
                              uint32_t shift) {
  uint32_t parts[8];
  LOCKSTEP_UNROLL
  for (int i = 0; i < 4; ++i) {
    parts[i] = low.part[i];
    parts[4 + i] = high.part[i];
  }
  const bool by_two = (shift & 8) != 0, by_one = (shift & 4) != 0;
  LOCKSTEP_UNROLL
  for (int i = 0; i < 6; ++i) parts[i] = by_two ? parts[i + 2] : parts[i];
  LOCKSTEP_UNROLL
  for (int i = 0; i < 5; ++i) parts[i] = by_one ? parts[i + 1] : parts[i];
  BoxVector shifted;
  LOCKSTEP_UNROLL
  for (int i = 0; i < 4; ++i) {
    const uint64_t both = static_cast<uint64_t>(parts[i + 1]) << 32 | parts[i];
    shifted.part[i] = static_cast<uint32_t>(both >> shift % 4 * 8);
  }
  return shifted;
}

// Where a chunk's bytes come from; `word` counts words of the chunk.
template <class Word>
struct ChunkSource {
  const std::byte* from;       // of the chunk
  const std::byte* run_begin;  // nothing outside the run is read
  const std::byte* run_end;

  LOCKSTEP_HD Word One(uint32_t word) const {
    return As<Word>(from + word * sizeof(Word));
  }
  LOCKSTEP_HD BoxVector Vector(uint32_t word) const {
    const std::byte* const at = from + word * sizeof(Word);
    if constexpr (sizeof(Word) == sizeof(BoxVector)) return As<BoxVector>(at);
    const auto past = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(at) %
                                            sizeof(BoxVector));
    if (past == 0) return As<BoxVector>(at);
    const std::byte* const low = at - past;
    if (low >= run_begin && low + 2 * sizeof(BoxVector) <= run_end) {
      return Shifted(As<BoxVector>(low), As<BoxVector>(low + sizeof(BoxVector)),
                     past);
    }
    return Gathered(word);
  }

 private:
  LOCKSTEP_HD BoxVector Gathered(uint32_t word) const {
    constexpr uint32_t kWords = sizeof(BoxVector) / sizeof(Word);
    Word words[kWords];
    LOCKSTEP_UNROLL
    for (uint32_t i = 0; i < kWords; ++i) words[i] = One(word + i);
    BoxVector vector;
    memcpy(&vector, words, sizeof vector);
    return vector;
  }
};

// Chunks begin at multiples of 16 bytes of the run, so a fill's value does too.
template <class Word>
struct ChunkFill {
  const std::byte* value;

  LOCKSTEP_HD Word One(uint32_t word) const {
    return As<Word>(value + word * sizeof(Word) % sizeof(BoxVector));
  }
  LOCKSTEP_HD BoxVector Vector(uint32_t word) const {
    const auto& all = As<BoxVector>(value);
    return Shifted(all, all, word * sizeof(Word) % sizeof(BoxVector));
  }
};

template <class Word>
LOCKSTEP_HD ChunkSource<Word> SourceOf(const TiledBox& box,
                                       const BoxPlace& place) {
  const std::byte* const from = box.in + place.in;
  const std::byte* const begin = from - size_t{place.first} * kBoxChunk;
  return {from, begin, begin + box.run_bytes};
}
template <class Word>
LOCKSTEP_HD ChunkFill<Word> SourceOf(const TiledFill& fill, const BoxPlace&) {
  return {fill.value};
}

// The words before the first boundary of 16 bytes of `out` and those after the
// last one, a lane each; the vectors between them, kPerBoxThread for each lane.
template <class Word, class Box>
LOCKSTEP_HD void MoveChunk(const Box& box, uint32_t item, uint32_t lane) {
  constexpr uint32_t kWords = sizeof(BoxVector) / sizeof(Word);
  const BoxPlace place = PlaceOf(box, item);
  const auto source = SourceOf<Word>(box, place);
  std::byte* const to = box.out + place.out;

  const uint32_t rest = box.run_bytes - place.first * kBoxChunk;
  const uint32_t words = (rest < kBoxChunk ? rest : kBoxChunk) / sizeof(Word);
  const auto past = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(to) %
                                          sizeof(BoxVector));
  const uint32_t to_boundary =
      (sizeof(BoxVector) - past) / sizeof(Word) % kWords;
  const uint32_t head = to_boundary < words ? to_boundary : words;
  const uint32_t vectors = (words - head) / kWords;
  const uint32_t tail = head + vectors * kWords;

  BoxVector moved[kPerBoxThread];
  LOCKSTEP_UNROLL
  for (uint32_t k = 0; k < kPerBoxThread; ++k) {
    const uint32_t vector = k * kBoxWarp + lane;
    if (vector < vectors) moved[k] = source.Vector(head + vector * kWords);
  }
  LOCKSTEP_UNROLL
  for (uint32_t k = 0; k < kPerBoxThread; ++k) {
    const uint32_t vector = k * kBoxWarp + lane;
    if (vector >= vectors) continue;
    As<BoxVector>(to + head * sizeof(Word) + vector * sizeof(BoxVector)) =
        moved[k];
  }
  if (lane < head) As<Word>(to + lane * sizeof(Word)) = source.One(lane);
  if (tail + lane < words) {
    As<Word>(to + (tail + lane) * sizeof(Word)) = source.One(tail + lane);
  }
}

// Copies or fills the part of a thread in a tile of the box.
template <class Box>
LOCKSTEP_HD void MoveTile(const Box& box, uint32_t tile, uint32_t thread) {
  WithBoxWord(box.word_log2, [&](auto word) {
    using Word = decltype(word);
    if (box.item == TiledBox::Item::kWords) {
      return MoveWords<Word>(box, tile, thread);
    }
    const uint32_t item = tile * (kBoxThreads / kBoxWarp) + thread / kBoxWarp;
    if (item < box.items) MoveChunk<Word>(box, item, thread % kBoxWarp);
  });
}

// --- sums -------------------------------------------------------------------

template <class T, uint32_t kLength>
struct alignas(sizeof(T) * kLength) SumVector {
  T element[kLength];
};
template <class T>
struct SumVector<T, 1> {
  T element[1];
};

template <class T>
LOCKSTEP_HD Wide<T> Added(Wide<T> sum, Wide<T> value) {
  if constexpr (std::is_same_v<T, Bool>) {
    return Larger(sum, value);
  } else {
    return Sum(sum, value);
  }
}

template <class T, uint32_t kLength>
LOCKSTEP_HD void SumItem(const TiledBox& box, uint32_t item, bool add) {
  using Elements = SumVector<T, kLength>;
  const BoxPlace place = PlaceOf(box, item);
  const std::byte* const from = box.in + place.in;
  auto& out = As<Elements>(box.out + place.out);

  const Elements first = add ? out : As<Elements>(from);
  Wide<T> sum[kLength];
  LOCKSTEP_UNROLL
  for (uint32_t i = 0; i < kLength; ++i) sum[i] = ToWide(first.element[i]);
  for (uint32_t s = add ? 0 : 1; s < box.summands; ++s) {
    const Elements next = As<Elements>(from + SummandOf(box, s));
    LOCKSTEP_UNROLL
    for (uint32_t i = 0; i < kLength; ++i) {
      sum[i] = Added<T>(sum[i], ToWide(next.element[i]));
    }
  }
  Elements rounded;
  LOCKSTEP_UNROLL
  for (uint32_t i = 0; i < kLength; ++i) {
    rounded.element[i] = FromWide<T>(sum[i]);
  }
  out = rounded;
}

template <class T>
LOCKSTEP_HD void SumTileOf(const TiledBox& box, uint32_t tile, uint32_t thread,
                           bool add) {
  for (uint32_t k = 0; k < kPerBoxThread; ++k) {
    const uint32_t item = (tile * kPerBoxThread + k) * kBoxThreads + thread;
    if (item >= box.items) return;
    if (box.vectors) {
      SumItem<T, 16 / sizeof(T)>(box, item, add);
    } else {
      SumItem<T, 1>(box, item, add);
    }
  }
}

// Sums the outputs of a thread in a tile of the box.
LOCKSTEP_HD void SumTile(const TiledBox& box, uint32_t tile, uint32_t thread,
                         bool add) {
  switch (box.dtype) {
    case DType::kU8: return SumTileOf<uint8_t>(box, tile, thread, add);
    case DType::kI8: return SumTileOf<int8_t>(box, tile, thread, add);
    case DType::kI32: return SumTileOf<int32_t>(box, tile, thread, add);
    case DType::kU32: return SumTileOf<uint32_t>(box, tile, thread, add);
    case DType::kI64: return SumTileOf<int64_t>(box, tile, thread, add);
    case DType::kU64: return SumTileOf<uint64_t>(box, tile, thread, add);
    case DType::kF16: return SumTileOf<F16>(box, tile, thread, add);
    case DType::kBF16: return SumTileOf<BF16>(box, tile, thread, add);
    case DType::kF32: return SumTileOf<float>(box, tile, thread, add);
    case DType::kF64: return SumTileOf<double>(box, tile, thread, add);
    case DType::kI16: return SumTileOf<int16_t>(box, tile, thread, add);
    case DType::kU16: return SumTileOf<uint16_t>(box, tile, thread, add);
    case DType::kBool: return SumTileOf<Bool>(box, tile, thread, add);
    case DType::kC64: return SumTileOf<Complex<float>>(box, tile, thread, add);
    case DType::kC128:
      return SumTileOf<Complex<double>>(box, tile, thread, add);
    case DType::kF8E4M3: return SumTileOf<F8E4M3>(box, tile, thread, add);
    case DType::kF8E5M2: return SumTileOf<F8E5M2>(box, tile, thread, add);
  }
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_BOX_THREADS_H_
