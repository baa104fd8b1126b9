#include "sim/monitor/log_tail.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/shared.h"

namespace aurum {
namespace {

using Lines = std::vector<std::string>;

class Scratch {
 public:
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "aurum-log-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~Scratch() { std::filesystem::remove_all(folder_); }
  std::string File(const char* name = "train.jsonl") const { return folder_ + "/" + name; }

 private:
  std::string folder_;
};

void Append(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::app | std::ios::binary) << text;
}
void Replace(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::trunc | std::ios::binary) << text;
}

Lines Look(LogTail* tail) {
  Lines lines;
  do {
    tail->Poll(&lines);
  } while (tail->more());
  return lines;
}

TEST_CASE("lines come whole, however the bytes come") {
  const std::string text = "eins\nzwei ä\n\ndrei";
  for (std::size_t cut = 1; cut <= text.size(); ++cut) {  // ä is cut in half, too
    LineBuffer buffer;
    Lines lines;
    for (std::size_t at = 0; at < text.size(); at += cut)
      buffer.Feed(std::string_view(text).substr(at, cut), &lines);
    CHECK(lines == Lines{"eins", "zwei ä", ""});
    buffer.Finish(&lines);
    CHECK(lines.back() == "drei");
  }
}

TEST_CASE("a line without end does not fill the memory, and the next one is read") {
  LineBuffer buffer;
  Lines lines;
  const std::string part(100000, 'x');
  for (int i = 0; i < 50; ++i) buffer.Feed(part, &lines);
  buffer.Feed("tail\nnext\n", &lines);
  CHECK(lines == Lines{"next"});
  CHECK(buffer.overlong() == 1);
  // Exactly the limit is a line.
  lines.clear();
  buffer.Feed(std::string(LineBuffer::kMostLineBytes, 'y') + "\n", &lines);
  CHECK(lines.size() == 1);
  CHECK(buffer.overlong() == 1);
}

TEST_CASE("a last line waits for its end") {
  const Scratch scratch;
  Replace(scratch.File(), "a\nb\nhalf");
  LogTail tail(scratch.File());
  CHECK(Look(&tail) == Lines{"a", "b"});
  CHECK(Look(&tail).empty());
  Append(scratch.File(), " whole\n");
  CHECK(Look(&tail) == Lines{"half whole"});
  Append(scratch.File(), "end");
  CHECK(Look(&tail).empty());
  Lines rest;
  tail.Finish(&rest);
  CHECK(rest == Lines{"end"});
}

TEST_CASE("renamed: the old file is read to its end, the new one from its start") {
  const Scratch scratch;
  Replace(scratch.File(), "1\n");
  LogTail tail(scratch.File());
  CHECK(Look(&tail) == Lines{"1"});
  Append(scratch.File(), "2\n3");  // written after the last look, the last line without an end
  std::filesystem::rename(scratch.File(), scratch.File("train.jsonl.1"));
  CHECK(Look(&tail) == Lines{"2", "3"});  // and there is no new one yet
  CHECK(Look(&tail).empty());
  Replace(scratch.File(), "4\n5\n");
  CHECK(Look(&tail) == Lines{"4", "5"});
  CHECK(tail.rotations() == 1);
  CHECK(tail.truncations() == 0);
  // Renamed and made anew between two looks.
  Append(scratch.File(), "6\n");
  std::filesystem::rename(scratch.File(), scratch.File("train.jsonl.1"));
  Replace(scratch.File(), "7\n");
  CHECK(Look(&tail) == Lines{"6", "7"});
  CHECK(tail.rotations() == 2);
}

TEST_CASE("truncated: read again from the start, and half a line before it is gone") {
  const Scratch scratch;
  Replace(scratch.File(), "1\n2\n3 half");
  LogTail tail(scratch.File());
  CHECK(Look(&tail) == Lines{"1", "2"});
  Replace(scratch.File(), "4\n");
  CHECK(Look(&tail) == Lines{"4"});
  CHECK(tail.truncations() == 1);
  CHECK(tail.rotations() == 0);
  // Truncated, and already longer than before: the size alone does not tell.
  Replace(scratch.File(), "5 and more than was there before\n6\n");
  CHECK(Look(&tail) == Lines{"5 and more than was there before", "6"});
  CHECK(tail.truncations() == 2);
}

TEST_CASE("what cannot be opened says why") {
  const Scratch scratch;
  CHECK(ThrownBy([&] { LogTail tail(scratch.File("none")); }).code == 201);
  CHECK(ThrownBy([&] { LogTail tail(std::filesystem::temp_directory_path().string()); }).code ==
        202);
}

TEST_CASE("no line is lost or twice while a writer writes in pieces and rotates") {
  const Scratch scratch;
  Replace(scratch.File(), "");
  std::atomic<bool> done{false};
  constexpr int kLines = 3000;
  std::thread writer([&] {
    std::FILE* file = std::fopen(scratch.File().c_str(), "a");
    for (int i = 0; i < kLines; ++i) {
      const std::string line = "line " + std::to_string(i) + "\n";
      std::fwrite(line.data(), 1, 4, file);
      std::fflush(file);
      std::fwrite(line.data() + 4, 1, line.size() - 4, file);
      std::fflush(file);
      if (i % 500 == 499) {
        std::fclose(file);
        // Two rotations between two looks would lose the file between them, with tail -F as here.
        std::this_thread::sleep_for(std::chrono::milliseconds(60));
        std::filesystem::rename(scratch.File(), scratch.File("old"));
        file = std::fopen(scratch.File().c_str(), "a");
      }
    }
    std::fclose(file);
    done = true;
  });
  LogTail tail(scratch.File());
  Lines all;
  for (bool last = false; !last;) {
    last = done;
    const Lines some = Look(&tail);
    all.insert(all.end(), some.begin(), some.end());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  writer.join();
  REQUIRE(all.size() == kLines);
  for (int i = 0; i < kLines; ++i)
    CHECK(all[static_cast<std::size_t>(i)] == "line " + std::to_string(i));
}

}  // namespace
}  // namespace aurum
