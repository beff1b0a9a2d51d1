// Images of nodes whose checksums are right, and whose bytes contradict each other: they are
// refused, because whoever uses a node trusts what validate_node() has passed.
#include <array>

#include "base/endian.h"
#include "meta/tree/node_page.h"
#include "test/meta/fixture.h"

namespace lazyfs::meta {
namespace {

constexpr std::size_t kLevelAt = 24, kCountAt = 26, kHeapAt = 28, kHolesAt = 30, kSlotsAt = 48;
constexpr std::size_t kLengthInCell = 17;

class NodeImageTest : public ::testing::Test {
 protected:
  // Two items, whose values of 8 bytes may be numbers of children.
  void make(std::uint8_t level) {
    NodePage page(image.data());
    page.format(NodeNo{1}, level, 2);
    page.insert(0, {1, 1, 1}, as_value("child  1"));
    page.insert(1, {1, 1, 2}, as_value("child  2"));
  }
  bool is_accepted() {
    NodePage(image.data()).stamp(Seq{3});
    const auto valid = validate_node(image, NodeNo{1}, Seq{3}, 2);
    EXPECT_TRUE(valid || valid.error() == Errc::kNodeBad) << describe(valid.error());
    return valid.has_value();
  }
  std::uint16_t get(std::size_t at) const { return load_le_at<std::uint16_t>(image, at); }
  void put(std::size_t at, std::size_t value) {
    store_le_at(std::span(image), at, static_cast<std::uint16_t>(value));
  }
  std::size_t cell(unsigned i) const { return get(kSlotsAt + kSlotBytes * i); }
  // The value of the item gets so many bytes more, whatever they hold now. The heap begins earlier
  // by as many bytes, so that the sum of its cells is right.
  void lengthen(unsigned i, std::size_t bytes) {
    put(cell(i) + kLengthInCell, get(cell(i) + kLengthInCell) + bytes);
    put(kHeapAt, get(kHeapAt) - bytes);
  }

  std::array<std::byte, kBlockBytes> image{};
};

TEST_F(NodeImageTest, OfEveryLevelUpToTheHighestIsAccepted) {
  for (const std::uint8_t level : {0, 1, 15, 16}) {
    make(level);
    EXPECT_EQ(is_accepted(), level <= kMaxLevel) << int{level};
  }
}

TEST_F(NodeImageTest, WithMoreItemsThanFitIsRefused) {
  make(0);
  put(kCountAt, 1900);
  for (unsigned i = 2; i < 1900; ++i) put(kSlotsAt + kSlotBytes * i, cell(0));
  EXPECT_FALSE(is_accepted());
}

TEST_F(NodeImageTest, WhoseHeapBeginsWithinTheSlotsIsRefused) {
  make(0);
  const std::size_t into_slots = get(kHeapAt) - (kSlotsAt + kSlotBytes);
  put(kHeapAt, get(kHeapAt) - into_slots);
  put(kHolesAt, into_slots);
  EXPECT_FALSE(is_accepted());
}

TEST_F(NodeImageTest, WithACellPastTheEndOfTheBlockIsRefused) {
  make(0);
  lengthen(0, 1);  // the last cell of the block
  EXPECT_FALSE(is_accepted());
  make(0);
  put(kSlotsAt, kBlockBytes - kCellHeaderBytes + 1);
  EXPECT_FALSE(is_accepted());
}

TEST_F(NodeImageTest, WithACellBeforeTheHeapIsRefused) {
  make(0);
  put(kSlotsAt, kSlotsAt);
  EXPECT_FALSE(is_accepted());
}

TEST_F(NodeImageTest, WithCellsThatOverlapIsRefused) {
  make(0);
  lengthen(1, 1);  // into the cell past it
  EXPECT_FALSE(is_accepted());
}

TEST_F(NodeImageTest, WhoseHolesAreNotWhatTheCellsLeaveIsRefused) {
  make(0);
  put(kHolesAt, 1);
  EXPECT_FALSE(is_accepted());
  put(kHeapAt, get(kHeapAt) - 1);
  EXPECT_TRUE(is_accepted());
}

TEST_F(NodeImageTest, WithAValueThatIsTooLongIsRefused) {
  for (const std::size_t bytes : {kMaxValueBytes, kMaxValueBytes + 1}) {
    make(0);
    NodePage(image.data()).insert(2, {1, 1, 3}, as_value(std::string(bytes, 'v')));
    EXPECT_EQ(is_accepted(), bytes <= kMaxValueBytes) << bytes;
  }
}

TEST_F(NodeImageTest, OfAnInnerNodeWhoseChildIsNoNumberIsRefused) {
  for (const std::uint8_t level : {0, 1}) {
    make(level);
    NodePage(image.data()).insert(2, {1, 1, 3}, as_value("short"));
    EXPECT_EQ(is_accepted(), level == 0) << int{level};
  }
}

TEST_F(NodeImageTest, OfAnInnerNodeWithoutChildrenIsRefused) {
  for (const std::uint8_t level : {0, 1}) {
    NodePage(image.data()).format(NodeNo{1}, level, 2);
    EXPECT_EQ(is_accepted(), level == 0) << int{level};
  }
}

TEST_F(NodeImageTest, WithKeysThatDoNotIncreaseIsRefused) {
  for (const std::uint64_t offset : {1, 2, 3}) {
    make(0);
    NodePage(image.data()).insert(2, {1, 1, offset}, as_value("third"));
    EXPECT_EQ(is_accepted(), offset == 3) << offset;
  }
}

}  // namespace
}  // namespace lazyfs::meta
