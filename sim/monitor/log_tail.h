#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace aurum {

// Cuts a stream of bytes into lines. What has no newline yet is kept, so that a line (or a character)
// that comes in two reads is one. Of a line longer than kMostLineBytes only its end is looked for.
class LineBuffer {
 public:
  static constexpr std::size_t kMostLineBytes = std::size_t{1} << 20U;
  // Appends the lines that are whole now, without their newlines.
  void Feed(std::string_view bytes, std::vector<std::string>* lines);
  // The stream ends here: what is left is a line.
  void Finish(std::vector<std::string>* lines);
  void Drop();  // what is left belongs to nothing any more
  std::int64_t overlong() const { return overlong_; }

 private:
  std::string rest_;
  bool skipping_ = false;
  std::int64_t overlong_ = 0;
};

// Reads a log that others write, as `tail -F` does.
//
// A file under a name may be another one tomorrow: logrotate renames it and the program opens a new
// one, or it copies and truncates. So each look compares three things with the file that is open: the
// inode behind the name (another: renamed; the old file is read to its end, then the new from its
// start), the size (below what was read: truncated; again from the start) and the first bytes (others:
// truncated and already longer than before; again from the start). A name without a file is waited for.
class LogTail {
 public:
  // "-" is standard input. E0201 no such file, E0202 unreadable or a folder.
  explicit LogTail(std::string path);
  ~LogTail();
  LogTail(const LogTail&) = delete;
  LogTail& operator=(const LogTail&) = delete;

  // Appends the lines that came since the last look. At most 4 MiB at once: `more` says that there are
  // more bytes already. Of standard input: waits for some.
  void Poll(std::vector<std::string>* lines);
  bool more() const { return more_; }
  // Standard input has ended. A file never does.
  bool ended() const { return ended_; }
  // No more looks: a last line without a newline is a line.
  void Finish(std::vector<std::string>* lines);

  std::int64_t rotations() const { return rotations_; }
  std::int64_t truncations() const { return truncations_; }
  std::int64_t overlong() const { return buffer_.overlong(); }

 private:
  bool Open();
  // Reads what is there, up to a limit; true if it reached the end of the file.
  bool ReadSome(std::vector<std::string>* lines);
  bool Rewritten() const;
  void Restart();

  std::string path_;
  int descriptor_ = -1;
  std::uint64_t device_ = 0, inode_ = 0;
  std::int64_t offset_ = 0;
  std::string head_;  // the first bytes, as far as they were read
  LineBuffer buffer_;
  bool more_ = false, ended_ = false;
  std::int64_t rotations_ = 0, truncations_ = 0;
};

}  // namespace aurum
