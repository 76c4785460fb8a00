#include "client/transport/nccl/nccl_library.h"

#include <dlfcn.h>
#include <glob.h>

#include <cstdlib>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/transport/nccl/nccl_functions.h"

namespace lockstep::transport::nccl {
namespace {

// False if the library lacks the function.
template <typename F>
bool Find(void* library, const char* name, F** function) {
  *function = reinterpret_cast<F*>(dlsym(library, name));
  return *function != nullptr;
}

bool FindAll(void* library, NcclFunctions* f) {
  return Find(library, "ncclGetVersion", &f->GetVersion) &&
         Find(library, "ncclGetErrorString", &f->GetErrorString) &&
         Find(library, "ncclGetLastError", &f->GetLastError) &&
         Find(library, "ncclGetUniqueId", &f->GetUniqueId) &&
         Find(library, "ncclCommInitRankConfig", &f->CommInitRankConfig) &&
         Find(library, "ncclCommGetAsyncError", &f->CommGetAsyncError) &&
         Find(library, "ncclCommFinalize", &f->CommFinalize) &&
         Find(library, "ncclCommDestroy", &f->CommDestroy) &&
         Find(library, "ncclCommAbort", &f->CommAbort) &&
         Find(library, "ncclGroupStart", &f->GroupStart) &&
         Find(library, "ncclGroupEnd", &f->GroupEnd) &&
         Find(library, "ncclAllReduce", &f->AllReduce) &&
         Find(library, "ncclReduceScatter", &f->ReduceScatter) &&
         Find(library, "ncclAllGather", &f->AllGather) &&
         Find(library, "ncclBroadcast", &f->Broadcast) &&
         Find(library, "ncclSend", &f->Send) &&
         Find(library, "ncclRecv", &f->Recv);
}

void FindOptional(void* library, NcclFunctions* f) {
  (void)(Find(library, "ncclMemAlloc", &f->MemAlloc) &&
         Find(library, "ncclMemFree", &f->MemFree));
  (void)(Find(library, "ncclCommRegister", &f->CommRegister) &&
         Find(library, "ncclCommDeregister", &f->CommDeregister));
  (void)(Find(library, "ncclCommWindowRegister", &f->CommWindowRegister) &&
         Find(library, "ncclCommWindowDeregister", &f->CommWindowDeregister));
}

NcclResult Result(int result) { return static_cast<NcclResult>(result); }
int N(NcclDType dtype) { return static_cast<int>(dtype); }
int N(NcclOp op) { return static_cast<int>(op); }

class LoadedNccl final : public NcclApi {
 public:
  explicit LoadedNccl(const NcclFunctions& functions) : f_(functions) {}

  NcclResult GetVersion(int* version) override {
    return Result(f_.GetVersion(version));
  }
  const char* GetErrorString(NcclResult result) override {
    return f_.GetErrorString(static_cast<int>(result));
  }
  const char* GetLastError(NcclComm comm) override {
    return f_.GetLastError(comm);
  }
  NcclResult GetUniqueId(NcclUniqueId* id) override {
    return Result(f_.GetUniqueId(id));
  }
  NcclResult CommInitRankConfig(NcclComm* comm, int size,
                                const NcclUniqueId& id, int rank,
                                NcclConfig* config) override {
    return Result(f_.CommInitRankConfig(comm, size, id, rank, config));
  }
  NcclResult CommGetAsyncError(NcclComm comm, NcclResult* error) override {
    return Result(f_.CommGetAsyncError(comm, error));
  }
  NcclResult CommFinalize(NcclComm comm) override {
    return Result(f_.CommFinalize(comm));
  }
  NcclResult CommDestroy(NcclComm comm) override {
    return Result(f_.CommDestroy(comm));
  }
  NcclResult CommAbort(NcclComm comm) override {
    return Result(f_.CommAbort(comm));
  }
  bool Has(NcclPart part) const override {
    switch (part) {
      case NcclPart::kMemory: return f_.MemFree != nullptr;
      case NcclPart::kRegistration: return f_.CommDeregister != nullptr;
      // Windows require NCCL's own memory.
      case NcclPart::kWindows:
        return f_.CommWindowDeregister != nullptr && f_.MemFree != nullptr;
      case NcclPart::kSymmetryTold: return Version() >= 22900;
    }
    return false;
  }
  NcclResult MemAlloc(void** memory, size_t bytes) override {
    return Result(f_.MemAlloc(memory, bytes));
  }
  NcclResult MemFree(void* memory) override {
    return Result(f_.MemFree(memory));
  }
  NcclResult CommRegister(NcclComm comm, void* memory, size_t bytes,
                          void** handle) override {
    return Result(f_.CommRegister(comm, memory, bytes, handle));
  }
  NcclResult CommDeregister(NcclComm comm, void* handle) override {
    return Result(f_.CommDeregister(comm, handle));
  }
  NcclResult CommWindowRegister(NcclComm comm, void* memory, size_t bytes,
                                NcclWindow* window, int flags) override {
    return Result(f_.CommWindowRegister(comm, memory, bytes, window, flags));
  }
  NcclResult CommWindowDeregister(NcclComm comm, NcclWindow window) override {
    return Result(f_.CommWindowDeregister(comm, window));
  }

  NcclResult GroupStart() override { return Result(f_.GroupStart()); }
  NcclResult GroupEnd() override { return Result(f_.GroupEnd()); }

  NcclResult AllReduce(const void* in, void* out, size_t count, NcclDType dtype,
                       NcclOp op, NcclComm comm,
                       CudaStreamHandle stream) override {
    return Result(f_.AllReduce(in, out, count, N(dtype), N(op), comm, stream));
  }
  NcclResult ReduceScatter(const void* in, void* out, size_t count,
                           NcclDType dtype, NcclOp op, NcclComm comm,
                           CudaStreamHandle stream) override {
    return Result(
        f_.ReduceScatter(in, out, count, N(dtype), N(op), comm, stream));
  }
  NcclResult AllGather(const void* in, void* out, size_t count, NcclDType dtype,
                       NcclComm comm, CudaStreamHandle stream) override {
    return Result(f_.AllGather(in, out, count, N(dtype), comm, stream));
  }
  NcclResult Broadcast(const void* in, void* out, size_t count, NcclDType dtype,
                       int root, NcclComm comm,
                       CudaStreamHandle stream) override {
    return Result(f_.Broadcast(in, out, count, N(dtype), root, comm, stream));
  }
  NcclResult Send(const void* buffer, size_t count, NcclDType dtype, int peer,
                  NcclComm comm, CudaStreamHandle stream) override {
    return Result(f_.Send(buffer, count, N(dtype), peer, comm, stream));
  }
  NcclResult Recv(void* buffer, size_t count, NcclDType dtype, int peer,
                  NcclComm comm, CudaStreamHandle stream) override {
    return Result(f_.Recv(buffer, count, N(dtype), peer, comm, stream));
  }

 private:
  int Version() const {
    int version = 0;
    return f_.GetVersion(&version) == 0 ? version : 0;
  }

  const NcclFunctions f_;
};

void AddMatches(const std::string& pattern, std::vector<std::string>* paths) {
  glob_t found{};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    paths->insert(paths->end(), found.gl_pathv,
                  found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
}

}  // namespace

std::vector<std::string> NcclCandidates(const Environment& environment) {
  const std::string chosen = environment("LOCKSTEP_NCCL_LIBRARY");
  if (!chosen.empty()) return {chosen};
  std::vector<std::string> candidates = {"libnccl.so.2"};
  constexpr char kInSite[] = "/nvidia/nccl/lib/libnccl.so.2";
  for (const char* root : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::string folder = environment(root);
    if (!folder.empty()) {
      AddMatches(absl::StrCat(folder, "/lib/python3*/site-packages", kInSite),
                 &candidates);
    }
  }
  const std::string home = environment("HOME");
  if (!home.empty()) {
    AddMatches(
        absl::StrCat(home, "/.local/lib/python3*/site-packages", kInSite),
        &candidates);
  }
  for (const char* folder : {"/usr/local/lib/python3*/site-packages",
                             "/usr/local/lib/python3*/dist-packages",
                             "/usr/lib/python3/dist-packages"}) {
    AddMatches(absl::StrCat(folder, kInSite), &candidates);
  }
  return candidates;
}

// NCCL registers the buffers of operations that are captured into a graph, and
// peers may then write to them; of an aborted operation, at any time. It reads
// this once.
static absl::Status KeepGraphsPlain() {
  constexpr char kName[] = "NCCL_GRAPH_REGISTER";
  const char* const set = std::getenv(kName);
  if (set == nullptr) {
    setenv(kName, "0", /*overwrite=*/0);
    return absl::OkStatus();
  }
  if (std::string_view(set) == "0") return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      kName, "=", set,
      ": an operation in a CUDA graph that is aborted could write to gradients "
      "of its peers: unset it, or set it to 0"));
}

absl::StatusOr<std::shared_ptr<NcclApi>> LoadNccl(
    const std::vector<std::string>& candidates) {
  if (absl::Status plain = KeepGraphsPlain(); !plain.ok()) return plain;
  std::vector<std::string> tried;
  for (const std::string& candidate : candidates) {
    void* const library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      tried.push_back(dlerror());
      continue;
    }
    // Never unloaded: NCCL has its own threads.
    NcclFunctions functions{};
    if (FindAll(library, &functions)) {
      FindOptional(library, &functions);
      return std::make_shared<LoadedNccl>(functions);
    }
    tried.push_back(absl::StrCat(candidate, ": ", dlerror()));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("no NCCL is found (LOCKSTEP_NCCL_LIBRARY names one): ",
                   absl::StrJoin(tried, "; ")));
}

}  // namespace lockstep::transport::nccl
