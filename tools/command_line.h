// Command lines of programs: options, arguments, sub-commands, --help and --version. CLI11 does the
// work, and only command_line.cc includes it: its header takes longer to compile than most
// programs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lazyfs {

// The last call of a program whose results go to standard output: flushes it. Returns `status`, or,
// after a message, `failed` if not all of the results could be written.
int end_output(const char* program, int status, int failed = 1);

// One option or argument of a CommandLine, which owns it.
class CommandOption {
 public:
  virtual ~CommandOption() = default;
  virtual CommandOption& required() = 0;
  // Any other value is a usage error.
  virtual CommandOption& one_of(std::vector<std::string> values) = 0;
  virtual CommandOption& at_least(std::uint64_t least) = 0;
  virtual CommandOption& between(std::uint32_t least, std::uint32_t most) = 0;
  // --help shows the variable's present value as the default.
  virtual CommandOption& with_default() = 0;
  // A list's values may also stand in one word, with commas between them.
  virtual CommandOption& with_commas() = 0;
  // Each occurrence of a list's option takes one value.
  virtual CommandOption& one_each() = 0;
  // Accepts the sizes of parse_size(). --help shows SIZE as its type.
  virtual CommandOption& as_size() = 0;
  virtual CommandOption& excludes(CommandOption& other) = 0;
  // After parse(): whether the command line has it.
  virtual bool was_given() const = 0;
};

// Names are as CLI11 has them: "-f,--force" is an option, "DEVICE" an argument. Variables that are
// named must outlive the command line, and keep their value when the option is not given.
class CommandLine {
 public:
  // `version`: nullptr leaves --version out. `usage_status`: the exit status for wrong usage.
  CommandLine(std::string program, const std::string& purpose, const char* version,
              int usage_status = 2);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  CommandOption& flag(const char* names, bool& to, const char* help = "");
  CommandOption& option(const char* names, std::string& to, const char* help = "");
  CommandOption& option(const char* names, std::uint64_t& to, const char* help = "");
  CommandOption& option(const char* names, std::uint32_t& to, const char* help = "");
  CommandOption& option(const char* names, int& to, const char* help = "");
  CommandOption& option(const char* names, double& to, const char* help = "");
  CommandOption& option(const char* names, std::vector<std::string>& to, const char* help = "");
  CommandOption& option(const char* names, std::vector<std::uint64_t>& to, const char* help = "");
  CommandOption& option(const char* names, std::vector<double>& to, const char* help = "");
  // The last paragraph of --help.
  void set_footer(const std::string& text);

  // A sub-command; exactly one of all that were added must be given.
  CommandLine& command(const char* name, const char* purpose);
  // Of a sub-command: whether it is the one that was given.
  bool was_given() const;

  // Sets the variables. Returns the status with which the program is to end: 0 after --help and
  // --version, `usage_status` after a usage error, which is printed to standard error as
  // "PROGRAM: what is wrong"; nullopt: the program continues.
  std::optional<int> parse(int argc, char** argv);

 private:
  struct Parts;
  explicit CommandLine(std::unique_ptr<Parts> parts);
  template <class T>
  CommandOption& add(const char* names, T& to, const char* help);

  const std::unique_ptr<Parts> parts_;
};

}  // namespace lazyfs
