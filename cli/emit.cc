#include <filesystem>
#include <system_error>

#include "cli/commands.h"
#include "cli/io.h"
#include "cli/version.h"
#include "sim/launch/launch.h"
#include "sim/study/decide.h"

namespace aurum {
namespace {

void WriteFolder(const Options& options, const LaunchText& launch, const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(folder, error);
  if (!fs::is_directory(folder, error)) {
    ThrowInput(204, "-o names a folder, and '" + folder + "' is none",
               "another name, which is made if it is not there");
  }
  for (const LaunchFile& file : launch.files) {
    const std::string path = (fs::path(folder) / file.name).string();
    WriteFileOf("-o", path, file.text);
    if (file.executable) {
      fs::permissions(path, fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec,
                      fs::perm_options::add, error);
    }
    Narrate(options, "wrote " + path);
  }
}

std::string Listing(const LaunchText& launch) {
  std::string text;
  for (const LaunchFile& file : launch.files) {
    text += (text.empty() ? "" : "\n") + std::string("==> ") + file.name + " <==\n" + file.text;
  }
  return text;
}

}  // namespace

void WriteLaunch(const Options& options, const Scenario& scenario, const std::string& framework,
                 const std::string& folder) {
  const LaunchText launch = Emit(scenario, *FrameworkByName(framework));
  PrintWarnings(options, launch.warnings);
  if (!folder.empty()) {
    WriteFolder(options, launch, folder);
    return;
  }
  WriteOutput(options, Listing(launch));
}

ExitCode EmitCommand(const Options& options, const std::string& file,
                     const std::string& framework) {
  const JsonDocument document = OpenScenario(options, file);
  InputCache cache(options.data_root);
  const Scenario scenario = ReadScenario(document, &cache);
  std::vector<Diagnostic> warnings = scenario.warnings;
  if (const auto left_out = PhasesLeftOut(document, "emit")) warnings.push_back(*left_out);
  PrintWarnings(options, warnings);
  if (options.format == Format::kJson || options.format == Format::kJsonLines) {
    LaunchText launch = Emit(scenario, *FrameworkByName(framework));
    PrintWarnings(options, launch.warnings);
    launch.warnings.insert(launch.warnings.begin(), warnings.begin(), warnings.end());
    const Json json = WithRunId(LaunchJson(launch, scenario, kToolVersion));
    WriteOutput(options, json.Dump(options.format == Format::kJson ? 2 : -1) + "\n");
    return ExitCode::kOk;
  }
  const bool folder = !options.output.empty() && options.output != "-";
  WriteLaunch(options, scenario, framework, folder ? options.output : "");
  return ExitCode::kOk;
}

}  // namespace aurum
