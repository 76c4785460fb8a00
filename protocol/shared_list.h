// An immutable list whose copies share memory.
//
// Lists of all ranks (members, handles) are sent to every rank. If each message
// had its own copy, they would use memory quadratic in the world size. Made
// from a vector and read like one.
//
// Threads: values; several threads may read copies concurrently.

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

  // Equal contents, whether shared or not.
  bool operator==(const SharedList& other) const {
    return items_ == other.items_ || items() == other.items();
  }

 private:
  std::shared_ptr<const std::vector<T>> items_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_PROTOCOL_SHARED_LIST_H_
