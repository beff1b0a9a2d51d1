#include "meta/tree/node_table.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <set>

#include "test/support/seed.h"

namespace lazyfs::meta {
namespace {

class NodeTableTest : public ::testing::Test {
 protected:
  ~NodeTableTest() override { table.clear([](Node*) {}); }
  Node& make(std::uint64_t number) {
    Node& node = nodes.emplace_back();
    node.number = NodeNo{number};
    return node;
  }
  void expect_numbers(const std::set<std::uint64_t>& numbers, std::uint64_t end) const {
    EXPECT_EQ(table.size(), numbers.size());
    for (std::uint64_t n = 1; n < end; ++n) {
      const Node* const found = table.find(NodeNo{n});
      ASSERT_EQ(found != nullptr, numbers.contains(n)) << n;
      if (found) {
        ASSERT_EQ(found->number, NodeNo{n});
      }
    }
  }

  std::deque<Node> nodes;  // outlives the table
  NodeTable table{16};
};

TEST_F(NodeTableTest, FindsWhatWasInsertedAlsoFarBeyondTheExpectedNumber) {
  std::set<std::uint64_t> numbers;
  for (std::uint64_t n = 1; n < 3000; n += 2) {
    ASSERT_TRUE(table.insert(make(n)));
    numbers.insert(n);
  }
  expect_numbers(numbers, 3010);
}

TEST_F(NodeTableTest, RefusesASecondNodeOfANumber) {
  Node& first = make(7);
  ASSERT_TRUE(table.insert(first));
  EXPECT_FALSE(table.insert(make(7)));
  EXPECT_EQ(table.find(NodeNo{7}), &first);
  EXPECT_EQ(table.size(), 1u);
}

// A damaged tree may name a node twice.
TEST_F(NodeTableTest, EndsTheProgramWhenANodeIsTakenOutTwice) {
  Node& node = make(7);
  ASSERT_TRUE(table.insert(node));
  table.erase(node);
  EXPECT_EQ(table.find(NodeNo{7}), nullptr);
  EXPECT_DEATH(table.erase(node), "invariant violated");
}

TEST_F(NodeTableTest, TakesLittleMemoryHoweverManyNodesAreExpected) {
  ASSERT_TRUE(table.insert(make(7)));
  table.expect(SIZE_MAX);
  EXPECT_NE(table.find(NodeNo{7}), nullptr);
}

TEST_F(NodeTableTest, KeepsItsNodesWhenMoreOrFewerAreExpected) {
  SCOPED_TRACE(seed_trace());
  std::mt19937_64 random(test_seed());
  std::set<std::uint64_t> numbers;
  for (const std::size_t expected : {1000, 100, 100'000, 1}) {
    for (int i = 0; i < 500; ++i) {
      const std::uint64_t n = 1 + random() % 4000;
      if (Node* const there = table.find(NodeNo{n})) {
        table.erase(*there);
        numbers.erase(n);
      } else {
        ASSERT_TRUE(table.insert(make(n)));
        numbers.insert(n);
      }
    }
    table.expect(expected);
    expect_numbers(numbers, 4010);
  }
}

TEST_F(NodeTableTest, GivesAllNodesAwayAtTheEnd) {
  for (std::uint64_t n = 1; n <= 200; ++n) ASSERT_TRUE(table.insert(make(n)));
  std::set<std::uint64_t> given;
  table.clear([&](Node* node) { given.insert(node->number.value); });
  EXPECT_EQ(given.size(), 200u);
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(table.find(NodeNo{7}), nullptr);
}

}  // namespace
}  // namespace lazyfs::meta
