// A reduction in parts is bit-equal to one in a single call.

#include "kernels/partial_reduce.h"

#include <vector>

#include "gtest/gtest.h"
#include "kernels/reduce.h"
#include "tests/conformance/values.h"

namespace lockstep::kernels {
namespace {

using conformance::Draw;
using conformance::Input;
using conformance::OpsOf;
using conformance::Values;

constexpr size_t kCount = 3 * 1024 + 7;  // one tile is not full

std::vector<const void*> RowsOf(const std::vector<Values>& values, size_t begin,
                                size_t end) {
  std::vector<const void*> rows;
  for (size_t i = begin; i < end; ++i) rows.push_back(values[i].data());
  return rows;
}

TEST(PartialReduceTest, HasTheBitsOfTheWholeWhereverItIsCut) {
  for (DType dtype : kTransportDTypes) {
    for (ReduceOp op : OpsOf(dtype)) {
      std::vector<Values> inputs;
      for (int rank = 0; rank < 7; ++rank) {
        inputs.push_back(Input(dtype, kCount, Draw::kWild, 1, rank));
      }
      Values whole(dtype, kCount);
      ReduceRanks(RowsOf(inputs, 0, 7), whole.data(), kCount, dtype, op);
      for (size_t cut = 1; cut < 6; ++cut) {
        Values partial(PartialTypeOf(dtype), kCount);
        Values out(dtype, kCount);
        ReduceToPartial(nullptr, RowsOf(inputs, 0, cut), partial.data(), kCount,
                        dtype, op);
        // A part of one rank, in place.
        ReduceToPartial(partial.data(), RowsOf(inputs, cut, cut + 1),
                        partial.data(), kCount, dtype, op);
        ReduceFromPartial(partial.data(), RowsOf(inputs, cut + 1, 7),
                          out.data(), kCount, dtype, op, 7);
        EXPECT_TRUE(out == whole)
            << Name(dtype) << " " << Name(op) << " after " << cut;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
