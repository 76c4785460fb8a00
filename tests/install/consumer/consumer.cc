// A project that knows Lockstep only as installed.

#include <iostream>

#include "lockstep/communicator.h"
#include "lockstep/mesh.h"
#include "lockstep/session.h"

int main() {
  const auto mesh = lockstep::ParseMesh("data=2,pipe=3");
  if (!mesh.ok()) {
    std::cerr << mesh.status() << "\n";
    return 1;
  }
  std::cout << "world size " << mesh->WorldSize() << "\n";
  return 0;
}
