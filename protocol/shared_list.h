// A list that is written once and then copied for nothing.
//
// What every rank is told about all ranks (members, handles) would take memory
// that grows with the square of the world if each message held its own copy.
// Made from a vector and read like one.
//
// Threads: values; copies may be read by several threads at once.

#ifndef LOCKSTEP_PROTOCOL_SHARED_LIST_H_
#define LOCKSTEP_PROTOCOL_SHARED_LIST_H_

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace lockstep {

template <typename T>
class SharedList {
 public:
  SharedList() = default;
  SharedList(std::vector<T> items)
      : items_(std::make_shared<const std::vector<T>>(std::move(items))) {}
  SharedList(std::initializer_list<T> items)
      : SharedList(std::vector<T>(items)) {}

  const std::vector<T>& items() const {
    static const std::vector<T> none;
    return items_ == nullptr ? none : *items_;
  }
  operator const std::vector<T>&() const { return items(); }

  size_t size() const { return items().size(); }
  bool empty() const { return items().empty(); }
  const T& operator[](size_t index) const { return items()[index]; }
  auto begin() const { return items().begin(); }
  auto end() const { return items().end(); }

  // Equal contents, whoever holds them.
  bool operator==(const SharedList& other) const {
    return items_ == other.items_ || items() == other.items();
  }

 private:
  std::shared_ptr<const std::vector<T>> items_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_PROTOCOL_SHARED_LIST_H_
