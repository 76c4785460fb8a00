// The tensors of a conformance case, read from JSON and compared.

#ifndef LOCKSTEP_TESTS_CONFORMANCE_CASES_CASE_TENSOR_H_
#define LOCKSTEP_TESTS_CONFORMANCE_CASES_CASE_TENSOR_H_

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/tensor_type.h"

namespace lockstep::conformance {

// A tensor with its elements, row by row, as the library has them in memory.
struct CaseTensor {
  TensorType type;
  std::vector<std::byte> bytes;
};

using RankTensors = std::vector<std::vector<CaseTensor>>;  // by world rank

// `data`: the flat list of its elements. InvalidArgument for another number of
// them; exceptions of nlohmann-json for values of other kinds.
absl::StatusOr<CaseTensor> ReadTensor(TensorType type,
                                      const nlohmann::json& data);

// Empty if they are equal, by IsNear; else what is wrong: the element, and both
// values.
std::string CompareTensors(const CaseTensor& got, const CaseTensor& wanted,
                           double tolerance = 0);

}  // namespace lockstep::conformance

#endif  // LOCKSTEP_TESTS_CONFORMANCE_CASES_CASE_TENSOR_H_
