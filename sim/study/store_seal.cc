#include "sim/study/store_seal.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "sim/core/diagnostic.h"
#include "sim/core/hash.h"

namespace aurum {
namespace {

constexpr std::size_t kOffset = 60;
constexpr std::size_t kBytes = 4;
constexpr std::size_t kBlock = std::size_t{1} << 20;

class File {
 public:
  File(const std::string& path, int flags)
      : path_(path), descriptor_(::open(path.c_str(), flags | O_CLOEXEC)) {
    if (descriptor_ < 0) {
      ThrowInput(720, "cannot open '" + path + "': " + std::strerror(errno),
                 "check that you may read and write it");
    }
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { ::close(descriptor_); }

  // Up to `size` bytes at `offset`; fewer at the end of the file.
  std::size_t Read(char* to, std::size_t size, std::size_t offset) const {
    std::size_t done = 0;
    while (done < size) {
      const ssize_t got =
          ::pread(descriptor_, to + done, size - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) Fail("read");
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    return done;
  }
  void Write(const char* from, std::size_t size, std::size_t offset) const {
    if (::pwrite(descriptor_, from, size, static_cast<off_t>(offset)) != static_cast<ssize_t>(size))
      Fail("write");
  }

 private:
  [[noreturn]] void Fail(const char* what) const {
    ThrowInput(726, std::string("cannot ") + what + " '" + path_ + "': " + std::strerror(errno),
               "free some space, or check the disk, and run the same command again");
  }
  std::string path_;
  int descriptor_;
};

// The hash of the blocks' hashes, so that a file need not fit into memory; the seal itself as zeros.
std::uint32_t Checksum(const File& file) {
  std::vector<char> block(kBlock);
  std::vector<Hash128> hashes;
  for (std::size_t offset = 0;; offset += kBlock) {
    const std::size_t size = file.Read(block.data(), kBlock, offset);
    if (size == 0) break;
    if (offset == 0 && size >= kOffset + kBytes) std::fill_n(block.data() + kOffset, kBytes, '\0');
    hashes.push_back(HashBytes(block.data(), size));
    if (size < kBlock) break;
  }
  const auto sum =
      static_cast<std::uint32_t>(HashBytes(hashes.data(), hashes.size() * sizeof(Hash128)).low);
  return sum == 0 ? 1 : sum;
}

}  // namespace

void SealStore(const std::string& path) {
  const File file(path, O_RDWR);
  const std::uint32_t sum = Checksum(file);
  std::array<char, kBytes> bytes{};
  for (std::size_t i = 0; i < kBytes; ++i)
    bytes[i] = static_cast<char>(static_cast<unsigned char>(sum >> (24 - 8 * i)));
  file.Write(bytes.data(), kBytes, kOffset);
}

void CheckSeal(const std::string& path) {
  const File file(path, O_RDONLY);
  std::array<char, kBytes> bytes{};
  if (file.Read(bytes.data(), kBytes, kOffset) < kBytes) return;
  std::uint32_t sealed = 0;
  for (const char byte : bytes) sealed = sealed << 8 | static_cast<unsigned char>(byte);
  if (sealed == 0) return;
  // SQLite applies a log to whatever file has its name. A complete store has left its own behind, so
  // this one is of another file, and what it says is covered by no seal.
  std::error_code none;
  if (const auto size = std::filesystem::file_size(path + "-wal", none); !none && size > 0) {
    ThrowInput(721, "'" + path + "-wal' lies beside a complete database and would change it",
               "move it away, and '" + path + "-shm' with it");
  }
  if (sealed == Checksum(file)) return;
  ThrowInput(
      721, "'" + path + "' is damaged, or was changed after it was complete",
      "restore it, or sweep again into another file; to keep a change of your own: sqlite3 '" +
          path + "' 'PRAGMA user_version = 0'");
}

}  // namespace aurum
