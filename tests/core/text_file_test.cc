#include "sim/core/text_file.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

namespace aurum {
namespace {

TEST_CASE("a file that was read is known by every name that it has") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / "aurum-text-file-test";
  fs::remove_all(folder);
  fs::create_directories(folder);
  const std::string path = (folder / "a").string();
  WriteTextFile(path, "text");
  CHECK_FALSE(WasRead(path));
  CHECK(ReadTextFile(path) == "text");
  CHECK(WasRead(path));
  fs::create_symlink("a", folder / "link");
  fs::create_hard_link(path, folder / "hard");
  CHECK(WasRead((folder / "link").string()));
  CHECK(WasRead((folder / "hard").string()));
  CHECK_FALSE(WasRead((folder / "none").string()));
  CHECK_FALSE(WasRead("/dev/null"));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace aurum
