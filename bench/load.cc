// Runs loads that need a fast program: creating files in many threads, large sequential I/O, and
// small writes with an fsync each. Prints the time in seconds.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/buffer.h"
#include "base/types.h"
#include "tools/command_line.h"

namespace {

constexpr std::size_t kIoBytes = 1 << 20;
constexpr unsigned kBranching = 10;  // subdirectories of a directory, as in the ext4-lazy paper

struct Plan {
  std::string path;
  unsigned threads = 8;
  std::uint64_t count = 1000;
  std::uint64_t bytes = 4096;
};

void must(bool fine, const std::string& what) {
  if (!fine) throw std::system_error(errno, std::generic_category(), what);
}

// Returns directory number i of a thread's tree, in which each directory has kBranching children.
std::string tree_path(std::uint64_t i) {
  std::string path;
  for (; i > 0; i = (i - 1) / kBranching) path.insert(0, "/" + std::to_string(i));
  return path;
}

void in_parallel(const Plan& plan, const std::function<void(unsigned, std::uint64_t)>& body) {
  std::vector<std::thread> threads;
  std::atomic<bool> failed{false};
  for (unsigned t = 0; t < plan.threads; ++t) {
    threads.emplace_back([&, t] {
      try {
        body(t, plan.count / plan.threads + (t < plan.count % plan.threads));
      } catch (const std::exception& e) {
        std::fprintf(stderr, "load: %s\n", e.what());
        failed = true;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  if (failed) throw std::runtime_error("a thread failed");
}

void make_directories(const Plan& plan) {
  in_parallel(plan, [&](unsigned t, std::uint64_t count) {
    const std::string top = plan.path + "/t" + std::to_string(t);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::string path = top + tree_path(i);
      must(mkdir(path.c_str(), 0755) == 0, path);
    }
  });
}

void make_files(const Plan& plan, bool synced) {
  in_parallel(plan, [&](unsigned t, std::uint64_t count) {
    const std::string top = plan.path + "/t" + std::to_string(t);
    const std::vector<char> contents(plan.bytes, 'x');
    must(mkdir(top.c_str(), 0755) == 0, top);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::string path = top + "/f" + std::to_string(i);
      const int fd = open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
      must(fd >= 0, path);
      must(write(fd, contents.data(), contents.size()) == ssize_t(contents.size()), path);
      if (synced) must(fsync(fd) == 0, path);
      close(fd);
    }
  });
}

void make_plain_files(const Plan& plan) { make_files(plan, false); }
void make_synced_files(const Plan& plan) { make_files(plan, true); }

// Thread t overwrites file PATH.t: the kernel runs one FUSE_FSYNC of a file at a time. The places
// are the same in every run.
void overwrite_blocks(const Plan& plan) {
  const std::uint64_t blocks = plan.bytes / lazyfs::kBlockBytes;
  must(blocks > 0, "--bytes is smaller than a block");
  in_parallel(plan, [&](unsigned t, std::uint64_t count) {
    const std::vector<char> contents(lazyfs::kBlockBytes, static_cast<char>('a' + t % 26));
    std::minstd_rand random(t + 1);
    std::uniform_int_distribution<std::uint64_t> choose(0, blocks - 1);
    const std::string path = plan.path + "." + std::to_string(t);
    const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    must(fd >= 0, path);
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto at = static_cast<off_t>(choose(random) * lazyfs::kBlockBytes);
      must(pwrite(fd, contents.data(), contents.size(), at) == ssize_t(contents.size()), path);
      must(fsync(fd) == 0, path);
    }
    close(fd);
  });
}

void write_file(const Plan& plan) {
  lazyfs::AlignedBuffer buffer(kIoBytes);
  std::memset(buffer.data(), 0x5a, buffer.size());
  const int fd = open(plan.path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
  must(fd >= 0, plan.path);
  for (std::uint64_t done = 0; done < plan.bytes; done += kIoBytes) {
    std::memcpy(buffer.data(), &done, sizeof done);
    must(write(fd, buffer.data(), kIoBytes) == ssize_t(kIoBytes), plan.path);
  }
  must(fsync(fd) == 0, plan.path);
  close(fd);
}

void read_file(const Plan& plan) {
  lazyfs::AlignedBuffer buffer(kIoBytes);
  const int fd = open(plan.path.c_str(), O_RDONLY | O_CLOEXEC);
  must(fd >= 0, plan.path);
  ssize_t got = 0;
  while ((got = read(fd, buffer.data(), kIoBytes)) > 0) continue;
  must(got == 0, plan.path);
  close(fd);
}

// Measures the cost of a single request: each chmod is exactly one request.
void change_modes(const Plan& plan) {
  in_parallel(plan, [&](unsigned t, std::uint64_t count) {
    const std::string path = plan.path + "/m" + std::to_string(t);
    const int fd = open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    must(fd >= 0, path);
    for (std::uint64_t i = 0; i < count; ++i) must(fchmod(fd, 0600 + (i & 7)) == 0, path);
    close(fd);
  });
}

// Measures the cost of a lookup that the kernel cannot answer: no name is asked for twice.
void look_up(const Plan& plan) {
  in_parallel(plan, [&](unsigned t, std::uint64_t count) {
    const std::string top = plan.path + "/t" + std::to_string(t);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::string path = top + "/no" + std::to_string(i);
      must(access(path.c_str(), F_OK) != 0 && errno == ENOENT, path);
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  lazyfs::CommandLine app(
      "bench_load",
      "Makes one load on a mounted filesystem and prints its seconds.",
      nullptr);
  Plan plan;
  std::vector<std::pair<const lazyfs::CommandLine*, void (*)(const Plan&)>> commands;
  const auto load = [&](const char* name, const char* what, void (*body)(const Plan&)) {
    lazyfs::CommandLine& command = app.command(name, what);
    commands.emplace_back(&command, body);
    command.option("PATH", plan.path).required();
    command.option("--threads", plan.threads).at_least(1);
    command.option("--count", plan.count);
    command.option("--bytes", plan.bytes).as_size();
  };
  load("mkdirs", "makes --count directories with --threads threads", make_directories);
  load("files", "makes --count files of --bytes with --threads threads", make_plain_files);
  load("synced-files", "the same, with an fsync after each file", make_synced_files);
  load("overwrites", "overwrites --count blocks of the files PATH.0 ..., an fsync each",
       overwrite_blocks);
  load("write", "writes --bytes to the file PATH, then fsync", write_file);
  load("read", "reads the file PATH", read_file);
  load("chmods", "changes modes --count times: one request each", change_modes);
  load("lookups", "looks for --count missing names in the directories of files", look_up);
  if (const auto status = app.parse(argc, argv)) return *status;
  const auto begin = std::chrono::steady_clock::now();
  try {
    for (const auto& [command, body] : commands) {
      if (command->was_given()) body(plan);
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "load: %s\n", e.what());
    return 1;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("%.6f\n", took.count());
}
