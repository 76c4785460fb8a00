#include "base/command_line.h"

#include <CLI/CLI.hpp>
#include <utility>

namespace lockstep {

CommandLineOption CommandLineOption::Required() const {
  option_->required();
  return *this;
}

CommandLineOption CommandLineOption::ShowDefault() const {
  option_->capture_default_str();
  return *this;
}

CommandLineOption CommandLineOption::ShowDefault(
    const std::string& text) const {
  option_->default_str(text);
  return *this;
}

CommandLineOption CommandLineOption::OneOf(
    const std::vector<std::string>& words) const {
  option_->check(CLI::IsMember(words));
  return *this;
}

CommandLineOption CommandLineOption::Between(int64_t least,
                                             int64_t most) const {
  option_->check(CLI::Range(least, most));
  return *this;
}

CommandLineOption CommandLineOption::Positive() const {
  option_->check(CLI::PositiveNumber);
  return *this;
}

CommandLineOption CommandLineOption::NotNegative() const {
  option_->check(CLI::NonNegativeNumber);
  return *this;
}

CommandLineOption CommandLineOption::CheckedBy(
    std::function<std::string(const std::string&)> fault,
    const std::string& domain) const {
  option_->check(CLI::Validator(
      [fault = std::move(fault)](std::string& text) { return fault(text); },
      domain));
  return *this;
}

CommandLineOption CommandLineOption::ExistingFile() const {
  option_->check(CLI::ExistingFile);
  return *this;
}

CommandLineOption CommandLineOption::FromVariable(
    const std::string& name) const {
  option_->envname(name);
  return *this;
}

CommandLineOption CommandLineOption::SeparatedBy(char delimiter) const {
  option_->delimiter(delimiter);
  return *this;
}

CommandLineOption CommandLineOption::TakesTheRest() const {
  option_->expected(1, -1);
  return *this;
}

CommandLineOption CommandLineOption::Needs(
    const CommandLineOption& other) const {
  option_->needs(other.option_);
  return *this;
}

CommandLineOption CommandLineOption::Excludes(
    const CommandLineOption& other) const {
  option_->excludes(other.option_);
  return *this;
}

CommandLineOption ProgramCommand::Add(const std::string& names,
                                      std::string* value,
                                      const std::string& help) const {
  return CommandLineOption(app_->add_option(names, *value, help));
}

CommandLineOption ProgramCommand::Add(const std::string& names, int* value,
                                      const std::string& help) const {
  return CommandLineOption(app_->add_option(names, *value, help));
}

CommandLineOption ProgramCommand::Add(const std::string& names, int64_t* value,
                                      const std::string& help) const {
  return CommandLineOption(app_->add_option(names, *value, help));
}

CommandLineOption ProgramCommand::Add(const std::string& names, uint64_t* value,
                                      const std::string& help) const {
  return CommandLineOption(app_->add_option(names, *value, help));
}

CommandLineOption ProgramCommand::Add(const std::string& names, double* value,
                                      const std::string& help) const {
  return CommandLineOption(app_->add_option(names, *value, help));
}

CommandLineOption ProgramCommand::Add(const std::string& names,
                                      std::vector<std::string>* value,
                                      const std::string& help) const {
  return CommandLineOption(app_->add_option(names, *value, help));
}

CommandLineOption ProgramCommand::Add(
    const std::string& names,
    std::function<std::string(const std::string&)> read,
    const std::string& help) const {
  return CommandLineOption(app_->add_option_function<std::string>(
      names,
      [names, read = std::move(read)](const std::string& text) {
        const std::string wrong = read(text);
        if (!wrong.empty()) throw CLI::ValidationError(names, wrong);
      },
      help));
}

CommandLineOption ProgramCommand::AddFlag(const std::string& name, bool* value,
                                          const std::string& help) const {
  return CommandLineOption(app_->add_flag(name, *value, help));
}

ProgramCommand ProgramCommand::AddCommand(const std::string& name,
                                          const std::string& help) const {
  return ProgramCommand(app_->add_subcommand(name, help));
}

void ProgramCommand::RequireCommand() const { app_->require_subcommand(1); }

void ProgramCommand::TakeOptionsBehindCommands() const { app_->fallthrough(); }

void ProgramCommand::WhenGiven(std::function<void()> call) const {
  app_->callback(std::move(call));
}

bool ProgramCommand::given() const { return app_->parsed(); }

void ProgramCommand::SetVersion(const std::string& version) const {
  app_->set_version_flag("--version", version);
}

void ProgramCommand::SetFooter(const std::string& text) const {
  app_->footer(text);
}

CommandLine::CommandLine(const std::string& description,
                         const std::string& name)
    : CommandLine(std::make_unique<CLI::App>(description, name)) {}

CommandLine::CommandLine(std::unique_ptr<CLI::App> app)
    : ProgramCommand(app.get()), app_(std::move(app)) {}

CommandLine::~CommandLine() = default;

std::optional<int> CommandLine::Parse(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app_->exit(error) == 0 ? 0 : 2;
  }
  return std::nullopt;
}

int CommandLine::Refuse(const std::string& wrong) {
  app_->exit(CLI::ValidationError(app_->get_name(), wrong));
  return 2;
}

}  // namespace lockstep
