#include "plan/plan_json.h"

#include <bit>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "plan/plan_json_fields.h"
#include "protocol/tensor_type.h"

namespace lockstep::plan {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLineMax = 96;

// --- A plan as a tree -------------------------------------------------------

Json Tree(const std::string& value) { return value; }
Json Tree(const Mesh& mesh) { return ToString(mesh); }
Json Tree(const Revision& revision) { return revision.value; }
Json Tree(const Activation& activation) { return TypeText(activation); }
Json Tree(const TransferRef& ref) { return Json{ref.lane, ref.index}; }
Json Tree(const HaloSegment& s) { return Json{s.in, s.out, s.count, s.step}; }
Json Tree(const StateSlice& s) { return Json{s.offset, s.count}; }
Json Tree(double value) { return value; }

template <typename T>
requires std::is_integral_v<T> Json Tree(T value) { return value; }

template <typename E>
requires std::is_enum_v<E> Json Tree(E value) {
  return std::string(Name(value));
}

template <typename T>
requires json::kIsRecord<T> Json Tree(const T& record);

// Written only if it has a value.
template <typename T>
Json Tree(const std::optional<T>& value) {
  return Tree(*value);
}

template <typename T>
Json Tree(const std::vector<T>& list) {
  Json tree = Json::array();
  for (const T& element : list) tree.push_back(Tree(element));
  return tree;
}

template <typename T>
bool IsSame(const T& a, const T& b) {
  return a == b;
}
// Negative zero is not the default: a field may be padded with it.
bool IsSame(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

template <typename T>
requires json::kIsRecord<T> Json Tree(const T& record) {
  const T defaults{};
  Json tree = Json::object();
  json::Fields<T>([&](const char* name, auto member) {
    const bool told =
        json::IsTold(name) || !IsSame(record.*member, defaults.*member);
    if (told) tree[name] = Tree(record.*member);
  });
  return tree;
}

// --- A tree as lines --------------------------------------------------------

std::string Short(const Json& tree) {
  return tree.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// A tree that fits in a line is one line: a transfer, a list of ranks.
void Print(const Json& tree, int depth, std::string* out) {
  const std::string text = Short(tree);
  const bool is_long = text.size() + 2 * depth > kLineMax;
  if (!tree.is_structured() || tree.empty() || !is_long) {
    absl::StrAppend(out, text);
    return;
  }
  const std::string indent =
      absl::StrCat("\n", std::string(2 * depth + 2, ' '));
  out->push_back(tree.is_object() ? '{' : '[');
  bool first = true;
  for (const auto& [key, value] : tree.items()) {
    absl::StrAppend(out, first ? "" : ",", indent);
    if (tree.is_object()) absl::StrAppend(out, Short(key), ": ");
    Print(value, depth + 1, out);
    first = false;
  }
  absl::StrAppend(out, "\n", std::string(2 * depth, ' '));
  out->push_back(tree.is_object() ? '}' : ']');
}

}  // namespace

std::string PlanToJson(const Plan& plan) {
  std::string text;
  Print(Tree(plan), 0, &text);
  text.push_back('\n');
  return text;
}

}  // namespace lockstep::plan
