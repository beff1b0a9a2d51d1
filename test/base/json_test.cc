#include "base/json.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lazyfs {
namespace {

TEST(JsonTest, TextKeepsTheOrderOfMembers) {
  const Json json = Json::object({{"z", 1}, {"a", true}, {"m", "text"}, {"r", 0.5}, {"n", Json()}});
  EXPECT_EQ(json.dump(), R"({"z":1,"a":true,"m":"text","r":0.5,"n":null})");
}

TEST(JsonTest, ArraysComeFromVectorsAndFromPushBack) {
  Json json = Json::object();
  json["names"] = std::vector<std::string>{"x", "y"};
  json["list"].push_back(-1);
  json["list"].push_back(Json::object({{"k", 2u}}));
  EXPECT_EQ(json.dump(), R"({"names":["x","y"],"list":[-1,{"k":2}]})");
  EXPECT_EQ(json["empty"].dump(), "null");
  EXPECT_EQ(Json::array().dump(), "[]");
  EXPECT_EQ(Json::object().dump(), "{}");
}

TEST(JsonTest, ParsedTextGivesTheSameText) {
  const std::string text = R"({"a":[1,-2,18446744073709551615,0.25,null,false],"b":{"c":"d"}})";
  const auto json = Json::parse(text);
  ASSERT_TRUE(json);
  EXPECT_EQ(json->dump(), text);
  EXPECT_EQ((*json)["a"].items()[2].number(), UINT64_MAX);
  EXPECT_EQ((*json)["a"].items()[1].real(), -2.0);
  EXPECT_EQ((*json)["b"]["c"].text(), "d");
  EXPECT_FALSE(json->contains("z"));
}

TEST(JsonTest, TextThatIsNotJsonGivesNothing) {
  EXPECT_FALSE(Json::parse("{\"a\":"));
  EXPECT_FALSE(Json::parse(""));
}

TEST(JsonTest, BytesThatAreNotUtf8AreReplaced) {
  EXPECT_EQ(Json("a\xff").dump(), "\"a\xef\xbf\xbd\"");
}

}  // namespace
}  // namespace lazyfs
