#include "tools/perf/options.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/command_line.h"
#include "tools/perf/halo_operation.h"
#include "tools/perf/operation.h"

namespace lockstep::perf {
namespace {

// "1K", "256M", "8G", "100": powers of 1024.
std::string ReadSize(const std::string& text, size_t* bytes) {
  size_t end = 0;
  unsigned long long number = 0;
  try {
    number = std::stoull(text, &end);
  } catch (const std::exception&) {
    end = 0;
  }
  const std::string unit = text.substr(end);
  const size_t shift = unit.empty()                 ? 0
                       : unit == "K" || unit == "k" ? 10
                       : unit == "M" || unit == "m" ? 20
                       : unit == "G" || unit == "g" ? 30
                                                    : 64;
  if (end == 0 || text[0] == '-' || shift == 64 ||
      number >> (63 - shift) != 0) {
    return "'" + text + "' is no size such as 100, 8K, 256M or 1G";
  }
  *bytes = static_cast<size_t>(number) << shift;
  return "";
}

// The format that ReadSize parses.
std::string SizeText(size_t bytes) {
  for (const auto& [unit, shift] : {std::pair{"G", 30}, {"M", 20}, {"K", 10}}) {
    if (bytes > 0 && bytes % (size_t{1} << shift) == 0) {
      return std::to_string(bytes >> shift) + unit;
    }
  }
  return std::to_string(bytes);
}

CommandLineOption AddSize(const CommandLine& line, const std::string& names,
                          size_t* bytes, const std::string& what) {
  const auto read = [bytes](const std::string& text) {
    return ReadSize(text, bytes);
  };
  return line.Add(names, read, what);
}

// Accepts only names in `all`.
template <typename T>
CommandLineOption AddNamed(const CommandLine& line, const std::string& names,
                           const std::map<std::string, T>& all, T* value,
                           const std::string& what) {
  std::vector<std::string> words;
  std::string present;
  for (const auto& [word, one] : all) {
    words.push_back(word);
    if (one == *value) present = word;
  }
  const auto read = [&all, value](const std::string& word) {
    const auto found = all.find(word);
    if (found != all.end()) *value = found->second;
    return std::string();  // OneOf refuses the others
  };
  return line.Add(names, read, what).OneOf(words).ShowDefault(present);
}

const std::map<std::string, DType>& DTypes() {
  static const auto* const types = new std::map<std::string, DType>{
      {"int8", DType::kI8},   {"uint8", DType::kU8},
      {"int32", DType::kI32}, {"uint32", DType::kU32},
      {"int64", DType::kI64}, {"uint64", DType::kU64},
      {"half", DType::kF16},  {"bfloat16", DType::kBF16},
      {"float", DType::kF32}, {"double", DType::kF64}};
  return *types;
}

const std::map<std::string, ReduceOp>& ReduceOps() {
  static const auto* const ops =
      new std::map<std::string, ReduceOp>{{"sum", ReduceOp::kSum},
                                          {"prod", ReduceOp::kProd},
                                          {"min", ReduceOp::kMin},
                                          {"max", ReduceOp::kMax},
                                          {"avg", ReduceOp::kMean}};
  return *ops;
}

const std::map<std::string, HaloEdge>& Edges() {
  static const auto* const edges = [] {
    auto* all = new std::map<std::string, HaloEdge>;
    for (const HaloEdge edge : kAllHaloEdges) {
      if (edge != HaloEdge::kConstant) all->emplace(Name(edge), edge);
    }
    return all;
  }();
  return *edges;
}

// Describes a conflict between options that are valid one by one.
std::string Contradiction(const PerfOptions& options) {
  if (!ParseExtents(options.shape)) {
    return "--shape '" + options.shape + "' is no field such as 1024x1024";
  }
  if (WidthsOf(options).empty()) {
    return "--width '" + options.width + "' is no number such as 1, and no " +
           "number for each dimension of " + options.shape;
  }
  if (IsHaloOperation(options.op) && BlocksOf(options).empty()) {
    return "--cut '" + options.cut + "' does not divide " + options.shape +
           " among " + std::to_string(options.ranks) + " ranks";
  }
  if (options.max_bytes < options.min_bytes) {
    return "-e is smaller than -b";
  }
  if (options.Sizes().empty()) {
    return "no size from -b to -e holds an element of each rank: that takes " +
           std::to_string(LeastBytes(options)) + " bytes";
  }
  if (options.root >= options.ranks) return "-r is no rank";
  if (options.redop == ReduceOp::kMean && !IsFloat(options.dtype)) {
    return "the avg of integers is not defined";
  }
  if (options.op == "sendrecv" && options.ranks < 2) {
    return "sendrecv needs two ranks";
  }
  const bool hierarchical = options.transport == "hierarchical";
  if (options.hosts > 0 && !hierarchical && options.transport != "auto") {
    return "--hosts is for --transport auto and hierarchical";
  }
  if (options.hosts > options.ranks) return "--hosts is more than --ranks";
  if (hierarchical && (options.hosts < 2 || options.hosts == options.ranks)) {
    return "hierarchical needs two hosts, and one with two ranks";
  }
  return "";
}

}  // namespace

std::vector<size_t> PerfOptions::Sizes() const {
  if (op == "barrier" || IsHaloOperation(op)) return {0};  // one size
  std::vector<size_t> sizes;
  const size_t least = LeastBytes(*this);
  for (size_t bytes = min_bytes; bytes <= max_bytes;) {
    if (bytes >= least) sizes.push_back(bytes);
    const size_t next = step_bytes > 0 ? bytes + step_bytes
                                       : bytes * static_cast<size_t>(factor);
    if (next <= bytes) break;
    bytes = next;
  }
  return sizes;
}

bool Parse(int argc, char** argv, PerfOptions* options, int* exit_code) {
  PerfOptions& o = *options;
  CommandLine line(
      "Measures and checks a collective operation between processes "
      "of this machine, as nccl-tests do.",
      "lockstep-perf");
  line.Add("OP", &o.op, "what to measure").Required().OneOf(OperationNames());
  AddSize(line, "-b,--minbytes", &o.min_bytes, "smallest size")
      .ShowDefault(SizeText(o.min_bytes));
  AddSize(line, "-e,--maxbytes", &o.max_bytes, "largest size")
      .ShowDefault(SizeText(o.max_bytes));
  AddSize(line, "-i,--stepbytes", &o.step_bytes,
          "step between sizes, in place of a factor");
  line.Add("-f,--stepfactor", &o.factor, "factor between sizes")
      .Between(2, 1 << 20)
      .ShowDefault();
  line.Add("-n,--iters", &o.iterations, "timed iterations")
      .Between(1, 1 << 30)
      .ShowDefault();
  line.Add("-w,--warmup_iters", &o.warmup, "iterations before those")
      .Between(0, 1 << 30)
      .ShowDefault();
  AddNamed(line, "-d,--datatype", DTypes(), &o.dtype, "of the elements");
  AddNamed(line, "-o,--op", ReduceOps(), &o.redop, "of reductions");
  line.Add("-r,--root", &o.root, "of broadcasts").NotNegative().ShowDefault();
  line.Add("--shape", &o.shape, "halo: the whole field").ShowDefault();
  line.Add("--width", &o.width,
           "halo: cells on each side of a block, in all dimensions or as 0x1")
      .ShowDefault();
  line.Add("--cut", &o.cut,
           "halo: blocks in each dimension, as 2x2; else as equal as possible");
  AddNamed(line, "--edge", Edges(), &o.edge, "halo: of the field");
  line.Add("--ranks", &o.ranks, "processes to start")
      .Between(1, 64)
      .ShowDefault();
  line.Add("--transport", &o.transport, "how they are connected")
      .OneOf({"auto", "shm", "gloo", "hierarchical", "nccl"})
      .ShowDefault();
  line.Add("--hosts", &o.hosts,
           "with auto and hierarchical: how many hosts the ranks pretend "
           "to run on (hierarchical: 2)")
      .Between(1, 64);
  line.AddFlag("--arena", &o.arena, "buffers in the arena, not private");
  line.Add("--bind", &o.bind,
           "core: each rank gets a share of the cores; none: the system "
           "places them")
      .OneOf({"core", "none"})
      .ShowDefault();
  line.Add("--json", &o.json, "write the rows to this file");
  if (const std::optional<int> code = line.Parse(argc, argv)) {
    *exit_code = *code;
    return false;
  }
  if (o.transport == "hierarchical" && o.hosts == 0) o.hosts = 2;
  if (const std::string wrong = Contradiction(o); !wrong.empty()) {
    *exit_code = line.Refuse(wrong);
    return false;
  }
  return true;
}

}  // namespace lockstep::perf
