#include "sim/monitor/log_tail.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "sim/core/diagnostic.h"

namespace aurum {
namespace {

constexpr std::size_t kReadBytes = std::size_t{64} << 10U;
constexpr std::size_t kMostAtOnce = std::size_t{4} << 20U;
constexpr std::size_t kHeadBytes = 256;

}  // namespace

void LineBuffer::Feed(std::string_view bytes, std::vector<std::string>* lines) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const bool whole = end != std::string_view::npos;
    const std::string_view part = whole ? bytes.substr(0, end) : bytes;
    bytes.remove_prefix(whole ? end + 1 : bytes.size());
    if (!skipping_ && rest_.size() + part.size() > kMostLineBytes) {
      skipping_ = true;
      ++overlong_;
      rest_.clear();
      rest_.shrink_to_fit();
    }
    if (!skipping_) rest_.append(part);
    if (!whole) continue;
    if (!skipping_) lines->push_back(std::move(rest_));
    rest_.clear();
    skipping_ = false;
  }
}

void LineBuffer::Finish(std::vector<std::string>* lines) {
  if (!rest_.empty()) lines->push_back(std::move(rest_));
  Drop();
}

void LineBuffer::Drop() {
  rest_.clear();
  skipping_ = false;
}

LogTail::LogTail(std::string path) : path_(std::move(path)) {
  if (path_ == "-") {
    descriptor_ = STDIN_FILENO;
    return;
  }
  struct stat status {};
  if (::stat(path_.c_str(), &status) != 0) {
    ThrowInput(201, "no such file: '" + path_ + "'",
               "the log that training writes, or - for standard input");
  }
  if (S_ISDIR(status.st_mode)) ThrowInput(202, "'" + path_ + "' is a directory, not a file");
  if (!Open()) {
    ThrowInput(202, "cannot read '" + path_ + "': " + std::strerror(errno),
               "check the permissions of the file");
  }
}

LogTail::~LogTail() {
  if (descriptor_ >= 0 && path_ != "-") ::close(descriptor_);
}

bool LogTail::Open() {
  const int descriptor = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return false;
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) {
    ::close(descriptor);
    return false;
  }
  descriptor_ = descriptor;
  device_ = status.st_dev;
  inode_ = status.st_ino;
  offset_ = 0;
  head_.clear();
  return true;
}

bool LogTail::ReadSome(std::vector<std::string>* lines) {
  std::string chunk(kReadBytes, '\0');
  std::size_t taken = 0;
  while (taken < kMostAtOnce) {
    const ssize_t got = ::read(descriptor_, chunk.data(), chunk.size());
    // A pipe that has nothing now, or a signal: the caller may want to stop.
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (got < 0) ThrowInput(202, "cannot read '" + path_ + "': " + std::strerror(errno));
    if (got == 0) {
      if (path_ == "-") ended_ = true;
      return true;
    }
    const std::string_view bytes(chunk.data(), static_cast<std::size_t>(got));
    if (head_.size() < kHeadBytes) head_.append(bytes.substr(0, kHeadBytes - head_.size()));
    buffer_.Feed(bytes, lines);
    offset_ += got;
    taken += bytes.size();
    if (path_ == "-") return true;  // the next read may wait
  }
  return false;
}

bool LogTail::Rewritten() const {
  std::string now(head_.size(), '\0');
  const ssize_t got = ::pread(descriptor_, now.data(), now.size(), 0);
  return got >= 0 && (static_cast<std::size_t>(got) < head_.size() || now != head_);
}

void LogTail::Restart() {
  buffer_.Drop();  // the rest of the line was cut off with the file
  head_.clear();
  offset_ = 0;
  ::lseek(descriptor_, 0, SEEK_SET);
  ++truncations_;
}

void LogTail::Poll(std::vector<std::string>* lines) {
  more_ = false;
  if (path_ == "-") {
    ReadSome(lines);
    return;
  }
  if (descriptor_ < 0) {  // the name had no file at the last look
    if (!Open()) return;
    ++rotations_;
  }
  struct stat open_file {};
  const bool regular = ::fstat(descriptor_, &open_file) == 0 && S_ISREG(open_file.st_mode);
  if (regular && (open_file.st_size < offset_ || (!head_.empty() && Rewritten()))) Restart();
  if (!ReadSome(lines)) {
    more_ = true;
    return;
  }
  if (!regular) return;
  struct stat named {};
  const bool there = ::stat(path_.c_str(), &named) == 0;
  if (there && named.st_dev == device_ && named.st_ino == inode_) return;
  // Renamed or removed. Its writer may have written between the last read and the renaming.
  if (!ReadSome(lines)) {
    more_ = true;
    return;
  }
  buffer_.Finish(lines);
  ::close(descriptor_);
  descriptor_ = -1;
  if (there && Open()) {
    ++rotations_;
    more_ = true;  // look at the new one at once
  }
}

void LogTail::Finish(std::vector<std::string>* lines) { buffer_.Finish(lines); }

}  // namespace aurum
