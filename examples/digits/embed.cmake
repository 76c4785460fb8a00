# Writes OUT, a C++ source with the text file CSV as string literals, one per
# line. The text must contain neither quotes nor backslashes.

file(READ "${CSV}" text)
if(text MATCHES "[\"\\]")
  message(FATAL_ERROR "${CSV}: a quote or a backslash cannot be embedded")
endif()
string(REPLACE "\n" "\\n\"\n    \"" lines "${text}")
file(WRITE "${OUT}" "#include \"examples/digits/dataset.h\"

namespace lockstep::digits {

std::string_view EmbeddedCsv() {
  static constexpr char kText[] =
    \"${lines}\";
  return {kText, sizeof(kText) - 1};
}

}  // namespace lockstep::digits
")
