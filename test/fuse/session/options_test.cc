#include "fuse/session/options.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lazyfs::fuse {
namespace {

bool passes(const Options& options, const std::string& word) {
  return std::ranges::find(options.session.kernel, word) != options.session.kernel.end();
}

Options parsed(const std::string& list, bool as_root = true) {
  auto options = parse_options({list}, as_root);
  EXPECT_TRUE(options.has_value()) << options.error();
  return options.value_or(Options{});
}

std::string refusal(const std::string& list) {
  const auto options = parse_options({list}, true);
  return options ? "" : options.error();
}

TEST(Options, RootsMountIsAsADiskFilesystemsWithoutAnyOption) {
  const Options options = parsed("");
  EXPECT_TRUE(options.session.allow_other);
  EXPECT_TRUE(passes(options, "rw"));
  EXPECT_TRUE(passes(options, "dev"));
  EXPECT_TRUE(passes(options, "suid"));
  EXPECT_FALSE(options.volume.read_only);
  EXPECT_EQ(options.volume.access_time, fs::AccessTime::kRelative);
  EXPECT_EQ(options.volume.commit_interval, std::chrono::seconds(5));
}

TEST(Options, AnotherUsersMountAsksForNothingThatOnlyRootMay) {
  const Options options = parsed("", false);
  EXPECT_FALSE(options.session.allow_other);
  EXPECT_FALSE(passes(options, "dev"));
  EXPECT_FALSE(passes(options, "suid"));
}

TEST(Options, EveryOptionOfOursReachesTheVolume) {
  const Options options = parsed(
      "ro,noatime,commit=30,cache=64M,dirty=1G,placement=age,clean=tail,gc=idle,gc_low=40,"
      "gc_high=5,gc_idle=7,gc_rate=1M,loglevel=debug,logfile=/var/log/lazyfs");
  EXPECT_TRUE(options.volume.read_only);
  EXPECT_TRUE(passes(options, "ro"));
  EXPECT_EQ(options.volume.access_time, fs::AccessTime::kNone);
  EXPECT_EQ(options.volume.commit_interval, std::chrono::seconds(30));
  EXPECT_EQ(options.volume.cache_bytes, std::size_t{64} << 20);
  EXPECT_EQ(options.volume.dirty_bytes, std::size_t{1} << 30);
  EXPECT_EQ(options.volume.placement, data::Placement::kAgeFit);
  EXPECT_EQ(options.volume.clean, fs::CleanChoice::kTail);
  EXPECT_TRUE(options.volume.gc_idle);
  EXPECT_FALSE(options.volume.gc_space);
  EXPECT_EQ(options.volume.gc_low_percent, 40u);
  EXPECT_EQ(options.volume.gc_high_percent, 5u);
  EXPECT_EQ(options.volume.gc_idle_after, std::chrono::seconds(7));
  EXPECT_EQ(options.volume.gc_idle_rate, std::uint64_t{1} << 20);
  EXPECT_EQ(options.log_level, "debug");
  EXPECT_EQ(options.log_file, "/var/log/lazyfs");
}

TEST(Options, BandsAreDiscardedUnlessAskedNotTo) {
  EXPECT_TRUE(parsed("").volume.discard);
  EXPECT_FALSE(parsed("discard,nodiscard").volume.discard);
  EXPECT_TRUE(parsed("nodiscard,discard").volume.discard);
}

TEST(Options, TheKernelGathersWritesUnlessAskedNotTo) {
  EXPECT_TRUE(parsed("").session.requests.writeback_cache);
  EXPECT_FALSE(parsed("writeback,nowriteback").session.requests.writeback_cache);
  EXPECT_TRUE(parsed("nowriteback,writeback").session.requests.writeback_cache);
}

TEST(Options, ChoicesOfCleaningAreParsed) {
  const Options both = parsed("gc=idle+space");
  EXPECT_TRUE(both.volume.gc_idle && both.volume.gc_space);
  const Options space = parsed("gc=space");
  EXPECT_TRUE(!space.volume.gc_idle && space.volume.gc_space);
  const Options off = parsed("gc=off");
  EXPECT_TRUE(!off.volume.gc_idle && !off.volume.gc_space);
}

TEST(Options, ALaterOptionWins) {
  const auto options = parse_options({"ro,nodev", "rw,dev,commit=1", "commit=2"}, true);
  ASSERT_TRUE(options.has_value());
  EXPECT_TRUE(passes(*options, "rw"));
  EXPECT_FALSE(passes(*options, "ro"));
  EXPECT_TRUE(passes(*options, "dev"));
  EXPECT_EQ(options->volume.commit_interval, std::chrono::seconds(2));
}

TEST(Options, UserMountsLoseDevicesSetUserIdAndExecutingUnlessGivenBack) {
  const Options user = parsed("user");
  EXPECT_TRUE(passes(user, "nodev") && passes(user, "nosuid") && passes(user, "noexec"));
  const Options back = parsed("user,exec,suid,dev");
  EXPECT_TRUE(passes(back, "dev") && passes(back, "suid") && !passes(back, "noexec"));
  const Options owner = parsed("owner");
  EXPECT_TRUE(passes(owner, "nodev") && passes(owner, "nosuid") && !passes(owner, "noexec"));
}

TEST(Options, WhatMountKnowsAndLibfuseDoesNotIsTakenOut) {
  const Options options = parsed(
      "defaults,auto,noauto,nofail,_netdev,x-systemd.automount,x-gvfs-show,relatime,lazytime,"
      "diratime,nouser,comment=of mine,,");
  EXPECT_EQ(options.session.kernel, (std::vector<std::string>{"rw", "dev", "suid"}));
}

TEST(Options, NodiratimeReachesTheVolume) {
  EXPECT_TRUE(parsed("").volume.directory_access_time);
  EXPECT_FALSE(parsed("nodiratime").volume.directory_access_time);
  EXPECT_TRUE(parsed("nodiratime,diratime").volume.directory_access_time);
}

TEST(Options, SyncAndDirsyncReachTheKernel) {
  const Options options = parsed("sync,dirsync");
  EXPECT_TRUE(passes(options, "sync") && passes(options, "dirsync"));
  EXPECT_FALSE(passes(parsed("sync,async"), "sync"));
}

TEST(Options, CpusAreKeptAwakeAsChosen) {
  EXPECT_EQ(parsed("").session.transport.cpu_latency, CpuLatencyChoice::kAuto);
  EXPECT_EQ(parsed("awake=on").session.transport.cpu_latency, CpuLatencyChoice::kOn);
  EXPECT_EQ(parsed("awake=off").session.transport.cpu_latency, CpuLatencyChoice::kOff);
}

TEST(Options, TheTransportIsAsChosen) {
  EXPECT_EQ(parsed("").session.transport.choice, TransportChoice::kAuto);
  EXPECT_EQ(parsed("transport=read").session.transport.choice, TransportChoice::kRead);
  EXPECT_EQ(parsed("transport=io_uring").session.transport.choice, TransportChoice::kIoUring);
}

TEST(Options, WhatProcMountsSaysOfAMountRemountsIt) {
  const Options options = parsed(
      "rw,nosuid,relatime,user_id=0,group_id=0,default_permissions,allow_other,blksize=4096,"
      "max_read=131072,remount,ro");
  EXPECT_TRUE(options.remount);
  EXPECT_EQ(options.session.kernel, (std::vector<std::string>{"ro", "dev", "nosuid"}));
}

TEST(Options, WhatARemountDoesNotNameStays) {
  const Options before = parsed("commit=30,placement=best,gc=off,strictatime,sync,threads=7");
  const auto after = parse_options({"remount,rw,cache=1M"}, false, before);
  ASSERT_TRUE(after) << after.error();
  EXPECT_EQ(after->volume.cache_bytes, std::size_t{1} << 20);
  EXPECT_EQ(after->volume.commit_interval, std::chrono::seconds(30));
  EXPECT_EQ(after->volume.placement, data::Placement::kBestFit);
  EXPECT_FALSE(after->volume.gc_idle);
  EXPECT_EQ(after->volume.access_time, fs::AccessTime::kStrict);
  EXPECT_EQ(after->session.transport.threads_max, 7u);
  EXPECT_EQ(after->session.allow_other, before.session.allow_other);
  // mount(8) repeats the flags that the kernel shows.
  EXPECT_EQ(after->session.requests.sync, SyncChoice::kNone);
  EXPECT_EQ(after->session.kernel, std::vector<std::string>{"rw"});
}

TEST(Options, ARemountThatDoesNotNameThemEndsNoatimeAndNodiratime) {
  const Options before = parsed("noatime,nodiratime");
  EXPECT_TRUE(passes(before, "noatime") && passes(before, "nodiratime"));
  const auto kept = parse_options({"remount,rw,noatime,nodiratime,commit=9"}, false, before);
  ASSERT_TRUE(kept) << kept.error();
  EXPECT_EQ(kept->volume.access_time, fs::AccessTime::kNone);
  EXPECT_FALSE(kept->volume.directory_access_time);
  // All that mount(8) passes on of atime and diratime.
  const auto ended = parse_options({"remount,rw"}, false, *kept);
  ASSERT_TRUE(ended) << ended.error();
  EXPECT_EQ(ended->volume.access_time, fs::AccessTime::kRelative);
  EXPECT_TRUE(ended->volume.directory_access_time);
  EXPECT_EQ(ended->session.kernel, std::vector<std::string>{"rw"});
}

TEST(Options, RemountIsSeen) {
  EXPECT_TRUE(parsed("remount,ro").remount);
  EXPECT_FALSE(parsed("ro").remount);
}

TEST(Options, CleaningHasAGreedyChoice) {
  EXPECT_EQ(parsed("clean=greedy").volume.clean, fs::CleanChoice::kGreedy);
}

TEST(Options, ATimeAndARateOfZeroAreAllowedForIdleness) {
  const Options options = parsed("gc_idle=0,gc_rate=0");
  EXPECT_EQ(options.volume.gc_idle_after, std::chrono::seconds(0));
  EXPECT_EQ(options.volume.gc_idle_rate, 0u);
}

TEST(Options, LinesForExt4AreTakenOrAnswered) {
  const Options options = parsed("defaults,acl,user_xattr,barrier=1,noquota,errors=remount-ro");
  EXPECT_FALSE(options.volume.read_only);
  parsed("barrier,discard");
  EXPECT_EQ(refusal("nobarrier"), "option 'nobarrier': is not possible: all commits are flushed");
  EXPECT_EQ(refusal("barrier=0"), "option 'barrier': 0 is not possible: all commits are flushed");
  EXPECT_EQ(refusal("noacl"), "option 'noacl': is not possible: access control lists are heeded");
  EXPECT_EQ(refusal("nouser_xattr"),
            "option 'nouser_xattr': is not possible: extended attributes are kept");
  EXPECT_EQ(refusal("usrquota"), "option 'usrquota': is not possible: lazyfs keeps no quotas");
}

TEST(Options, ADaemonThatDiesIsStartedAgainAsAsked) {
  EXPECT_EQ(parsed("").restart, Restart::kNo);
  EXPECT_EQ(parsed("restart=once").restart, Restart::kOnce);
  EXPECT_EQ(parsed("restart=always").restart, Restart::kAlways);
  EXPECT_EQ(parsed("restart=always,restart=no").restart, Restart::kNo);
  EXPECT_EQ(parsed("restart=once,restart=spent").restart, Restart::kOnce);
  EXPECT_TRUE(parsed("restart=spent,restart=once").was_restarted);
  EXPECT_FALSE(parsed("restart=once").was_restarted);
  EXPECT_EQ(refusal("restart=soon"), "option 'restart': 'soon' is none of always, no, once");
}

TEST(Options, WhatHappensAfterAnErrorCanBeChosen) {
  EXPECT_EQ(parsed("").after_error, AfterError::kRemountReadOnly);
  EXPECT_EQ(parsed("").panic_trigger, "/proc/sysrq-trigger");
  EXPECT_EQ(parsed("errors=continue").after_error, AfterError::kContinue);
  EXPECT_EQ(parsed("errors=panic,panic_trigger=/x").after_error, AfterError::kPanic);
  EXPECT_EQ(parsed("errors=panic,errors=remount-ro").after_error, AfterError::kRemountReadOnly);
}

TEST(Options, AreAllListed) {
  const std::string list = list_options();
  for (const char* name : {"ro\n", "commit=VALUE\n", "errors=VALUE\n", "restart=VALUE\n"}) {
    EXPECT_NE(list.find(name), list.npos) << name;
  }
}

TEST(Options, RefusalsNameTheOptionAndTheReason) {
  EXPECT_EQ(refusal("colour=blue"), "option 'colour=blue': not known; man lazyfs lists them");
  EXPECT_EQ(refusal("commit"), "option 'commit': needs a value");
  EXPECT_EQ(refusal("on_error=mail"), "option 'on_error': 'mail' is not an absolute path");
  EXPECT_EQ(refusal("errors=ignore"),
            "option 'errors': 'ignore' is none of continue, panic, remount-ro");
  EXPECT_EQ(refusal("panic_trigger=x"), "option 'panic_trigger': 'x' is not an absolute path");
  EXPECT_EQ(refusal("ro=1"), "option 'ro': takes no value");
  EXPECT_EQ(refusal("commit=soon"), "option 'commit': 'soon' is not a number");
  EXPECT_EQ(refusal("commit=-1"), "option 'commit': '-1' is not a number");
  EXPECT_EQ(refusal("gc_low=101"), "option 'gc_low': '101' is not between 0 and 100");
  EXPECT_EQ(refusal("gc_idle=86401"), "option 'gc_idle': '86401' is not between 0 and 86400");
  EXPECT_EQ(refusal("gc_rate=fast"), "option 'gc_rate': 'fast' is not a size");
  EXPECT_EQ(refusal("clean=hard"), "option 'clean': 'hard' is none of auto, greedy, tail, whole");
  EXPECT_EQ(refusal("placement=last"),
            "option 'placement': 'last' is none of age, best, first, random");
  EXPECT_EQ(refusal("cache=1K"), "option 'cache': '1K' is less than 1048576 bytes");
  EXPECT_EQ(refusal("logfile=here"), "option 'logfile': 'here' is not an absolute path");
  EXPECT_EQ(refusal("gc_low=10,gc_high=11"),
            "option 'gc_high' (11) must not be above 'gc_low' (10)");
}

TEST(Sizes, TakeTheUnitsOfComputers) {
  EXPECT_EQ(parse_size("0"), 0u);
  EXPECT_EQ(parse_size("4096"), 4096u);
  EXPECT_EQ(parse_size("4k"), 4096u);
  EXPECT_EQ(parse_size("3M"), 3u << 20);
  EXPECT_EQ(parse_size("3MiB"), 3u << 20);
  EXPECT_EQ(parse_size("2G"), std::uint64_t{2} << 30);
  EXPECT_EQ(parse_size("16777215T"), std::uint64_t{16777215} << 40);
}

TEST(Sizes, RefuseWhatMakesNoSense) {
  for (const char* text : {"", "K", "-1", "1.5G", "1KB", "1iB", "1Ki",
                           "1KiBs", "1 K", "0x10", "16777216T",
                           "18446744073709551616", "9999999999999999999999"}) {
    EXPECT_FALSE(parse_size(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace lazyfs::fuse
