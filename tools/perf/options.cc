#include "tools/perf/options.h"

#include <map>

#include "CLI/CLI.hpp"
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

CLI::Option* AddSize(CLI::App& app, const std::string& names, size_t* bytes,
                     const std::string& what) {
  return app.add_option_function<std::string>(
      names,
      [names, bytes](const std::string& text) {
        const std::string wrong = ReadSize(text, bytes);
        if (!wrong.empty()) throw CLI::ValidationError(names, wrong);
      },
      what);
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

// What is wrong with options that are right one by one.
std::string Contradiction(const Options& options) {
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

std::vector<size_t> Options::Sizes() const {
  if (op == "barrier") return {0};
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

bool Parse(int argc, char** argv, Options* options, int* exit_code) {
  Options& o = *options;
  CLI::App app(
      "Measures and checks a collective operation between processes "
      "of this machine, as nccl-tests do.",
      "lockstep-perf");
  app.add_option("OP", o.op, "what to measure")
      ->required()
      ->check(CLI::IsMember(OperationNames()));
  AddSize(app, "-b,--minbytes", &o.min_bytes, "smallest size (32M)");
  AddSize(app, "-e,--maxbytes", &o.max_bytes, "largest size (32M)");
  AddSize(app, "-i,--stepbytes", &o.step_bytes,
          "step between sizes, in place of a factor");
  app.add_option("-f,--stepfactor", o.factor, "factor between sizes")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  app.add_option("-n,--iters", o.iterations, "timed iterations")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  app.add_option("-w,--warmup_iters", o.warmup, "iterations before those")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  app.add_option("-d,--datatype", o.dtype, "of the elements (float)")
      ->transform(CLI::CheckedTransformer(DTypes()));
  app.add_option("-o,--op", o.redop, "of reductions (sum)")
      ->transform(CLI::CheckedTransformer(ReduceOps()));
  app.add_option("-r,--root", o.root, "of broadcasts")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--ranks", o.ranks, "processes to start")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--transport", o.transport, "how they are connected")
      ->check(CLI::IsMember({"auto", "shm", "gloo", "hierarchical", "nccl"}))
      ->capture_default_str();
  app.add_option("--hosts", o.hosts,
                 "with auto and hierarchical: how many hosts the ranks pretend "
                 "to run on (hierarchical: 2)")
      ->check(CLI::Range(1, 64));
  app.add_flag("--arena", o.arena, "buffers in the arena, not private");
  app.add_option("--json", o.json, "write the rows to this file");
  try {
    app.parse(argc, argv);
    if (o.transport == "hierarchical" && o.hosts == 0) o.hosts = 2;
    if (const std::string wrong = Contradiction(o); !wrong.empty()) {
      throw CLI::ValidationError("lockstep-perf", wrong);
    }
  } catch (const CLI::ParseError& error) {
    *exit_code = app.exit(error) == 0 ? 0 : 2;
    return false;
  }
  return true;
}

}  // namespace lockstep::perf
