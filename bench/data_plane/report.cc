#include "bench/data_plane/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

namespace lockstep::bench {
namespace {

double Bandwidth(size_t bytes, double seconds) {
  return static_cast<double>(bytes) / seconds / 1e9;
}

std::string Short(size_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 3) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + " " + units[unit];
}

nlohmann::ordered_json MachineWithPeers() {
  nlohmann::ordered_json machine = Machine();
  machine["mpich"] = FirstLineOf("mpichversion 2>/dev/null");
  machine["openmpi"] = FirstLineOf("mpirun.openmpi --version 2>/dev/null");
  machine["gloo"] = "Debian's, of 2022-05";
  return machine;
}

// --- The picture
// --------------------------------------------------------------

constexpr double kWidth = 860, kHeight = 480, kLeft = 60, kRight = 190,
                 kTop = 20, kBottom = 50;
const char* const kColours[] = {"#888888", "#bbbbbb", "#c0392b", "#e67e22",
                                "#2471a3", "#5dade2", "#1e8449", "#8e44ad"};

struct Scale {
  double low, high;  // log2
  double from, to;   // pixels
  double At(double value) const {
    return from + (std::log2(value) - low) / (high - low) * (to - from);
  }
};

void Draw(const Report& report, std::ofstream& svg) {
  double least = 1e9, most = 0;
  size_t smallest = SIZE_MAX, largest = 1;
  for (const auto& [name, times] : report.sides) {
    for (auto [bytes, seconds] : times) {
      least = std::min(least, Bandwidth(bytes, seconds));
      most = std::max(most, Bandwidth(bytes, seconds));
      smallest = std::min(smallest, bytes);
      largest = std::max(largest, bytes);
    }
  }
  const Scale x{std::log2(smallest), std::log2(largest) + 1e-9, kLeft,
                kWidth - kRight};
  const Scale y{std::floor(std::log2(least)), std::ceil(std::log2(most)),
                kHeight - kBottom, kTop};
  svg << "<svg xmlns='http://www.w3.org/2000/svg' width='" << kWidth
      << "' height='" << kHeight
      << "' font-family='sans-serif' font-size='12'>\n"
      << "<rect width='100%' height='100%' fill='white'/>\n";
  for (double level = y.low; level <= y.high; level += 2) {
    const double at = y.At(std::exp2(level));
    svg << "<line x1='" << kLeft << "' x2='" << kWidth - kRight << "' y1='"
        << at << "' y2='" << at << "' stroke='#eeeeee'/><text x='" << kLeft - 8
        << "' y='" << at + 4 << "' text-anchor='end'>" << std::exp2(level)
        << "</text>\n";
  }
  for (auto [bytes, seconds] : report.sides.begin()->second) {
    svg << "<text x='" << x.At(static_cast<double>(bytes)) << "' y='"
        << kHeight - kBottom + 18 << "' text-anchor='middle' font-size='10'>"
        << Short(bytes) << "</text>\n";
  }
  svg << "<text x='" << kLeft << "' y='" << kHeight - 10
      << "'>all-reduce of f32 sums, 2 ranks: GB/s over size</text>\n";
  int colour = 0;
  for (const std::string& name : report.order) {
    const Times& times = report.sides.at(name);
    if (times.empty()) continue;
    svg << "<polyline fill='none' stroke-width='2' stroke='"
        << kColours[colour % 8] << "' points='";
    for (auto [bytes, seconds] : times) {
      svg << x.At(static_cast<double>(bytes)) << ","
          << y.At(Bandwidth(bytes, seconds)) << " ";
    }
    svg << "'/>\n<text x='" << kWidth - kRight + 8 << "' y='"
        << kTop + 14 + 18 * colour << "' fill='" << kColours[colour % 8] << "'>"
        << name << "</text>\n";
    ++colour;
  }
  svg << "</svg>\n";
}

void PrintSides(const Report& report) {
  std::printf("\nGB/s (bytes of one buffer / time), medians of %d rounds\n",
              report.rounds);
  std::printf("%10s", "size");
  for (const std::string& name : report.order) {
    std::printf(" %12s", name.c_str());
  }
  std::printf("\n");
  for (auto [bytes, unused] : report.sides.begin()->second) {
    std::printf("%10s", Short(bytes).c_str());
    for (const std::string& name : report.order) {
      const Times& times = report.sides.at(name);
      const auto at = times.find(bytes);
      if (at == times.end()) {
        std::printf(" %12s", "-");
      } else {
        std::printf(" %12.3f", Bandwidth(bytes, at->second));
      }
    }
    std::printf("\n");
  }
}

}  // namespace

void Print(const Report& report) {
  if (!report.order.empty()) PrintSides(report);
  std::printf("\n");
  for (const auto& [name, seconds] : report.single) {
    std::printf("%-44s %10.2f us\n", name.c_str(), seconds * 1e6);
  }
  Print(report.figures);
}

bool Write(const Report& report, const std::string& path) {
  nlohmann::ordered_json json;
  json["machine"] = MachineWithPeers();
  json["rounds"] = report.rounds;
  for (const std::string& name : report.order) {
    for (auto [bytes, seconds] : report.sides.at(name)) {
      json["sides"][name].push_back({{"bytes", bytes},
                                     {"time_us", seconds * 1e6},
                                     {"algbw", Bandwidth(bytes, seconds)}});
    }
  }
  for (const auto& [name, seconds] : report.single) {
    json["times_us"][name] = seconds * 1e6;
  }
  json["figures"] = ToJson(report.figures);
  std::ofstream file(path + ".json");
  file << json.dump(1) << "\n";
  std::ofstream svg(path + ".svg");
  Draw(report, svg);
  file.close();
  svg.close();
  return file.good() && svg.good();
}

}  // namespace lockstep::bench
