// Names, ranks, sizes and durations in their text form.

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/text/nearest.h"
#include "base/text/rank_list.h"
#include "base/text/units.h"
#include "base/text/utf8.h"
#include "gtest/gtest.h"
#include "protocol/ids.h"
#include "protocol/job_view.h"

namespace lockstep {
namespace {

TEST(NaturalLessTest, SortsNumbersInNamesAsNumbers) {
  std::vector<std::string> names = {"worker-10", "b2", "worker-2", "b-1",
                                    "worker",    "b",  "worker-2a"};
  std::sort(names.begin(), names.end(), NaturalLess);
  const std::vector<std::string> expected = {
      "b", "b-1", "b2", "worker", "worker-2", "worker-2a", "worker-10"};
  EXPECT_EQ(names, expected);
}

TEST(NaturalLessTest, TakesNumbersOfAnyLength) {
  EXPECT_TRUE(NaturalLess("w99999999999999999999", "w100000000000000000000"));
  EXPECT_FALSE(NaturalLess("w100000000000000000000", "w99999999999999999999"));
}

std::string RandomName(std::mt19937& random) {
  const std::string alphabet = "a01-z2";
  std::string name;
  for (size_t length = random() % 6; length > 0; --length) {
    name.push_back(alphabet[random() % alphabet.size()]);
  }
  return name;
}

TEST(NaturalLessTest, IsATotalOrder) {
  std::mt19937 random(1);
  for (int i = 0; i < 200'000; ++i) {
    const std::string a = RandomName(random);
    const std::string b = RandomName(random);
    const std::string c = RandomName(random);
    ASSERT_EQ(NaturalLess(a, b) + NaturalLess(b, a), a == b ? 0 : 1)
        << a << " " << b;
    if (NaturalLess(a, b) && NaturalLess(b, c)) {
      ASSERT_TRUE(NaturalLess(a, c)) << a << " " << b << " " << c;
    }
  }
}

TEST(RankListTest, JoinsNeighboursToRanges) {
  EXPECT_EQ(RankList({}), "no rank");
  EXPECT_EQ(RankList({3}), "rank 3");
  EXPECT_EQ(RankList({5, 2, 0, 1}), "ranks 0-2, 5");
}

TEST(RankListTest, PutsRanksTogetherThatSaidTheSame) {
  EXPECT_EQ(WhoSaidWhat({{0, "z"}, {1, "z"}, {2, "a"}, {3, "z"}}),
            "ranks 0-1, 3: z; rank 2: a");
}

TEST(RankListTest, StaysShortWhateverTheWorld) {
  std::vector<int> even;
  std::vector<std::pair<int, std::string>> said;
  for (int rank = 0; rank < 2000; rank += 2) {
    even.push_back(rank);
    said.emplace_back(rank, std::to_string(rank));
  }
  EXPECT_EQ(RankList(even).substr(0, 14), "ranks 0, 2, 4,");
  EXPECT_NE(RankList(even).find("126 and 936 more"), std::string::npos);
  EXPECT_NE(WhoSaidWhat(said).find("936 more ranks"), std::string::npos);
}

TEST(UnitsTest, WritesASizeInItsLargestWholeUnit) {
  EXPECT_EQ(SizeText(25 << 20), "25MiB");
  EXPECT_EQ(SizeText(4096), "4KiB");
  EXPECT_EQ(SizeText(4097), "4097");
  EXPECT_EQ(SizeText(0), "0");
}

TEST(UnitsTest, ReadsSizesWithAndWithoutAUnit) {
  EXPECT_EQ(ParseSize("4096"), 4096);
  EXPECT_EQ(ParseSize("12B"), 12);
  EXPECT_EQ(ParseSize("1MiB"), 1 << 20);
  EXPECT_EQ(ParseSize("3TiB"), int64_t{3} << 40);
}

TEST(UnitsTest, RefusesWhatIsNoSize) {
  for (const char* text :
       {"", "MiB", "1MB", "1mib", "1.5MiB", "-1", " 1", "1 MiB", "1KiBs",
        "9223372036854775808", "8388608TiB"}) {
    EXPECT_FALSE(ParseSize(text).has_value()) << text;
  }
}

TEST(UnitsTest, ReadsDurationsBack) {
  for (const absl::Duration duration :
       {absl::Milliseconds(500), absl::Seconds(10), absl::Minutes(5),
        absl::Seconds(90), absl::Hours(720), absl::ZeroDuration(),
        absl::Milliseconds(1500)}) {
    EXPECT_EQ(ParseDuration(DurationText(duration)), duration);
  }
  EXPECT_EQ(DurationText(absl::Seconds(90)), "1m30s");
}

TEST(UnitsTest, RefusesWhatIsNoDuration) {
  for (const char* text : {"", "10", "10 s", "-5s", "inf", "s", "5x"}) {
    EXPECT_FALSE(ParseDuration(text).has_value()) << text;
  }
}

TEST(Utf8Test, TakesTextAndRefusesBytes) {
  for (const char* text : {"", "layers.0.weight", "größe", "権重", "𝛼"}) {
    EXPECT_TRUE(IsPrintableUtf8(text)) << text;
  }
  for (const char* text :
       {"a\nb", "\x7f", "\x80", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80",
        "\xf5\x80\x80\x80", "\xe6\xac", "\xf4\x90\x80\x80", "\xc2\x85"}) {
    EXPECT_FALSE(IsPrintableUtf8(text)) << text;
  }
}

TEST(Utf8Test, MarksThatReorderTextAreNotPrintable) {
  for (const char* text : {"\u061c", "\u200e", "\u200f", "\u202a", "\u202e",
                           "\u2066", "\u2069", "\u2028", "\u2029"}) {
    EXPECT_FALSE(IsPrintableUtf8(text)) << text;
    EXPECT_FALSE(IsPrintableUtf8(std::string("worker") + text)) << text;
  }
  EXPECT_TRUE(IsPrintableUtf8("\u202f\u2065\u206a\u2027"));  // their neighbours
}

TEST(Utf8Test, EscapesWhatCannotBeDisplayed) {
  EXPECT_EQ(Printable("größe 重み \\n"), "größe 重み \\n");
  EXPECT_EQ(Printable("a\nb\r\tc"), "a\\nb\\r\\tc");
  EXPECT_EQ(Printable(std::string("\x1b[2J\0", 5)), "\\x1b[2J\\x00");
  EXPECT_EQ(Printable("\x7f\u009b"), "\\x7f\\u009b");
  EXPECT_EQ(Printable("evil\u202egnp.exe"), "evil\\u202egnp.exe");
  EXPECT_EQ(Printable("caf\xe9\xe2\x80"), "caf\\xe9\\xe2\\x80");
}

TEST(Utf8Test, AnyBytesBecomePrintableAndStaySo) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::string text(random() % 12, '\0');
    for (char& c : text) {
      // Mostly lead and continuation bytes, so that characters form.
      c = static_cast<char>(random() % 3 == 0 ? random() : 0x80 | random());
    }
    const std::string printable = Printable(text);
    ASSERT_TRUE(IsPrintableUtf8(printable)) << printable;
    ASSERT_EQ(Printable(printable), printable);
    ASSERT_EQ(printable == text, IsPrintableUtf8(text)) << printable;
  }
}

TEST(ToUtf8Test, KeepsWhatIsWellFormed) {
  for (const char* text : {"", "abc", "größe", "重み", "\xF0\x9F\x99\x82",
                           "\xF4\x8F\xBF\xBF", "\xEE\x80\x80"}) {
    EXPECT_EQ(ToUtf8(text), text);
  }
}

TEST(ToUtf8Test, ReplacesWhatIsNot) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(ToUtf8("a\xFFz"), "a" + r + "z");
  EXPECT_EQ(ToUtf8("\xC3"), r);                          // truncated
  EXPECT_EQ(ToUtf8("\x80"), r);                          // no lead byte
  EXPECT_EQ(ToUtf8("\xC0\xAF"), r + r);                  // overlong
  EXPECT_EQ(ToUtf8("\xE0\x80\x80"), r + r + r);          // overlong
  EXPECT_EQ(ToUtf8("\xED\xA0\x80"), r + r + r);          // a surrogate
  EXPECT_EQ(ToUtf8("\xF4\x90\x80\x80"), r + r + r + r);  // beyond Unicode
}

TEST(NearestTest, CountsTheLettersToChange) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("abc", ""), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance("lease", "leese"), 1);
}

TEST(NearestTest, FindsOnlyWhatIsNear) {
  EXPECT_EQ(Nearest("trasport", {"mesh", "transport"}), "transport");
  EXPECT_EQ(Nearest("colour", {"mesh", "transport"}), "");
  EXPECT_EQ(Nearest("", {"mesh"}), "");
}

TEST(StateTest, EveryStateHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (int state = 1; state <= 8; ++state) {
    names.insert(Name(static_cast<JobState>(state)));
  }
  EXPECT_EQ(names.size(), 8u);
  EXPECT_FALSE(names.contains("?"));
  EXPECT_EQ(Name(JobState::kEpochEnded), "epoch-ended");
  EXPECT_EQ(Name(WorkerState::kReady), "ready");
  EXPECT_EQ(Name(static_cast<WorkerState>(99)), "?");
}

}  // namespace
}  // namespace lockstep
