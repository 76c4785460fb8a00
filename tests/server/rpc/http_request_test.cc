// Requests of HTTP/1, good and bad ones.

#include "server/rpc/http_request.h"

#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::rpc {
namespace {

using testing::HasSubstr;
using testing::Not;

std::optional<int> Judged(const std::string& received) {
  return JudgeRequest(received, "/metrics");
}

TEST(HttpRequestTest, OnePageIsServedToGet) {
  EXPECT_EQ(Judged("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), 200);
  EXPECT_EQ(Judged("GET /metrics HTTP/1.0\r\n\r\n"), 200);
  EXPECT_EQ(Judged("GET /metrics?x=%20 HTTP/1.1\r\n\r\nmore"), 200);
  EXPECT_EQ(Judged("POST /metrics HTTP/1.1\r\n\r\n"), 405);
  EXPECT_EQ(Judged("HEAD /metrics HTTP/1.1\r\n\r\n"), 405);
  for (const char* path : {"/", "/metrics/", "/metricsx", "/Metrics",
                           "/../metrics", "//metrics", "/%6detrics"}) {
    EXPECT_EQ(Judged(std::string("GET ") + path + " HTTP/1.1\r\n\r\n"), 404)
        << path;
  }
  EXPECT_EQ(Judged("DELETE /x HTTP/1.1\r\n\r\n"), 404);
}

TEST(HttpRequestTest, WaitsForTheEndOfTheHead) {
  const std::string head = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
  for (size_t size = 0; size < head.size(); ++size) {
    EXPECT_EQ(Judged(head.substr(0, size)), std::nullopt) << size;
  }
}

TEST(HttpRequestTest, WhatIsNoRequestIsRefused) {
  for (const char* line :
       {"GET /metrics", "GET  /metrics HTTP/1.1", "GET /metrics HTTP/1.1 x",
        "GET /metrics HTTP/2.0", "GET metrics HTTP/1.1",
        "GeT /metrics HTTP/1.1", "GET http://a/metrics HTTP/1.1",
        "GET /metrics http/1.1", "GET"}) {
    EXPECT_EQ(Judged(std::string(line) + "\r\n\r\n"), 400) << line;
  }
  EXPECT_EQ(Judged("\x16\x03\x01"), 400) << "TLS";
  EXPECT_EQ(Judged("\r\n"), 400);
}

TEST(HttpRequestTest, AHeadHasABound) {
  const std::string begin = "GET /metrics HTTP/1.1\r\nX: ";
  const std::string end = "\r\n\r\n";
  const size_t filler = kHeadBytesMax - begin.size() - end.size();
  EXPECT_EQ(Judged(begin + std::string(filler, 'x') + end), 200);
  EXPECT_EQ(Judged(begin + std::string(filler + 1, 'x') + end), 431);
  EXPECT_EQ(Judged(begin + std::string(filler, 'x')), std::nullopt);
  EXPECT_EQ(Judged(std::string(kHeadBytesMax, 'G')), 431);
}

TEST(HttpRequestTest, AnswersSayTheirSizeAndEndTheConnection) {
  const std::string page = HeadOfAnswer(200, 12);
  EXPECT_THAT(page, testing::StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(page, HasSubstr("Content-Type: text/plain; version=0.0.4; "
                              "charset=utf-8\r\n"));
  EXPECT_THAT(page, HasSubstr("Content-Length: 12\r\n"));
  EXPECT_THAT(page, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(page, testing::EndsWith("\r\n\r\n"));
  EXPECT_THAT(page, Not(HasSubstr("Allow")));
  EXPECT_THAT(HeadOfAnswer(405, 0), HasSubstr("Allow: GET\r\n"));
  EXPECT_THAT(HeadOfAnswer(404, 0), HasSubstr("404 Not Found"));
  EXPECT_THAT(HeadOfAnswer(431, 0), HasSubstr("431 Request Header Fields"));
  EXPECT_THAT(HeadOfAnswer(503, 0), HasSubstr("503 Service Unavailable"));
}

}  // namespace
}  // namespace lockstep::rpc
