// lazyfs-debug: shows the structures of a volume, and takes files out of one that cannot be
// mounted. Never writes to the device.
#include <sys/stat.h>

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

#include "base/json.h"
#include "base/size.h"
#include "tools/command_line.h"
#include "tools/debug_copy.h"
#include "tools/debug_image.h"
#include "tools/debug_show.h"
#include "tools/debug_volume.h"
#include "tools/words.h"

namespace {

using namespace lazyfs;

constexpr int kDamaged = 4;  // an exit status, as fsck's "left uncorrected"

struct Plan {
  std::string device, what, target;
  std::uint64_t number = 0, most = 100;
  bool json = false, repaired = false;
  CommandLine *superblock = nullptr, *log = nullptr, *transactions = nullptr, *node = nullptr,
              *inode = nullptr, *items = nullptr, *ls = nullptr, *copy = nullptr,
              *image = nullptr;
};

void add_commands(CommandLine& app, Plan& plan) {
  plan.superblock = &app.command("superblock", "shows the newest superblock");
  plan.log = &app.command("log", "shows the bands of the metadata log");
  plan.transactions = &app.command("transactions", "shows the newest transactions");
  plan.node = &app.command("node", "shows a node of the tree");
  plan.inode = &app.command("inode", "shows what the tree has of an inode");
  plan.items = &app.command("items", "shows the items of an owner: an inode, or another one");
  plan.ls = &app.command("ls", "lists a directory");
  plan.copy = &app.command("copy", "copies a file or a directory out of the volume");
  plan.image = &app.command("image", "copies the metadata to a sparse file, for a report");
  for (CommandLine* const command :
       {plan.superblock, plan.log, plan.transactions, plan.node, plan.inode, plan.items, plan.ls,
        plan.copy, plan.image}) {
    command->option("DEVICE", plan.device, "or image, not mounted").required();
  }
  for (CommandLine* const command : {plan.superblock, plan.log, plan.transactions, plan.node,
                                     plan.inode, plan.items, plan.ls}) {
    command->flag("--json", plan.json, "as one JSON object");
  }
  for (CommandLine* const command : {plan.inode, plan.ls, plan.copy}) {
    command->flag("--repaired", plan.repaired, "as a repair, in memory, would make it");
  }
  plan.node->option("NUMBER", plan.number, "1 is the root").required();
  plan.items->option("OWNER", plan.number, "of docs/format.md").required();
  for (CommandLine* const command : {plan.transactions, plan.items}) {
    command->option("--most", plan.most, "how many to show").with_default().at_least(1);
  }
  plan.inode->option("INODE", plan.what, "its number, or a path from the root").required();
  plan.ls->option("PATH", plan.what, "from the root, or the number of an inode").required();
  plan.copy->option("PATH", plan.what, "from the root, or the number of an inode").required();
  plan.copy->option("TARGET", plan.target, "a new file or folder").required();
  plan.image->option("FILE", plan.target, "a new file").required();
}

void print_flat(const Json& value, const std::string& name) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.members()) {
      print_flat(inner, name.empty() ? key : name + "." + key);
    }
    return;
  }
  const bool has_objects = value.is_array() && !value.items().empty() &&
                           value.items().front().is_object();
  if (has_objects) {
    for (const Json& inner : value.items()) {
      std::printf("%s %s\n", name.c_str(), printable(inner.dump()).c_str());
    }
    return;
  }
  const std::string text = printable(value.is_string() ? value.text() : value.dump());
  std::printf("%-24s %s\n", name.c_str(), text.c_str());
}

void print(const Plan& plan, const Json& json) {
  if (!plan.json) return print_flat(json, "");
  std::puts(json.dump(true).c_str());
}

Json list_directory(fs::Volume& volume, const std::string& path) {
  constexpr std::size_t kEntriesAtOnce = 1000;
  const fs::Attributes directory = find_inode(volume, path);
  Json list = Json::array();
  std::uint64_t cookie = 0;
  for (;;) {  // each turn reads the entries that follow
    const auto entries = volume.read_directory(directory.inode, cookie, kEntriesAtOnce, false);
    if (!entries) throw std::runtime_error(path + ": " + std::string(describe(entries.error())));
    if (entries->empty()) return Json::object({{"entries", list}});
    for (const fs::DirectoryEntry& entry : *entries) {
      list.push_back(Json::object({{"inode", entry.inode.value}, {"name", entry.name}}));
    }
    cookie = entries->back().cookie;
  }
}

int take_out(const Plan& plan, device::Device& device) {
  std::uint64_t damaged = 0;
  use_volume(device, plan.repaired, [&](fs::Volume& volume, const fsck::RepairReport& repaired) {
    damaged = copy_out(volume, repaired, find_inode(volume, plan.what), plan.target);
  });
  if (damaged > 0) {
    std::fprintf(stderr, "lazyfs-debug: %s %s not whole\n", count_text(damaged, "file").c_str(),
                 damaged == 1 ? "is" : "are");
  }
  return damaged == 0 ? 0 : kDamaged;
}

// Returns the exit status.
int run(const Plan& plan) {
  const auto device = open_to_look(plan.device);
  if (plan.superblock->was_given()) print(plan, show_superblock(*device));
  if (plan.log->was_given()) print(plan, show_log(*device));
  if (plan.transactions->was_given()) print(plan, show_transactions(*device, plan.most));
  if (plan.node->was_given()) print(plan, show_node(*device, plan.number));
  if (plan.items->was_given()) print(plan, show_items(*device, plan.number, plan.most));
  if (plan.inode->was_given()) {
    std::uint64_t inode = 0;
    use_volume(*device, plan.repaired, [&](fs::Volume& volume, const fsck::RepairReport&) {
      inode = find_inode(volume, plan.what).inode.value;
    });
    print(plan, show_inode(*device, inode));
  }
  if (plan.ls->was_given()) {
    use_volume(*device, plan.repaired, [&](fs::Volume& volume, const fsck::RepairReport&) {
      print(plan, list_directory(volume, plan.what));
    });
  }
  if (plan.image->was_given()) {
    const std::uint64_t bytes = copy_metadata(*device, plan.device, plan.target);
    std::printf("%s: %s of metadata copied\n", printable(plan.target).c_str(),
                size_text(bytes).c_str());
  }
  return plan.copy->was_given() ? take_out(plan, *device) : 0;
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app("lazyfs-debug",
                  "Shows the structures of a lazyfs that is not mounted, and copies files out of "
                  "it. Never writes to the device.",
                  LAZYFS_VERSION);
  Plan plan;
  add_commands(app, plan);
  if (const auto status = app.parse(argc, argv)) return *status;
  try {
    return end_output("lazyfs-debug", run(plan));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "lazyfs-debug: %s\n", printable(e.what()).c_str());
    return 1;
  }
}
