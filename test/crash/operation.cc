#include "crash/operation.h"

namespace lazyfs::crash {
namespace {

std::string write_text(const Operation& o) {
  const bool appends = o.offset == kAtEnd;
  return (appends ? "append " : "write ") + o.path +
         (appends ? "" : " at " + std::to_string(o.offset)) + " " + std::to_string(o.length) +
         " bytes, tag " + std::to_string(o.tag);
}

std::string range_text(const std::string& verb, const Operation& o) {
  return verb + " " + o.path + " at " + std::to_string(o.offset) + " " + std::to_string(o.length) +
         " bytes";
}

std::string copy_text(const std::string& verb, const Operation& o) {
  return range_text(verb, o) + " to " + o.other + " at " + std::to_string(o.to);
}

}  // namespace

std::string to_string(const Operation& o) {
  switch (o.act) {
    case Act::kCreate: return "create " + o.path;
    case Act::kWrite: return write_text(o);
    case Act::kTruncate: return "truncate " + o.path + " to " + std::to_string(o.offset);
    case Act::kPunch: return range_text("punch", o);
    case Act::kZero: return range_text("zero", o);
    case Act::kCopy: return copy_text("copy", o);
    case Act::kShare: return copy_text("share", o);
    case Act::kLink: return "link " + o.path + " to " + o.other;
    case Act::kUnlink: return "unlink " + o.path;
    case Act::kRename: return "rename " + o.path + " to " + o.other;
    case Act::kExchange: return "exchange " + o.path + " with " + o.other;
    case Act::kWhiteout: return "whiteout " + o.path + ", now " + o.other;
    case Act::kMakeDirectory: return "mkdir " + o.path;
    case Act::kRemoveDirectory: return "rmdir " + o.path;
    case Act::kSymlink: return "symlink " + o.path;
    case Act::kSetXattr:
      return "setxattr " + o.path + " " + o.other + " " + std::to_string(o.length) + " bytes";
    case Act::kRemoveXattr: return "removexattr " + o.path + " " + o.other;
    case Act::kChangeMode: return "chmod " + o.path + " " + std::to_string(o.offset);
    case Act::kChangeFlags: return "chattr " + o.path + " " + std::to_string(o.offset);
    case Act::kHold: return "hold " + o.path;
    case Act::kWriteHeld:
      return "write to a held file at " + std::to_string(o.offset) + " " +
             std::to_string(o.length) + " bytes, tag " + std::to_string(o.tag);
    case Act::kFsync: return "fsync " + o.path;
    case Act::kDataSync: return "fdatasync " + o.path;
    case Act::kFsyncDirectory: return "fsyncdir " + o.path;
    case Act::kSync: return "sync";
    case Act::kTick: return "tick";
    case Act::kCollect: return "collect";
    case Act::kRemount: return "remount";
    case Act::kKill: return "kill";
  }
  return "unknown";
}

bool promises(Act act) {
  return act == Act::kFsync || act == Act::kDataSync || act == Act::kFsyncDirectory ||
         act == Act::kSync || act == Act::kRemount;
}

std::string to_string(const Workload& workload) {
  std::string text;
  for (std::size_t i = 0; i < workload.size(); ++i) {
    text += "  " + std::to_string(i) + ": " + to_string(workload[i]) + "\n";
  }
  return text;
}

std::string text_of(std::uint32_t tag, std::uint64_t offset, std::uint64_t length) {
  std::string text(length, '\0');
  for (std::uint64_t i = 0; i < length; ++i) {
    const std::uint64_t word = (offset + i) / 8;
    std::uint64_t x = (word + 1) * 0x9E3779B97F4A7C15ull + tag * 0xBF58476D1CE4E5B9ull;
    x ^= x >> 29;
    text[i] = static_cast<char>((x >> 8 * ((offset + i) % 8)) | 1);
  }
  return text;
}

}  // namespace lazyfs::crash
