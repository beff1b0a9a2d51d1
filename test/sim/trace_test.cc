// Traces of each format: what their lines mean, and that bad lines are named.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "sim/trace_format.h"
#include "sim/trace_reader.h"
#include "test/support/test_folder.h"

namespace lazyfs::sim {
namespace {

class TraceTest : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  // All requests as lines of the format of lazyfs; the error, if there is one, comes last.
  static std::vector<std::string> read_all(std::vector<std::string> paths,
                                           SectorRange journal = {}) {
    TraceReader reader(std::move(paths), journal);
    std::vector<std::string> lines;
    while (true) {
      const auto request = reader.next();
      if (!request) {
        lines.push_back(request.error());
        return lines;
      }
      if (!*request) return lines;
      lines.push_back(trace_line(**request));
    }
  }
  std::string error_of(const std::string& text) {
    const std::string path = file("bad", text);
    const std::string last = read_all({path}).back();
    return last.starts_with(path) ? last.substr(path.size()) : last;
  }
  TestFolder folder_;
};

using Lines = std::vector<std::string>;

TEST_F(TraceTest, ReadsItsOwnFormat) {
  const Lines lines{"0 W 100 8 M", "1500 R 200 16 -", "2000 F 0 0 -", "2500 D 0 1024 J"};
  std::string text = std::string(kTraceHeader) + "\n";
  for (const auto& line : lines) text += line + "\n";
  EXPECT_EQ(read_all({file("own", text)}), lines);
}

TEST_F(TraceTest, ReadsCompressedTraces) {
  const std::string path = file("own", std::string(kTraceHeader) + "\n0 W 100 8 -\n");
  ASSERT_EQ(std::system(("xz -k " + path).c_str()), 0);
  EXPECT_EQ(read_all({path + ".xz"}), (Lines{"0 W 100 8 -"}));
}

TEST_F(TraceTest, ReportsACompressedTraceThatIsCutOff) {
  const std::string path = file("own", std::string(kTraceHeader) + "\n0 W 100 8 -\n");
  ASSERT_EQ(std::system(("xz -k " + path + " && truncate -s -20 " + path + ".xz").c_str()), 0);
  EXPECT_TRUE(read_all({path + ".xz"}).back().contains("damaged or cut off"));
}

TEST_F(TraceTest, TimesContinueFromFileToFile) {
  const std::string text = std::string(kTraceHeader) + "\n5000 W 0 8\n6000 W 8 8\n";
  EXPECT_EQ(read_all({file("a", text), file("b", text)}),
            (Lines{"0 W 0 8 -", "1000 W 8 8 -", "1000 W 0 8 -", "2000 W 8 8 -"}));
}

TEST_F(TraceTest, ReadsFiosLog) {
  EXPECT_EQ(read_all({file("fio", "fio version 2 iolog\n"
                                  "/dev/x add\n/dev/x open\n"
                                  "/dev/x write 4096 8192\n"
                                  "/dev/x wait 500 0\n"
                                  "/dev/x read 0 512\n"
                                  "/dev/x sync 0 0\n"
                                  "/dev/x trim 0 4096\n"
                                  "/dev/x close\n")}),
            (Lines{"0 W 8 16 -", "500 R 0 1 -", "500 F 0 0 -", "500 D 0 8 -"}));
}

TEST_F(TraceTest, ReadsFiosLogWithTimes) {
  EXPECT_EQ(read_all({file("fio", "fio version 3 iolog\n"
                                  "10 /dev/x open\n"
                                  "10 /dev/x write 0 4096\n"
                                  "12 /dev/x write 4096 4096\n")}),
            (Lines{"0 W 0 8 -", "2000 W 8 8 -"}));
}

TEST_F(TraceTest, ReadsTheTextOfBlkparse) {
  EXPECT_EQ(
      read_all({file(
          "blk", "  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]\n"
                 "  8,0    3        2     0.000010000   697  D  WS 223490 + 8 [kjournald]\n"
                 "  8,0    3        3     0.000020000   697  D FWFSM 100 + 8 [kjournald]\n"
                 "  8,0    3        4     0.000030000   697  D  FN [kjournald]\n"
                 "  8,0    3        5     0.000040000   697  C  WS 223490 + 8 [0]\n"
                 "CPU0 (8,0):\n Reads Queued:           0,        0KiB\n")}),
      (Lines{"0 W 223490 8 -", "10 F 0 0 -", "10 W 100 8 M", "10 F 0 0 -", "20 F 0 0 -"}));
}

TEST_F(TraceTest, ReadsTheKernelsEvents) {
  EXPECT_EQ(
      read_all({file(
          "ftrace",
          "# tracer: nop\n#\n"
          "  jbd2/loop0-8-12 [001] .... 10.000100: block_rq_issue: 7,0 WS 4096 () 2048 + 8 [jbd2]\n"
          "  jbd2/loop0-8-12 [001] .... 10.000150: block_rq_complete: 7,0 WS () 2048 + 8 [0]\n"
          "  kworker/0:1-9 [000] d..1. 10.000200: block_rq_issue: 7,0 RM 4096 () 96 + 8 "
          "none,0,0 [kworker]\n"
          "  kworker/0:1-9 [000] d..1. 10.000300: block_rq_issue: 7,0 FF 0 () 0 + 0 [kworker]\n")},
               {.first = 2000, .last = 3000}),
      (Lines{"0 W 2048 8 J", "100 R 96 8 M", "200 F 0 0 -"}));
}

TEST_F(TraceTest, ReadsMeasuredRequestsWithTheirPauses) {
  TraceReader reader({file("v", "R Hit 100 4 500.0 2000.0\nW Hit 200 8 900.0 10.0\n")}, {});
  EXPECT_EQ(trace_line(**reader.next()), "0 R 100 4 -");
  EXPECT_TRUE(reader.is_thinking());
  EXPECT_EQ(trace_line(**reader.next()), "2000 W 200 8 -");
  EXPECT_EQ(reader.measured_reads_ms(), std::vector<double>{0.5});
}

TEST_F(TraceTest, NamesTheLineThatIsWrong) {
  const std::string start = std::string(kTraceHeader) + "\n0 W 0 8\n\n";
  EXPECT_EQ(error_of(start + "1 X 0 8\n"), ":4: not an operation (R, W, F, D): 'X'");
  EXPECT_EQ(error_of(start + "-1 W 0 8\n"), ":4: not a time: '-1'");
  EXPECT_EQ(error_of(start + "nan W 0 8\n"), ":4: not a time: 'nan'");
  EXPECT_EQ(error_of(start + "1 W 0\n"), ":4: 4 or 5 words expected: '1 W 0'");
  EXPECT_EQ(error_of(start + "1 W 0 99999999999\n"),
            ":4: not a range of sectors: '0 99999999999'");
  EXPECT_EQ(error_of(start + "1 W 0 0\n"),
            ":4: a flush, and nothing else, has 0 sectors: '0'");
  EXPECT_EQ(error_of(start + "1 W 0 8 Q\n"), ":4: not flags (-, M, J): 'Q'");
  EXPECT_EQ(error_of("hello\n"), ":1: not a known format of traces");
  EXPECT_EQ(error_of("fio version 2 iolog\n/dev/x jump 0 1\n"),
            ":2: not an action of an iolog: 'jump'");
  EXPECT_EQ(error_of("# tracer: nop\nx 1.5: block_rq_issue: 7,0 W 1 () x + 8\n"),
            ":2: not a range of sectors: 'x 1.5: block_rq_issue: 7,0 W 1 () x + 8'");
  EXPECT_EQ(error_of("R Hit 1 4 1 1\nR Hit 1 4 x 1\n"), ":2: not a time: 'x'");
}

TEST_F(TraceTest, ReadsTheLargestLengthOfFiosLogAndNamesALongerOne) {
  const std::string write = "fio version 2 iolog\n/dev/x write ";
  EXPECT_EQ(read_all({file("most", write + "0 2199023255040\n")}), Lines{"0 W 0 4294967295 -"});
  EXPECT_EQ(error_of(write + "0 2199023255041\n"), ":2: not a length: '2199023255041'");
  EXPECT_EQ(error_of(write + "0 2199023255551\n"), ":2: not a length: '2199023255551'");
  EXPECT_EQ(error_of(write + "1 2199023255040\n"), ":2: not a length: '2199023255040'");
  EXPECT_EQ(error_of(write + "0 18446744073709551615\n"),
            ":2: not a length: '18446744073709551615'");
  EXPECT_EQ(error_of(write + "0 0\n"), ":2: not a length: '0'");
}

TEST_F(TraceTest, ReadsTheSectorsThatBytesAtTheHighestOffsetTouch) {
  EXPECT_EQ(read_all({file("high", "fio version 2 iolog\n/dev/x write 18446744073709551615 2\n")}),
            Lines{"0 W 36028797018963967 2 -"});
  EXPECT_EQ(read_all({file("middle", "fio version 2 iolog\n/dev/x write 511 2\n")}),
            Lines{"0 W 0 2 -"});
}

TEST_F(TraceTest, NamesAFileThatIsMissing) {
  EXPECT_EQ(read_all({"/nonexistent"}), Lines{"/nonexistent: cannot be opened"});
}

TEST_F(TraceTest, NoTextMakesTheParserFail) {
  const std::vector<std::string> words{"",     "R",   "W",  "8,0", "+",   "F",  "-1", "1e300",
                                       "99999999999999999999", "[x", "x:", "\t", "block_rq_issue:"};
  for (int format = 0; format <= static_cast<int>(TraceFormat::kValidation); ++format) {
    for (std::size_t seed = 0; seed < 5000; ++seed) {
      std::string line;
      for (std::size_t i = 0, rest = seed * 2'654'435'761; i < 8; ++i, rest /= words.size()) {
        line += words[rest % words.size()] + " ";
      }
      const auto parsed = parse_trace_line(static_cast<TraceFormat>(format), line);
      ASSERT_TRUE(!parsed || parsed->count <= parsed->requests.size());
    }
  }
}

}  // namespace
}  // namespace lazyfs::sim
