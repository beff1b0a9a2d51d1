// The profiler of the ShingledFS thesis (section 5.5.2): a filesystem that passes all calls to a
// backing directory, counts them, and writes the counters to a file on SIGUSR1 and at the end.
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "profiler/filesystem.h"
#include "profiler/handlers.h"
#include "profiler/recorder.h"
#include "tools/command_line.h"
#include "tools/plot_script.h"

namespace {

using namespace lazyfs;

int failed(const std::string& what) {
  std::fprintf(stderr, "profiler: %s\n", what.c_str());
  return 1;
}

int failed_call(const std::string& what) { return failed(what + ": " + std::strerror(errno)); }

sigset_t dump_signal() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGUSR1);
  return signals;
}

// ---- Dumps --------------------------------------------------------------------------------------

// A thread that ends a section at each SIGUSR1, and the last section when it is destroyed.
// REQUIRES: all threads block SIGUSR1.
class DumpThread {
 public:
  explicit DumpThread(profiler::Recorder& recorder)
      : recorder_(recorder), thread_([this] { run(); }) {}
  DumpThread(const DumpThread&) = delete;
  DumpThread& operator=(const DumpThread&) = delete;

  // Returns false if a section could not be written.
  bool finish() {
    is_over_ = true;
    ::pthread_kill(thread_.native_handle(), SIGUSR1);
    thread_.join();
    return is_good_;
  }

 private:
  void run() {
    const sigset_t signals = dump_signal();
    while (!is_over_) {
      int number;
      ::sigwait(&signals, &number);
      if (!is_over_) is_good_ &= recorder_.end_section("SIGUSR1");
    }
    is_good_ &= recorder_.end_section("unmount");
  }

  profiler::Recorder& recorder_;  // of thread_
  std::atomic<bool> is_over_{false};
  bool is_good_ = true;  // of thread_, until it is joined
  std::thread thread_;
};

// ---- The mount ----------------------------------------------------------------------------------

struct Options {
  std::string mount_point, backing, output = "profile.txt";
  bool foreground = false, as_json = false, is_classic = false, only_passes = false;
};

struct EndSession {
  void operator()(fuse_session* session) const { ::fuse_session_destroy(session); }
};
using Session = std::unique_ptr<fuse_session, EndSession>;

// Options of libfuse have commas between them.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == ',' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

Session make_session(const Options& options, const fuse_lowlevel_ops& handlers,
                     profiler::Filesystem& filesystem) {
  std::string mount_options =
      "-odefault_permissions,subtype=profiler,fsname=" + escaped(options.backing);
  if (::geteuid() == 0) mount_options += ",allow_other,dev,suid";
  char program[] = "profiler";
  char* words[] = {program, mount_options.data()};
  fuse_args arguments = FUSE_ARGS_INIT(2, words);
  Session session(::fuse_session_new(&arguments, &handlers, sizeof handlers, &filesystem));
  ::fuse_opt_free_args(&arguments);
  return session;
}

// Each inode that the kernel knows keeps a descriptor open.
void raise_descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  std::FILE* const file = std::fopen("/proc/sys/fs/nr_open", "re");
  unsigned long most = 0;
  if (file && std::fscanf(file, "%lu", &most) == 1) {
    limit.rlim_cur = limit.rlim_max = most;
    ::setrlimit(RLIMIT_NOFILE, &limit);  // requires CAP_SYS_RESOURCE
  }
  if (file) std::fclose(file);
}

// Returns a negative number or a signal's number if the loop did not end by an unmount.
int serve(fuse_session* session) {
  const std::unique_ptr<fuse_loop_config, void (*)(fuse_loop_config*)> config(
      ::fuse_loop_cfg_create(), ::fuse_loop_cfg_destroy);
  ::fuse_loop_cfg_set_clone_fd(config.get(), 1);
  return ::fuse_session_loop_mt(session, config.get());
}

// Like serve(), and writes what was counted. Returns the program's exit status.
int serve_and_record(fuse_session* session, profiler::Filesystem& filesystem,
                     profiler::Descriptor output, const Options& options) {
  using Recorder = profiler::Recorder;
  Recorder recorder(std::move(output),
                    options.as_json ? Recorder::Format::kJson : Recorder::Format::kText,
                    options.is_classic, filesystem.counts(), system_clock(),
                    profiler::process_cpu_time);
  DumpThread dumps(recorder);
  const int status = serve(session);
  if (!dumps.finish()) return failed(options.output + ": cannot be written");
  return status < 0 ? 1 : 0;
}

int mount_and_serve(const Options& options) {
  profiler::Descriptor backing(
      ::open(options.backing.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!backing.is_open()) return failed_call(options.backing);
  profiler::Descriptor output(
      options.only_passes ? -1
                          : ::open(options.output.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
  if (!options.only_passes && !output.is_open()) return failed_call(options.output);
  raise_descriptor_limit();

  profiler::Filesystem filesystem(
      std::move(backing),
      {.is_classic = options.is_classic, .is_counting = !options.only_passes});
  const fuse_lowlevel_ops handlers = profiler::handlers(options.is_classic);
  const Session session = make_session(options, handlers, filesystem);
  if (!session) return failed("FUSE cannot be used");
  if (::fuse_set_signal_handlers(session.get()) != 0) return failed("signals cannot be handled");
  if (::fuse_session_mount(session.get(), options.mount_point.c_str()) != 0) {
    return failed(options.mount_point + ": cannot be mounted");
  }
  ::fuse_daemonize(options.foreground ? 1 : 0);

  const int status =
      options.only_passes
          ? serve(session.get()) < 0
          : serve_and_record(session.get(), filesystem, std::move(output), options);
  ::fuse_session_unmount(session.get());
  ::fuse_remove_signal_handlers(session.get());
  return status;
}

int mount_command(int argc, char** argv) {
  CommandLine app("profiler",
                  "Passes all calls to a folder and counts them. `profiler plot` draws profiles.",
                  LAZYFS_VERSION);
  Options options;
  app.flag("-f", options.foreground, "stay in the foreground");
  app.option("-o,--output", options.output, "file for the counters; it is replaced")
      .with_default();
  app.flag("--json", options.as_json, "write each section as a JSON object on a line");
  app.flag("--classic", options.is_classic,
           "mount as in 2012: time-outs of 1 s, writes of 128 KiB, mknod and open for new files");
  app.flag("--no-counts", options.only_passes,
           "only pass the calls on: count nothing, and write no file");
  app.option("MOUNTPOINT", options.mount_point, "folder").required();
  app.option("BACKING", options.backing, "folder that the calls are passed to").required();
  app.set_footer("SIGUSR1 writes the counters and sets them to 0; so does the unmount.");
  if (const auto status = app.parse(argc, argv)) return *status;
  const sigset_t signals = dump_signal();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // before any thread starts
  return mount_and_serve(options);
}

// ---- plot ---------------------------------------------------------------------------------------

int plot_command(int argc, char** argv) {
  CommandLine app("profiler plot", "Draws the calls of each section, as the thesis did.", nullptr);
  std::string output;
  std::vector<std::string> profiles;
  app.option("-o,--output", output, "SVG, PDF or PNG, by its name").required();
  app.option("FILE", profiles, "what profiler wrote, text or JSON; the workload has its name")
      .required();
  if (const auto status = app.parse(argc, argv)) return *status;
  std::vector<std::string> arguments{"--output=" + output, "--"};
  arguments.insert(arguments.end(), profiles.begin(), profiles.end());
  return continue_as_script("profiler", "profiler-plot", std::move(arguments));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "plot") return plot_command(argc - 1, argv + 1);
  return mount_command(argc, argv);
}
