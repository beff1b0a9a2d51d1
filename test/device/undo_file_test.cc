#include "device/undo_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "base/buffer.h"
#include "test/support/result_printer.h"
#include "test/support/seed.h"
#include "test/support/test_folder.h"

namespace lazyfs::device {
namespace {

constexpr std::uint64_t kDeviceBytes = 3'000'000;  // its last block is a part of one

class UndoFileTest : public testing::Test {
 protected:
  UndoFileTest() {
    std::string text(kDeviceBytes, '\0');
    for (std::size_t i = 0; i < text.size() / 2; ++i) text[i] = static_cast<char>('a' + i % 7);
    put(device_path_, text);
    before_ = text;
  }
  static void put(const std::string& path, std::string_view text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  static std::string contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  Backing open_device(UndoFile* undo) {
    Backing backing = *Backing::open(device_path_, false, Backing::Claim::kNone);
    backing.keep_in(undo);
    return backing;
  }
  static void write(const Backing& backing, std::uint64_t at, std::size_t length, char letter) {
    const std::string text(length, letter);
    ASSERT_TRUE(backing.write(at, std::as_bytes(std::span(text))));
  }
  // Changes three places, one of them twice.
  void repair(bool to_the_end = true) {
    const auto undo = UndoFile::make(undo_path_);
    ASSERT_TRUE(undo);
    const Backing backing = open_device(undo->get());
    write(backing, 0, 4096, 'x');
    write(backing, 2'000'000, 10, 'y');
    write(*backing.duplicate(), 100, 8192, 'z');
    write(backing, kDeviceBytes - 5, 5, 'w');
    if (to_the_end) {
      ASSERT_TRUE((*undo)->finish(backing));
    }
  }
  std::string undo_error(bool force = false) {
    const auto undone = undo(undo_path_, device_path_, force);
    EXPECT_FALSE(undone);
    return undone ? "" : undone.error();
  }

  const TestFolder folder_;
  const std::string device_path_ = (folder_ / "device").string(),
                    undo_path_ = (folder_ / "undo").string();
  std::string before_;
};

TEST_F(UndoFileTest, TakesARepairBack) {
  repair();
  EXPECT_NE(contents(device_path_), before_);
  const auto undone = undo(undo_path_, device_path_, false);
  ASSERT_TRUE(undone) << undone.error();
  EXPECT_EQ(contents(device_path_), before_);
  EXPECT_EQ(*undone, 3 * 4096 + 4096 + kDeviceBytes % 4096);
  EXPECT_TRUE(undo(undo_path_, device_path_, false));  // as after an interrupted one
  EXPECT_EQ(contents(device_path_), before_);
}

TEST_F(UndoFileTest, NothingCountsAsKeptUntilItIsDurable) {
  Backing file = *Backing::make(undo_path_);
  const int descriptor = file.descriptor();
  const int real = ::dup(descriptor), null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ASSERT_GE(::dup2(null, descriptor), 0);  // it cannot be synced
  UndoFile undo(std::move(file));
  const Backing device = open_device(nullptr);
  EXPECT_EQ(undo.keep(device, 0, 4096), fail(Errc::kDeviceFlush));
  ASSERT_GE(::dup2(real, descriptor), 0);  // the next fdatasync(2) would succeed
  for (const int fd : {real, null}) ::close(fd);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(undo.keep(device, 0, 4096), fail(Errc::kDeviceFlush));
  EXPECT_EQ(undo.finish(device), fail(Errc::kDeviceFlush));
}

TEST_F(UndoFileTest, NothingIsWrittenWhoseOldContentsAreNotDurable) {
  Backing file = *Backing::make(undo_path_);
  const int descriptor = file.descriptor();
  UndoFile undo(std::move(file));
  const Backing device = open_device(&undo);
  write(device, 0, 4096, 'x');
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ASSERT_GE(::dup2(null, descriptor), 0);  // it cannot be synced
  ::close(null);
  const std::string text(4096, 'y');
  EXPECT_EQ(device.write(8192, std::as_bytes(std::span(text))), fail(Errc::kDeviceFlush));
  EXPECT_TRUE(contents(device_path_).substr(8192) == before_.substr(8192));
  EXPECT_EQ(device.discard(8192, 4096, [] { return true; }), fail(Errc::kUnsupported));
}

TEST_F(UndoFileTest, ADeviceThatTheCallerHoldsIsCoveredToo) {
  const auto kept = UndoFile::make(undo_path_);
  {
    const Backing held = *Backing::open(device_path_, false, Backing::Claim::kExclusive);
    const Backing device =
        *Backing::open(device_path_, OpenOptions{.held = &held, .undo = kept->get()});
    write(device, 0, 4096, 'x');
    EXPECT_NE(undo_error(true).find(describe(Errc::kDeviceBusy)), std::string::npos);
  }
  ASSERT_TRUE(undo(undo_path_, device_path_, true));
  EXPECT_TRUE(contents(device_path_) == before_);
}

TEST_F(UndoFileTest, ALongChangeIsKeptInSeveralRanges) {
  const auto kept = UndoFile::make(undo_path_);
  write(open_device(kept->get()), 100, kDeviceBytes - 200, 'x');
  ASSERT_TRUE((*kept)->finish(open_device(nullptr)));
  ASSERT_TRUE(undo(undo_path_, device_path_, false));
  EXPECT_TRUE(contents(device_path_) == before_);
}

TEST_F(UndoFileTest, ARepairThatChangedNothingIsTakenBack) {
  const auto kept = UndoFile::make(undo_path_);
  ASSERT_TRUE((*kept)->finish(open_device(nullptr)));
  EXPECT_EQ(undo(undo_path_, device_path_, false), 0u);
}

TEST_F(UndoFileTest, ZerosTakeNoSpaceInIt) {
  const auto kept = UndoFile::make(undo_path_);
  write(open_device(kept->get()), 1'600'000, 1'000'000, 'x');
  EXPECT_LT(std::filesystem::file_size(undo_path_), 1000u);
  ASSERT_TRUE(undo(undo_path_, device_path_, true));
  EXPECT_EQ(contents(device_path_), before_);
}

TEST_F(UndoFileTest, WhatChangedAfterTheRepairIsNotUndone) {
  repair();
  write(open_device(nullptr), 5000, 1, 'q');
  const std::string now = contents(device_path_);
  EXPECT_NE(undo_error().find("changed after the repair"), std::string::npos);
  EXPECT_EQ(contents(device_path_), now);
  ASSERT_TRUE(undo(undo_path_, device_path_, true));
  EXPECT_EQ(contents(device_path_), before_);
}

TEST_F(UndoFileTest, AnInterruptedRepairIsUndoneByForce) {
  repair(false);
  EXPECT_NE(undo_error().find("interrupted"), std::string::npos);
  ASSERT_TRUE(undo(undo_path_, device_path_, true));
  EXPECT_EQ(contents(device_path_), before_);
}

// The power may go at any moment: what is on the device is covered by what is whole of the file.
TEST_F(UndoFileTest, ATornLastRecordIsAsIfItWereNotThere) {
  repair(false);
  const std::string file = contents(undo_path_);
  put(device_path_, before_);
  const std::string first = (folder_ / "first").string();
  std::size_t whole = 0;
  {
    const auto undo = UndoFile::make(first);
    write(open_device(undo->get()), 0, 4096, 'x');
    whole = contents(first).size();
  }
  const std::string changed = contents(device_path_);
  for (const std::size_t torn : {0, 1, 31, 32, 33, 1000}) {
    put(device_path_, changed);
    put(undo_path_, file.substr(0, whole + torn));
    ASSERT_TRUE(undo(undo_path_, device_path_, true)) << torn;
    ASSERT_EQ(contents(device_path_), before_) << torn;
  }
}

// A crash may have made the file longer before its bytes came.
TEST_F(UndoFileTest, ADamagedRecordIsNotWrittenBack) {
  const auto kept = UndoFile::make(undo_path_);
  write(open_device(kept->get()), 0, 4096, 'x');
  const std::string changed = contents(device_path_), file = contents(undo_path_);
  for (const std::size_t at : {32 + 12, 32 + 15, 32 + 16, 64, 64 + 4095}) {
    std::string damaged = file;
    damaged[at] ^= 0x40;
    put(undo_path_, damaged);
    EXPECT_EQ(undo(undo_path_, device_path_, true), 0u) << at;
    ASSERT_TRUE(contents(device_path_) == changed) << at;
  }
}

TEST_F(UndoFileTest, ALengthThatNoRangeHasIsNotFollowed) {
  const auto kept = UndoFile::make(undo_path_);
  write(open_device(kept->get()), 2'000'000, 4096, 'x');  // zeros before
  std::string file = contents(undo_path_);
  file[32 + 15] = 0x40;
  put(undo_path_, file);
  EXPECT_EQ(undo(undo_path_, device_path_, true), 0u);
}

TEST_F(UndoFileTest, AFileThatLacksAStateCannotShowLaterChanges) {
  repair();
  std::string file = contents(undo_path_);
  file.erase(file.size() - 64, 32);
  put(undo_path_, file);
  EXPECT_NE(undo_error().find("interrupted"), std::string::npos);
}

TEST_F(UndoFileTest, RangesPastTheEndOfTheDeviceAreRefused) {
  const auto kept = UndoFile::make(undo_path_);
  const Backing backing = open_device(kept->get());
  write(backing, 0, 4096, 'x');
  std::filesystem::resize_file(device_path_, 2 * kDeviceBytes);
  write(backing, 2 * kDeviceBytes - 4096, 4096, 'x');
  std::filesystem::resize_file(device_path_, kDeviceBytes);
  EXPECT_NE(undo_error(true).find("does not have"), std::string::npos);
  EXPECT_EQ(std::filesystem::file_size(device_path_), kDeviceBytes);
}

TEST_F(UndoFileTest, OtherDevicesAndFilesAreRefused) {
  repair();
  put(device_path_, before_ + "x");
  EXPECT_NE(undo_error(true).find("another size"), std::string::npos);
  std::string file = contents(undo_path_);
  file[20] ^= 1;
  put(undo_path_, file);
  EXPECT_NE(undo_error(true).find("no undo file"), std::string::npos);
  put(undo_path_, "");
  EXPECT_NE(undo_error(true).find("no undo file"), std::string::npos);
  const auto again = UndoFile::make(undo_path_);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error(), Errc::kEdiExists);
}

TEST_F(UndoFileTest, RandomChangesAreUndone) {
  SCOPED_TRACE(seed_trace());
  std::mt19937_64 random(test_seed());
  const auto kept = UndoFile::make(undo_path_);
  {
    const Backing backing = open_device(kept->get());
    for (int i = 0; i < 200; ++i) {
      const std::uint64_t at = random() % kDeviceBytes;
      const std::size_t length = 1 + random() % std::min<std::uint64_t>(100'000, kDeviceBytes - at);
      write(backing, at, length, static_cast<char>(random()));
    }
    ASSERT_TRUE((*kept)->finish(backing));
  }
  ASSERT_TRUE(undo(undo_path_, device_path_, false));
  EXPECT_TRUE(contents(device_path_) == before_);
}

}  // namespace
}  // namespace lazyfs::device
