#include "tools/plot_script.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>

namespace lazyfs {

int continue_as_script(const char* program, const std::string& name,
                       std::vector<std::string> arguments) {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  std::string path = (folder / name).string();
  std::vector<char*> words{path.data()};
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  ::execv(path.c_str(), words.data());
  std::fprintf(stderr, "%s: %s: cannot be run\n", program, path.c_str());
  return 1;
}

}  // namespace lazyfs
