// Checkpoints of tensors that are cut into any slices, for the tests of what
// reads them.

#ifndef LOCKSTEP_TESTS_CLIENT_CHECKPOINT_CHECKPOINT_FOLDER_H_
#define LOCKSTEP_TESTS_CLIENT_CHECKPOINT_CHECKPOINT_FOLDER_H_

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/checkpoint/manifest.h"
#include "client/checkpoint/safetensors_writer.h"
#include "gtest/gtest.h"
#include "tests/client/checkpoint/checkpoint_files.h"

namespace lockstep::checkpoint {

inline uint64_t ElementsOf(const std::vector<int64_t>& shape) {
  uint64_t elements = 1;
  for (const int64_t extent : shape) elements *= extent;
  return elements;
}

inline TensorBox WholeOf(const TensorType& type) {
  return {std::vector<int64_t>(type.shape.size()), type.shape};
}

// A tensor with its contents, and the slice of each rank.
struct CutTensor {
  std::string name;
  TensorType type;
  std::vector<TensorBox> slices;
  std::string bytes =
      PatternBytes(TensorBytes(type).value(),
                   static_cast<uint32_t>(name.size() * 31 + type.shape.size()));

  // The bytes of a box, row by row.
  std::string At(const TensorBox& box) const {
    if (box.shape.empty()) return bytes;
    const size_t size = SizeOf(type.dtype);
    const uint64_t row = box.shape.back();
    std::string part;
    for (uint64_t i = 0; i < ElementsOf(box.shape); i += row) {
      uint64_t left = i, stride = 1, element = 0;
      for (size_t d = box.shape.size(); d-- > 0;) {
        element += stride * (box.begin[d] + left % box.shape[d]);
        left /= box.shape[d];
        stride *= type.shape[d];
      }
      part.append(bytes, element * size, row * size);
    }
    return part;
  }
};

// Writes FOLDER/rank-R.safetensors with slice R of each tensor, and returns the
// manifest. A rank without elements of a tensor has no slice of it.
inline Manifest WriteFolder(FileSystem* files, const std::string& folder,
                            const std::vector<CutTensor>& tensors,
                            size_t ranks) {
  EXPECT_TRUE(files->MakeDirectory(folder).ok());
  Manifest manifest{.job = "digits", .step = 20};
  for (const CutTensor& tensor : tensors) {
    manifest.tensors.push_back({.name = tensor.name, .type = tensor.type});
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    const std::string file = absl::StrCat("rank-", rank, ".safetensors");
    std::vector<std::string> contents;
    contents.reserve(tensors.size());
    std::vector<TensorToWrite> slices;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const CutTensor& tensor = tensors[i];
      if (rank >= tensor.slices.size()) continue;
      const TensorBox& box = tensor.slices[rank];
      if (ElementsOf(box.shape) == 0) continue;
      const bool is_whole = box.shape == tensor.type.shape;
      const std::string stored_as =
          is_whole ? tensor.name : absl::StrCat(tensor.name, "@", rank);
      contents.push_back(tensor.At(box));
      slices.push_back({.name = stored_as,
                        .type = {tensor.type.dtype, box.shape},
                        .pieces = FromMemory(contents.back().data())});
      manifest.tensors[i].slices.push_back({file, stored_as, box});
    }
    auto written = WriteSafetensors(files, absl::StrCat(folder, "/", file),
                                    std::move(slices));
    EXPECT_TRUE(written.ok()) << written.status();
    manifest.files.push_back({file, written->hashes});
  }
  EXPECT_EQ(Validate(manifest), absl::OkStatus());
  return manifest;
}

// Positions that cut 0..extent into `parts` parts, some of them empty.
inline std::vector<int64_t> RandomCuts(int64_t extent, int parts,
                                       std::mt19937_64* random) {
  std::vector<int64_t> cuts = {0, extent};
  for (int i = 1; i < parts; ++i) cuts.push_back((*random)() % (extent + 1));
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

// `ranks` boxes that fill the shape: a grid over one or two dimensions, with
// parts of different sizes. A scalar is on rank 0.
inline std::vector<TensorBox> RandomSlices(const TensorType& type, int ranks,
                                           std::mt19937_64* random) {
  const TensorBox whole = WholeOf(type);
  const size_t dimensions = type.shape.size();
  if (dimensions == 0) return {whole};
  const size_t a = (*random)() % dimensions, b = (*random)() % dimensions;
  int rows = 1;
  if (a != b) {
    do {
      rows = 1 + (*random)() % ranks;
    } while (ranks % rows != 0);
  }
  const int columns = ranks / rows;
  const auto a_cuts = RandomCuts(type.shape[a], rows, random);
  const auto b_cuts = RandomCuts(type.shape[b], columns, random);
  std::vector<TensorBox> boxes;
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) {
      TensorBox box = whole;
      if (a != b) {
        box.begin[a] = a_cuts[r];
        box.shape[a] = a_cuts[r + 1] - a_cuts[r];
      }
      box.begin[b] = b_cuts[c];
      box.shape[b] = b_cuts[c + 1] - b_cuts[c];
      boxes.push_back(std::move(box));
    }
  }
  return boxes;
}

}  // namespace lockstep::checkpoint

#endif  // LOCKSTEP_TESTS_CLIENT_CHECKPOINT_CHECKPOINT_FOLDER_H_
