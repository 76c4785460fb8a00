// Writes and reads safetensors files for safetensors_test.py.
//
//   safetensors_peer write SPEC FILE     SPEC: a file with
//       {"metadata": {"k": "v"}, "tensors": [
//           {"name": "w", "dtype": "f32", "shape": [2], "contents": PATH}]}
//     prints {"data_begin": N, "hashes": {"bytes", "file", "blocks"}}
//   safetensors_peer read FILE FOLDER    each tensor's bytes into FOLDER/NUMBER
//     prints {"metadata", "tensors": [{"name", "dtype", "shape"}]}
//   safetensors_peer judge FILE ...      prints "ok" or the error, a line each
//
// Errors are printed to stderr; the exit status is then 1.

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/absl_view.h"
#include "base/file_system.h"
#include "client/checkpoint/safetensors_reader.h"
#include "client/checkpoint/safetensors_writer.h"

namespace lockstep::checkpoint {
namespace {

using Json = nlohmann::json;

absl::StatusOr<Json> Write(const std::string& spec_path,
                           const std::string& path) {
  PosixFileSystem files;
  const auto text = ReadWhole(&files, spec_path);
  if (!text.ok()) return text.status();
  const Json spec = Json::parse(*text);
  std::vector<std::string> contents;
  std::vector<TensorToWrite> tensors;
  for (const Json& tensor : spec.at("tensors")) {
    auto bytes = ReadWhole(&files, tensor.at("contents"));
    if (!bytes.ok()) return bytes.status();
    contents.push_back(*std::move(bytes));
    const auto dtype = ParseDType(tensor.at("dtype").get<std::string>());
    if (!dtype.has_value()) return absl::InvalidArgumentError("dtype");
    tensors.push_back(
        {.name = tensor.at("name"), .type = {*dtype, tensor.at("shape")}});
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].pieces = FromMemory(contents[i].data());
  }
  const auto written =
      WriteSafetensors(&files, path, tensors, spec.at("metadata"));
  if (!written.ok()) return written.status();
  Json blocks = Json::array();
  for (const uint64_t block : written->hashes.blocks) {
    blocks.push_back(absl::StrFormat("%016x", block));
  }
  return Json{{"data_begin", written->data_begin},
              {"hashes",
               {{"bytes", written->hashes.bytes},
                {"file", written->hashes.file},
                {"blocks", blocks}}}};
}

absl::StatusOr<Json> Read(const std::string& path, const std::string& folder) {
  PosixFileSystem files;
  auto reader =
      SafetensorsReader::Open(&files, path, {.check = HashCheck::kOff});
  if (!reader.ok()) return reader.status();
  Json tensors = Json::array();
  for (const StoredTensor& tensor : (*reader)->header().tensors) {
    std::string bytes(tensor.bytes(), '\0');
    absl::Status status =
        (*reader)->Read(tensor, 0, bytes.size(), bytes.data());
    if (status.ok()) {
      status =
          PublishFile(&files, absl::StrCat(folder, "/", tensors.size()), bytes);
    }
    if (!status.ok()) return status;
    tensors.push_back({{"name", tensor.name},
                       {"dtype", Name(tensor.type.dtype)},
                       {"shape", tensor.type.shape}});
  }
  return Json{{"metadata", (*reader)->header().metadata}, {"tensors", tensors}};
}

void Judge(const std::string& path) {
  PosixFileSystem files;
  const auto reader =
      SafetensorsReader::Open(&files, path, {.check = HashCheck::kOff});
  std::puts(reader.ok() ? "ok"
                        : std::string(reader.status().message()).c_str());
}

int Run(const std::vector<std::string>& arguments) {
  if (arguments.size() > 1 && arguments[0] == "judge") {
    for (size_t i = 1; i < arguments.size(); ++i) Judge(arguments[i]);
    return 0;
  }
  if (arguments.size() != 3) return 2;
  const auto answer = arguments[0] == "write"
                          ? Write(arguments[1], arguments[2])
                          : Read(arguments[1], arguments[2]);
  if (answer.ok()) return std::puts(answer->dump().c_str()), 0;
  return std::fprintf(stderr, "%s\n", answer.status().ToString().c_str()), 1;
}

}  // namespace
}  // namespace lockstep::checkpoint

int main(int argc, char** argv) {
  return lockstep::checkpoint::Run({argv + 1, argv + argc});
}
