// aurum-fit-profiles KERNELS OUTPUT: fits every profile on the tables in KERNELS and writes
// OUTPUT/NAME.json. The catalogue's own files are made this way; a test compares them byte for
// byte.

#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

#include "calibrate/build_profiles.h"
#include "sim/core/diagnostic.h"
#include "sim/core/json.h"
#include "sim/core/text_file.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs(
        "usage: aurum-fit-profiles KERNELS OUTPUT\n"
        "  KERNELS  folder of measured tables, calibrate/kernels\n"
        "  OUTPUT   folder that the profiles are written to, calibrate/profiles\n",
        stderr);
    return static_cast<int>(aurum::ExitCode::kUsage);
  }
  try {
    const std::string output = argv[2];
    std::error_code error;
    std::filesystem::create_directories(output, error);
    for (const aurum::Profile& profile : aurum::BuildProfiles(argv[1])) {
      aurum::WriteTextFile(output + "/" + profile.name + ".json", aurum::ProfileText(profile));
      std::printf("%s\n", profile.name.c_str());
    }
  } catch (const aurum::InputError& error) {
    std::fputs(aurum::FormatDiagnostic(error.diagnostic()).c_str(), stderr);
    return static_cast<int>(error.exit_code());
  }
  return 0;
}
