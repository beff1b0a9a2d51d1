#include "fuse/requests/caller.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>

namespace lazyfs::fuse {
namespace {

// The last of the four numbers of a line: real, effective, saved, and for files.
std::uint32_t number_for_files(std::istream& line) {
  std::uint32_t real = 0, effective = 0, saved = 0, for_files = kUnknownUser;
  line >> real >> effective >> saved >> for_files;
  return line ? for_files : kUnknownUser;
}

}  // namespace

bool ThreadIds::has_group(gid_t one) const {
  return group == one || std::ranges::find(more_groups, one) != more_groups.end();
}

ThreadIds ids_of_thread(pid_t thread) {
  std::ifstream status("/proc/" + std::to_string(thread) + "/status");
  ThreadIds ids;
  std::string word;
  while (status >> word) {
    if (word == "Uid:") ids.user = number_for_files(status);
    if (word == "Gid:") ids.group = number_for_files(status);
    if (word == "Groups:") {
      // The numbers end at the next line's name.
      using Numbers = std::istream_iterator<gid_t>;
      ids.more_groups.assign(Numbers(status), Numbers());
      break;
    }
    status.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return ids;
}

uid_t user_of(fuse_req_t req) {
  const fuse_ctx* const caller = fuse_req_ctx(req);
  return caller->uid != kUnknownUser ? caller->uid : ids_of_thread(caller->pid).user;
}

bool is_in_group(fuse_req_t req, gid_t group) {
  const fuse_ctx* const caller = fuse_req_ctx(req);
  if (caller->gid == kUnknownGroup) return false;
  return caller->gid == group || ids_of_thread(caller->pid).has_group(group);
}

}  // namespace lazyfs::fuse
