#include "sim/core/text_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "sim/core/diagnostic.h"

namespace aurum {
namespace {

constexpr std::uintmax_t kMaxFileBytes = 256ULL << 20;

// By device and inode: what the kernel calls one file.
struct FilesRead {
  std::mutex mutex;
  std::set<std::pair<dev_t, ino_t>> files;
};
FilesRead& AllRead() {
  static FilesRead read;
  return read;
}
std::optional<std::pair<dev_t, ino_t>> Identity(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return std::pair{status.st_dev, status.st_ino};
}

}  // namespace

bool WasRead(const std::string& path) {
  const auto identity = Identity(path);
  if (!identity) return false;
  FilesRead& read = AllRead();
  const std::lock_guard lock(read.mutex);
  return read.files.contains(*identity);
}

void NoteRead(const std::string& path) {
  const auto identity = Identity(path);
  if (!identity) return;
  FilesRead& read = AllRead();
  const std::lock_guard lock(read.mutex);
  read.files.insert(*identity);
}

std::string ReadTextFile(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  const auto fail = [&](int code, std::string message, std::string help) {
    Diagnostic d;
    d.code = code;
    d.message = std::move(message);
    d.help = std::move(help);
    throw InputError(std::move(d));
  };
  if (!std::filesystem::exists(status)) {
    std::string help;
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    std::vector<std::string> names;
    std::error_code ignored;
    for (const auto& entry :
         std::filesystem::directory_iterator(folder.empty() ? "." : folder, ignored)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    const std::string nearest = NearestName(std::filesystem::path(path).filename().string(), names);
    if (!nearest.empty()) help = "did you mean '" + (folder / nearest).string() + "'?";
    fail(201, "no such file: '" + path + "'", help);
  }
  if (std::filesystem::is_directory(status))
    fail(202, "'" + path + "' is a directory, not a file", "");
  if (std::filesystem::is_regular_file(status)) {
    const auto size = std::filesystem::file_size(path, error);
    if (!error && size > kMaxFileBytes) {
      fail(203, "'" + path + "' is larger than 256 MiB", "is this the right file?");
    }
  }
  std::ifstream in(path, std::ios::binary);
  std::string text;
  std::vector<char> chunk(1 << 20);
  errno = 0;
  while (in && text.size() <= kMaxFileBytes) {  // a device or pipe has no size to look at first
    in.read(chunk.data(), static_cast<std::streamsize>(chunk.size()));
    text.append(chunk.data(), static_cast<std::size_t>(in.gcount()));
  }
  if (text.size() > kMaxFileBytes)
    fail(203, "'" + path + "' is larger than 256 MiB", "is this the right file?");
  if (in.bad() || (!in.eof() && !in) || errno == EIO)
    fail(202, "cannot read '" + path + "': " + std::strerror(errno),
         "check the permissions of the file");
  NoteRead(path);
  return text;
}

void WriteTextFile(const std::string& path, std::string_view text) {
  namespace fs = std::filesystem;
  const auto fail = [&](const std::string& why) {
    ThrowInput(204, "cannot write '" + path + "': " + why,
               "check that the folder exists, is writable and has room");
  };
  std::error_code error;
  if (fs::is_symlink(path, error)) {  // what it points to is meant, and the link stays
    const fs::path target = fs::weakly_canonical(path, error);
    if (error) fail(error.message());
    if (target != fs::path(path)) {
      WriteTextFile(target.string(), text);
      return;
    }
  }
  // A device or pipe (/dev/stdout) cannot be renamed over.
  if (fs::exists(path, error) && !fs::is_regular_file(path, error)) {
    if (fs::is_directory(path, error)) fail("it is a directory");
    std::ofstream out(path, std::ios::binary);
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    out.flush();
    if (!out) fail(std::strerror(errno));
    return;
  }
  const std::string beside = path + ".tmp" + std::to_string(::getpid());
  errno = 0;
  {
    std::ofstream out(beside, std::ios::binary | std::ios::trunc);
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    out.flush();
    if (!out) {
      const std::string why = std::strerror(errno);
      fs::remove(beside, error);
      fail(why);
    }
  }
  fs::rename(beside, path, error);
  if (error) {
    std::error_code ignored;
    fs::remove(beside, ignored);
    fail(error.message());
  }
}

}  // namespace aurum
