// Join tokens, against values that Python's hmac has computed:
//
//   hmac.new(secret, b"lockstep join v1" + job, hashlib.sha256).hexdigest()

#include "base/join_token.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep {
namespace {

constexpr char kSecret[] =
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

TEST(JoinTokenTest, IsTheDocumentedFunctionOfSecretAndJob) {
  EXPECT_EQ(JoinToken(kSecret, "digits").value(),
            "7faf914a509678eb0cafaba527aba724c882a5281b616ca3640e9f11c1e61088");
  EXPECT_EQ(JoinToken(kSecret, "digits2").value(),
            "07f0810ad89794691d18762210f04561b3da5d4c73b8cfd58bfa4b5493ec10dc");
  EXPECT_EQ(JoinToken(std::string(kJoinSecretBytesMin, 'x'), "digits").value(),
            "c15fef21cf0ce884f9322728ef688f84c1a9589fd7cbbb23097ef1ed86760d4e");
}

TEST(JoinTokenTest, AShortSecretHasNoneAndIsNotPrinted) {
  const std::string secret(kJoinSecretBytesMin - 1, 'z');
  const absl::Status refused = JoinToken(secret, "digits").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              testing::AllOf(testing::HasSubstr("31 bytes"),
                             testing::Not(testing::HasSubstr("zz"))));
}

}  // namespace
}  // namespace lockstep
