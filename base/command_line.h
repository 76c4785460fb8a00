// The options and commands of a program: declared one at a time, then parsed
// from argv into the declared variables.
//
//   CommandLine line("Trains the digits.", "digits");
//   line.Add("--steps", &steps, "optimizer steps").Positive().ShowDefault();
//   if (const std::optional<int> exit_code = line.Parse(argc, argv)) {
//     return *exit_code;
//   }
//
// Wraps CLI11, whose headers take six seconds to compile: only command_line.cc
// includes them.
//
// Variables must outlive Parse. Not thread-safe.

#ifndef LOCKSTEP_BASE_COMMAND_LINE_H_
#define LOCKSTEP_BASE_COMMAND_LINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace lockstep {

// One option, to be refined; its CommandLine owns it.
class CommandLineOption {
 public:
  explicit CommandLineOption(CLI::Option* option) : option_(option) {}

  CommandLineOption Required() const;
  // --help prints the variable's current value, or `text` instead.
  CommandLineOption ShowDefault() const;
  CommandLineOption ShowDefault(const std::string& text) const;
  CommandLineOption OneOf(const std::vector<std::string>& words) const;
  CommandLineOption Between(int64_t least, int64_t most) const;
  CommandLineOption Positive() const;
  CommandLineOption NotNegative() const;
  // `fault` returns what is wrong with the text, or an empty string; --help
  // prints `domain`.
  CommandLineOption CheckedBy(
      std::function<std::string(const std::string&)> fault,
      const std::string& domain) const;
  CommandLineOption ExistingFile() const;
  // Read from this environment variable if it is not on the command line.
  CommandLineOption FromVariable(const std::string& name) const;
  CommandLineOption SeparatedBy(char delimiter) const;
  // Takes the rest of the command line, at least one word.
  CommandLineOption TakesTheRest() const;
  CommandLineOption Needs(const CommandLineOption& other) const;
  CommandLineOption Excludes(const CommandLineOption& other) const;

 private:
  CLI::Option* option_;
};

// A program, or one of its commands (`lockstepctl run`). Its CommandLine owns
// it.
class ProgramCommand {
 public:
  explicit ProgramCommand(CLI::App* app) : app_(app) {}

  // `names`: "-n,--workers" for an option, or "JOB" for a positional argument.
  CommandLineOption Add(const std::string& names, std::string* value,
                        const std::string& help) const;
  CommandLineOption Add(const std::string& names, int* value,
                        const std::string& help) const;
  CommandLineOption Add(const std::string& names, int64_t* value,
                        const std::string& help) const;
  CommandLineOption Add(const std::string& names, uint64_t* value,
                        const std::string& help) const;
  CommandLineOption Add(const std::string& names, double* value,
                        const std::string& help) const;
  CommandLineOption Add(const std::string& names,
                        std::vector<std::string>* value,
                        const std::string& help) const;
  // `read` parses the text and returns what is wrong with it, or an empty
  // string.
  CommandLineOption Add(const std::string& names,
                        std::function<std::string(const std::string&)> read,
                        const std::string& help) const;
  CommandLineOption AddFlag(const std::string& name, bool* value,
                            const std::string& help) const;

  ProgramCommand AddCommand(const std::string& name,
                            const std::string& help) const;
  // One of the commands must be given.
  void RequireCommand() const;
  // Options of this command may also follow one of its subcommands.
  void TakeOptionsBehindCommands() const;
  // Called by Parse if this command is given.
  void WhenGiven(std::function<void()> call) const;
  bool given() const;
  void SetVersion(const std::string& version) const;
  // The last lines of --help.
  void SetFooter(const std::string& text) const;

 private:
  CLI::App* app_;
};

class CommandLine final : public ProgramCommand {
 public:
  CommandLine(const std::string& description, const std::string& name);
  ~CommandLine();

  // nullopt if the program shall continue. Else its exit code: 0 after --help
  // and --version, 2 after an error, which was printed to stderr.
  std::optional<int> Parse(int argc, char** argv);

  // Prints an error about valid options in combination; returns 2.
  int Refuse(const std::string& wrong);

 private:
  explicit CommandLine(std::unique_ptr<CLI::App> app);

  std::unique_ptr<CLI::App> app_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_COMMAND_LINE_H_
