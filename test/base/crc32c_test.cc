#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace lazyfs {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(Crc32cTest, KnowsTheCheckValue) { EXPECT_EQ(crc32c(bytes_of("123456789")), 0xE3069283u); }

TEST(Crc32cTest, KnowsTheVectorsOfRfc3720) {
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0})), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0xFF})), 0x62A8AB43u);
}

TEST(Crc32cTest, ContinuesFromASeed) {
  EXPECT_EQ(crc32c(bytes_of("56789"), crc32c(bytes_of("1234"))), crc32c(bytes_of("123456789")));
}

TEST(Crc32cTest, IsThatOfItsPartsWhereverItIsDivided) {
  std::vector<std::byte> bytes(3 * 4096 + 100);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 31 + i / 7);
  std::uint32_t by_one = 0;
  for (std::size_t end = 1; end <= bytes.size(); ++end) {
    by_one = crc32c(std::span(bytes).subspan(end - 1, 1), by_one);
    EXPECT_EQ(crc32c(std::span(bytes).first(end)), by_one) << end;
  }
}

TEST(Crc32cTest, OfNothingIsZero) { EXPECT_EQ(crc32c({}), 0u); }

}  // namespace
}  // namespace lazyfs
