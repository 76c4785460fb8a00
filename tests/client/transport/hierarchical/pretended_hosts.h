// A job whose processes pretend to run on several hosts: each connects by its
// own transport `auto`.
//
//   PretendedHosts world("aab", make_links);    ranks 0 and 1 on a, 2 on b

#ifndef LOCKSTEP_TESTS_CLIENT_TRANSPORT_HIERARCHICAL_PRETENDED_HOSTS_H_
#define LOCKSTEP_TESTS_CLIENT_TRANSPORT_HIERARCHICAL_PRETENDED_HOSTS_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "client/transport/hierarchical/auto.h"
#include "tests/conformance/world.h"
#include "tests/support/inproc/inproc.h"

namespace lockstep {

class PretendedHosts : public conformance::World {
 public:
  using MakeLinks = std::function<std::unique_ptr<transport::LinkFactory>()>;
  using Decorate = std::function<std::unique_ptr<transport::Transport>(
      std::unique_ptr<transport::Transport>)>;

  // Rank r is on hosts[r].
  PretendedHosts(std::string hosts, MakeLinks make_links,
                 Decorate decorate = nullptr)
      : hosts_(std::move(hosts)),
        make_links_(std::move(make_links)),
        decorate_(std::move(decorate)) {}

  transport::Transport& at(int rank) override {
    auto& transport = transports_[rank];
    if (transport == nullptr) {
      transport = transport::MakeAutoTransport(
          make_links_(), {.pretended_host = hosts_.substr(rank, 1)});
      if (decorate_) transport = decorate_(std::move(transport));
    }
    return *transport;
  }

 private:
  const std::string hosts_;
  const MakeLinks make_links_;
  const Decorate decorate_;
  std::map<int, std::unique_ptr<transport::Transport>> transports_;
};

// Links between threads of this process.
class PretendedHostsInProcess final : public PretendedHosts {
 public:
  explicit PretendedHostsInProcess(const std::string& hosts,
                                   Decorate decorate = nullptr)
      : PretendedHosts(
            hosts, [this] { return transport::MakeInprocLinks(&hub_); },
            std::move(decorate)) {}

 private:
  transport::InprocHub hub_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_CLIENT_TRANSPORT_HIERARCHICAL_PRETENDED_HOSTS_H_
