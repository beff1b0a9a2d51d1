#include "tools/command_line.h"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/size.h"

namespace lazyfs {
namespace {

constexpr std::size_t kTerminalColumns = 80;

// Breaks lines at spaces; words that are longer stay whole.
std::string wrapped(const std::string& text, std::size_t columns) {
  std::string lines, word;
  std::size_t used = 0;
  std::istringstream words(text);
  while (words >> word) {
    const bool fits = used + 1 + word.size() <= columns;
    if (used > 0) lines += fits ? " " : "\n";
    lines += word;
    used = used > 0 && fits ? used + 1 + word.size() : word.size();
  }
  return lines;
}

// Help for a terminal of 80 columns.
class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_option_desc(const CLI::Option* option) const override {
    return beside_name(Formatter::make_option_desc(option));
  }
  std::string make_description(const CLI::App* app) const override {
    return wrapped(Formatter::make_description(app), kTerminalColumns) + "\n";
  }
  std::string make_footer(const CLI::App* app) const override {
    const std::string text = wrapped(app->get_footer(), kTerminalColumns);
    return text.empty() ? "" : text + "\n";
  }
  std::string make_subcommand(const CLI::App* command) const override {
    std::ostringstream out;
    CLI::detail::format_help(out, command->get_name(), beside_name(command->get_description()),
                             get_column_width());
    return out.str();
  }

 private:
  std::string beside_name(const std::string& text) const {
    return wrapped(text, kTerminalColumns - get_column_width());
  }
};

class Option final : public CommandOption {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  CommandOption& required() override {
    option_->required();
    return *this;
  }
  CommandOption& one_of(std::vector<std::string> values) override {
    option_->check(CLI::IsMember(std::move(values)));
    return *this;
  }
  CommandOption& at_least(std::uint64_t least) override {
    option_->check([least](const std::string& value) {
      double number = 0;
      const bool is_one = CLI::detail::lexical_cast(value, number);
      return is_one && number >= static_cast<double>(least)
                 ? std::string()
                 : value + " is not a number of at least " + std::to_string(least);
    });
    return *this;
  }
  CommandOption& between(std::uint32_t least, std::uint32_t most) override {
    option_->check(CLI::Range(least, most));
    return *this;
  }
  CommandOption& with_default() override {
    option_->capture_default_str();
    return *this;
  }
  CommandOption& with_commas() override {
    option_->delimiter(',');
    return *this;
  }
  CommandOption& one_each() override {
    option_->allow_extra_args(false);
    return *this;
  }
  CommandOption& as_size() override {
    const auto to_bytes = [](std::string& text) {
      const auto bytes = parse_size(text);
      if (!bytes) return text + " is not a size (as 256M or 8T)";
      text = std::to_string(*bytes);
      return std::string();
    };
    option_->transform(CLI::Validator(to_bytes, ""))->type_name("SIZE");
    return *this;
  }
  CommandOption& excludes(CommandOption& other) override {
    option_->excludes(static_cast<Option&>(other).option_);
    return *this;
  }

  bool was_given() const override { return option_->count() > 0; }

 private:
  CLI::Option* const option_;
};

}  // namespace

int end_output(const char* program, int status, int failed) {
  errno = 0;
  const bool was_written = std::ferror(stdout) == 0;
  if (std::fflush(stdout) == 0 && was_written) return status;
  std::fprintf(stderr, "%s: standard output: cannot be written%s%s\n", program,
               errno != 0 ? ": " : "", errno != 0 ? std::strerror(errno) : "");
  return failed;
}

struct CommandLine::Parts {
  std::unique_ptr<CLI::App> owned;  // of a program; sub-commands are owned by theirs
  CLI::App* app;
  int usage_status;
  std::vector<std::unique_ptr<CommandOption>> options;
  std::vector<std::unique_ptr<CommandLine>> commands;
};

CommandLine::CommandLine(std::string program, const std::string& purpose, const char* version,
                         int usage_status)
    : parts_(std::make_unique<Parts>()) {
  parts_->owned = std::make_unique<CLI::App>(purpose, program);
  parts_->app = parts_->owned.get();
  parts_->usage_status = usage_status;
  parts_->app->formatter(std::make_shared<HelpFormatter>());  // sub-commands have the same
  if (version) parts_->app->set_version_flag("-V,--version", program + " " + version);
  log::to_standard_error();  // standard output belongs to the program's results
}

CommandLine::CommandLine(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
CommandLine::~CommandLine() = default;

template <class T>
CommandOption& CommandLine::add(const char* names, T& to, const char* help) {
  return *parts_->options.emplace_back(
      std::make_unique<Option>(parts_->app->add_option(names, to, help)));
}

CommandOption& CommandLine::flag(const char* names, bool& to, const char* help) {
  return *parts_->options.emplace_back(
      std::make_unique<Option>(parts_->app->add_flag(names, to, help)));
}
CommandOption& CommandLine::option(const char* names, std::string& to, const char* help) {
  return add(names, to, help);
}
CommandOption& CommandLine::option(const char* names, std::uint64_t& to, const char* help) {
  return add(names, to, help);
}
CommandOption& CommandLine::option(const char* names, std::uint32_t& to, const char* help) {
  return add(names, to, help);
}
CommandOption& CommandLine::option(const char* names, int& to, const char* help) {
  return add(names, to, help);
}
CommandOption& CommandLine::option(const char* names, double& to, const char* help) {
  return add(names, to, help);
}
CommandOption& CommandLine::option(const char* names, std::vector<std::string>& to,
                                   const char* help) {
  return add(names, to, help);
}
CommandOption& CommandLine::option(const char* names, std::vector<std::uint64_t>& to,
                                   const char* help) {
  return add(names, to, help);
}
CommandOption& CommandLine::option(const char* names, std::vector<double>& to, const char* help) {
  return add(names, to, help);
}

void CommandLine::set_footer(const std::string& text) { parts_->app->footer(text); }

CommandLine& CommandLine::command(const char* name, const char* purpose) {
  parts_->app->require_subcommand(1);
  auto parts = std::make_unique<Parts>();
  parts->app = parts_->app->add_subcommand(name, purpose);
  parts->usage_status = parts_->usage_status;
  return *parts_->commands.emplace_back(new CommandLine(std::move(parts)));
}

bool CommandLine::was_given() const { return parts_->app->parsed(); }

std::optional<int> CommandLine::parse(int argc, char** argv) {
  try {
    parts_->app->parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) {  // the help or the version
      const int status = parts_->app->exit(e);
      return end_output(parts_->app->get_name().c_str(), status, parts_->usage_status);
    }
    const std::vector<std::string> rest = parts_->app->remaining();
    const bool is_unknown =
        !parts_->commands.empty() && !rest.empty() && !rest.front().starts_with('-');
    const std::string why = is_unknown ? rest.front() + " is no subcommand" : e.what();
    std::fprintf(stderr, "%s: %s (%s --help shows the usage)\n",
                 parts_->app->get_name().c_str(), why.c_str(), parts_->app->get_name().c_str());
    return parts_->usage_status;
  }
  return std::nullopt;
}

}  // namespace lazyfs
