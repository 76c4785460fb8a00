#include "client/collectives/transfer_steps.h"

#include "base/check.h"

namespace lockstep::collectives {
namespace {

absl::Status SendAndReceive(const Step& step, const CallMemory& memory,
                            Communicator& communicator, Stream& stream) {
  return communicator.Group([&]() -> absl::Status {
    for (const SendOrRecv& m : step.messages) {
      absl::Status status =
          m.send ? communicator.Send(memory.Read(m.buffer), m.bytes, DType::kU8,
                                     m.peer, stream)
                 : communicator.Recv(memory.Write(m.buffer), m.bytes,
                                     DType::kU8, m.peer, stream);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  });
}

}  // namespace

absl::Status EnqueueTransfer(const Step& step, const CallMemory& memory,
                             Communicator& communicator, Stream& stream) {
  const void* const in = memory.Read(step.in);
  void* const out = memory.Write(step.out);
  switch (step.kind) {
    case Step::Kind::kAllReduce:
      return communicator.AllReduce(in, out, step.count, step.dtype, step.op,
                                    stream);
    case Step::Kind::kReduceScatter:
      return communicator.ReduceScatter(in, out, step.count, step.dtype,
                                        step.op, stream);
    case Step::Kind::kAllGather:
      return communicator.AllGather(in, out, step.count, step.dtype, stream);
    case Step::Kind::kBroadcast:
      return communicator.Broadcast(out, step.count, step.dtype, step.index,
                                    stream);
    case Step::Kind::kAllToAll:
      return communicator.AllToAll(in, out, step.count, step.dtype, stream);
    case Step::Kind::kMessages:
      return SendAndReceive(step, memory, communicator, stream);
    default: Fatal("a local step is no call of a communicator");
  }
}

}  // namespace lockstep::collectives
