// docs/format.md against the codecs: the tables of section 5 say what list_fields() lists.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "fs/item/schema.h"

namespace lazyfs::fs {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(' ');
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

// "| 16 | 4 each | text |" without its bars.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream in(line.substr(1));
  for (std::string cell; std::getline(in, cell, '|');) cells.emplace_back(trimmed(cell));
  return cells;
}

// The rows of the first table after the line that begins with **title**, up to a row that repeats
// ("each").
std::vector<FieldRow> documented(std::string_view title) {
  std::ifstream in(LAZYFS_SOURCE_DIR "/docs/format.md");
  EXPECT_TRUE(in);
  const std::string heading = "**" + std::string(title) + "**";
  std::vector<FieldRow> rows;
  bool found = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(heading)) found = true;
    if (!found) continue;
    const bool is_row = line.starts_with("| ") && !line.starts_with("| offset");
    if (!is_row && !rows.empty()) break;
    if (!is_row) continue;
    const auto cells = cells_of(line);
    EXPECT_GE(cells.size(), 3u) << line;
    if (cells[1].ends_with("each")) break;
    rows.push_back({std::stoul(cells[0]), cells[1].empty() ? 0 : std::stoul(cells[1]), cells[2]});
  }
  return rows;
}

template <class Record>
void expect_documented(std::string_view title) {
  SCOPED_TRACE(title);
  const auto rows = documented(title), fields = fields_of<Record>();
  ASSERT_EQ(rows.size(), fields.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].offset, fields[i].offset) << fields[i].name;
    EXPECT_EQ(rows[i].bytes, fields[i].bytes) << fields[i].name;
    EXPECT_TRUE(rows[i].name.starts_with(fields[i].name))
        << "documented: " << rows[i].name << ", listed: " << fields[i].name;
  }
}

TEST(FormatTablesTest, EachTableSaysWhatTheCodecLists) {
  expect_documented<InodeRecord>("Inode");
  expect_documented<DentryRecord>("Directory entry");
  expect_documented<ExtentHeader>("Extent");
  expect_documented<ReferenceRecord>("Reference");
  expect_documented<ReferenceCountRecord>("Reference count");
  expect_documented<AppendRecord>("Append record");
  expect_documented<DeleteRecord>("Delete record");
  expect_documented<BandSummaryRecord>("Band summary");
  expect_documented<CounterRecord>("Counters");
  expect_documented<OrphanRecord>("Orphan");
  expect_documented<LostRangeFields>("Lost range");
  expect_documented<XattrRecord>("Name of an extended attribute");
}

}  // namespace
}  // namespace lazyfs::fs
