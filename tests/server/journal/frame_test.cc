#include "server/journal/frame.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::journal {
namespace {

std::vector<std::string> FramesOf(const std::vector<std::string>& payloads) {
  Chain chain;
  std::vector<std::string> frames;
  for (const std::string& payload : payloads) {
    frames.push_back(chain.Extend(payload));
  }
  return frames;
}

TEST(FrameTest, ComputesTheCrcOfRfc3720) {
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(""), 0u);
}

TEST(FrameTest, ReadsBackWhatItWrote) {
  const Frame frame{
      .number = 7, .predecessor = 0x123456789abcdef0, .payload = "abc"};
  EXPECT_EQ(*Decode(Encode(frame)), frame);
  EXPECT_EQ(Encode(frame).size(), kFrameHeaderBytes + 3);
}

// The format is fixed: a journal outlives the program that wrote it.
TEST(FrameTest, LiesAsItEverLay) {
  EXPECT_EQ(Encode({.number = 1, .predecessor = 2, .payload = "a"}),
            std::string("\x01\0\0\0"
                        "\xb6\xb5\x35\xfb"
                        "\x01\0\0\0\0\0\0\0"
                        "\x02\0\0\0\0\0\0\0"
                        "a",
                        25));
}

TEST(FrameTest, NoticesEveryFlippedBitAndEveryMissingByte) {
  const std::string sound = Encode({.number = 1, .payload = "some payload"});
  for (size_t bit = 0; bit < sound.size() * 8; ++bit) {
    std::string flipped = sound;
    flipped[bit / 8] ^= static_cast<char>(1 << bit % 8);
    EXPECT_FALSE(Decode(flipped).ok()) << "bit " << bit;
  }
  for (size_t size = 0; size < sound.size(); ++size) {
    EXPECT_FALSE(Decode(sound.substr(0, size)).ok()) << size << " bytes";
  }
  EXPECT_FALSE(Decode(sound + "x").ok());
}

TEST(FrameTest, RecoversWhatIsSoundAndGoesOnBehindIt) {
  std::vector<std::string> frames = FramesOf({"one", "two", "three"});
  frames.back().resize(10);
  absl::StatusOr<Recovered> recovered = Recover(frames);
  ASSERT_TRUE(recovered.ok());
  EXPECT_THAT(recovered->payloads, testing::ElementsAre("one", "two"));
  EXPECT_EQ(recovered->torn, 1u);

  frames.back() = recovered->chain.Extend("another three");
  EXPECT_THAT(Recover(frames)->payloads,
              testing::ElementsAre("one", "two", "another three"));
}

TEST(FrameTest, RefusesFramesThatAreDoubledMovedOrOfAnotherJournal) {
  const std::vector<std::string> frames = FramesOf({"one", "two", "three"});
  const std::vector<std::string> others = FramesOf({"eins", "two", "three"});
  EXPECT_FALSE(Recover({frames[0], frames[0]}).ok());
  EXPECT_FALSE(Recover({frames[1], frames[0]}).ok());
  EXPECT_FALSE(Recover({frames[0], others[1]}).ok());
  EXPECT_TRUE(Recover(frames).ok());
}

}  // namespace
}  // namespace lockstep::journal
