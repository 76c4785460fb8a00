// All programs of the demonstration in one file, for the folder that runs on
// another machine (./run gpu-bundle): each has the same libraries, and so most
// of the same code.
//
//   digits-programs digits_pipe --device cuda ...

#include <cstdio>
#include <cstring>

int MainOfDemo(int argc, char** argv);
int MainOfDigits(int argc, char** argv);
int MainOfDigitsLocal(int argc, char** argv);
int MainOfDigitsPipe(int argc, char** argv);

namespace {

struct Program {
  const char* name;
  int (*main)(int argc, char** argv);
};

constexpr Program kPrograms[] = {
    {"digits", MainOfDigits},
    {"digits_local", MainOfDigitsLocal},
    {"digits_pipe", MainOfDigitsPipe},
    {"lockstep-demo", MainOfDemo},
};

}  // namespace

int main(int argc, char** argv) {
  for (const Program& program : kPrograms) {
    if (argc > 1 && std::strcmp(argv[1], program.name) == 0) {
      return program.main(argc - 1, argv + 1);
    }
  }
  std::fprintf(stderr, "usage: %s PROGRAM ..., PROGRAM being one of:", argv[0]);
  for (const Program& program : kPrograms) {
    std::fprintf(stderr, " %s", program.name);
  }
  std::fputc('\n', stderr);
  return 2;
}
