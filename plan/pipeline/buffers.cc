#include "plan/pipeline/buffers.h"

#include <algorithm>

#include "protocol/tensor_type.h"

namespace lockstep::plan {
namespace {

constexpr size_t kSendBuffers = 2;

}  // namespace

void BufferPools::Place(Message& message, int number, const Release& release) {
  for (MessagePart& part : message.parts) {
    PlaceSent(message, number, part);
    PlaceReceived(message, release, part);
  }
}

void BufferPools::PlaceSent(const Message& message, int number,
                            MessagePart& part) {
  std::deque<Sent>& pool =
      sent_[{message.from, true, message.is_gradient, TypeText(part.type)}];
  // Parts of one message never share a buffer, whatever their number.
  const bool reuses = pool.size() >= kSendBuffers * message.parts.size();
  if (reuses) {
    part.send_buffer = pool.front().buffer;
    part.reuses_message = pool.front().message;
    pool.pop_front();
  } else {
    part.send_buffer = buffers_[message.from]++;
  }
  pool.push_back({part.send_buffer, number});
}

void BufferPools::PlaceReceived(const Message& message, const Release& release,
                                MessagePart& part) {
  std::vector<Received>& pool =
      received_[{message.to, false, message.is_gradient, TypeText(part.type)}];
  const auto oldest = std::min_element(
      pool.begin(), pool.end(), [](const Received& a, const Received& b) {
        return a.release.at < b.release.at;
      });
  if (oldest != pool.end() && oldest->release.at < message.at) {
    part.recv_buffer = oldest->buffer;
    part.recv_after_task = oldest->release.task;
    oldest->release = release;
    return;
  }
  part.recv_buffer = buffers_[message.to]++;
  pool.push_back({part.recv_buffer, release});
}

}  // namespace lockstep::plan
