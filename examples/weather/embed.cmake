# Writes OUT, a C++ source with the bytes of the file IN as string literals of 32
# bytes a line.

file(READ "${IN}" bytes HEX)
string(REGEX REPLACE "(..)" "\\\\x\\1" text "${bytes}")
# CMake's regular expressions have no counts.
string(REPEAT "...." 32 line)
string(REGEX REPLACE "(${line})" "\\1\"\n    \"" text "${text}")
file(WRITE "${OUT}" "#include \"examples/weather/forecast.h\"

namespace lockstep::weather {

std::string_view EmbeddedForecast() {
  static constexpr char kBytes[] =
    \"${text}\";
  return {kBytes, sizeof(kBytes) - 1};
}

}  // namespace lockstep::weather
")
