#include "bench/figures.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>

namespace lockstep::bench {
namespace {

std::string Cpu() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0)
      return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

std::string Today() {
  char text[32];
  const std::time_t now = std::time(nullptr);
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

}  // namespace

void Print(const std::vector<Figure>& figures) {
  std::printf("\n%-58s %9s %9s\n", "figure", "promised", "measured");
  for (const Figure& figure : figures) {
    if (figure.promised == 0) {
      std::printf("%-58s %9s %9.2f\n", figure.what.c_str(), "",
                  figure.measured);
      continue;
    }
    std::printf("%-58s %s %6.2f %9.2f  %s\n", figure.what.c_str(),
                figure.at_most ? "<=" : ">=", figure.promised, figure.measured,
                figure.reached() ? "reached" : "NOT REACHED");
  }
}

nlohmann::ordered_json ToJson(const std::vector<Figure>& figures) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const Figure& figure : figures) {
    if (figure.promised == 0) continue;
    json.push_back({{"what", figure.what},
                    {figure.at_most ? "at_most" : "at_least", figure.promised},
                    {"measured", figure.measured},
                    {"reached", figure.reached()}});
  }
  return json;
}

nlohmann::ordered_json Machine() {
  utsname system{};
  uname(&system);
  return {{"cpu", Cpu()},
          {"cores", sysconf(_SC_NPROCESSORS_ONLN)},
          {"kernel", system.release},
          {"date", Today()}};
}

std::string FirstLineOf(const char* command) {
  char line[256] = "not there";
  std::FILE* const pipe = popen(command, "r");
  if (pipe == nullptr) return line;
  if (std::fgets(line, sizeof line, pipe) == nullptr) std::rewind(pipe);
  pclose(pipe);
  std::string text = line;
  return text.substr(0, text.find('\n'));
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2,
                   values.end());
  return values[values.size() / 2];
}

}  // namespace lockstep::bench
