#include "sim/workload/sample_file.h"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <utility>

#include "sim/core/hash.h"
#include "sim/core/json.h"
#include "sim/core/object_reader.h"
#include "sim/core/random.h"
#include "sim/core/text_file.h"

namespace aurum {
namespace {

constexpr std::size_t kMostLines = 100'000'000;
constexpr std::size_t kLongestLine = 1 << 20;

// A position on one line of plain JSON: keys and numbers, no escapes, no blanks inside of tokens.
// Every step says whether it found what it wanted; the first that did not ends the scan.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  bool Take(char wanted) {
    Blank();
    if (at_ == end_ || *at_ != wanted) return false;
    ++at_;
    return true;
  }
  bool Word(std::string_view* word) {
    if (!Take('"')) return false;
    const char* from = at_;
    while (at_ != end_ && *at_ != '"' && *at_ != '\\' && static_cast<unsigned char>(*at_) >= 0x20)
      ++at_;
    *word = {from, static_cast<std::size_t>(at_ - from)};
    return Take('"');
  }
  // Digits alone, at most 9 of them: none of JSON's other spellings.
  bool Whole(std::int64_t low, std::int64_t high, std::int64_t* value) {
    Blank();
    const char* from = at_;
    std::int64_t number = 0;
    while (at_ != end_ && *at_ >= '0' && *at_ <= '9' && at_ - from < 10) {
      number = number * 10 + (*at_++ - '0');
    }
    const bool plain = at_ != from && at_ - from < 10 && (*from != '0' || at_ - from == 1);
    *value = number;
    return plain && Ends() && number >= low && number <= high;
  }
  // Digits, a point and digits.
  bool Seconds(double* value) {
    Blank();
    const char* from = at_;
    while (at_ != end_ && *at_ >= '0' && *at_ <= '9') ++at_;
    if (at_ == from || (*from == '0' && at_ - from > 1)) return false;
    if (at_ != end_ && *at_ == '.') {
      const char* point = at_++;
      while (at_ != end_ && *at_ >= '0' && *at_ <= '9') ++at_;
      if (at_ == point + 1) return false;
    }
    const auto [stop, error] = std::from_chars(from, at_, *value);
    return error == std::errc() && stop == at_ && Ends() && *value <= kMostAudioSeconds;
  }
  bool AtEnd() {
    Blank();
    return at_ == end_;
  }

 private:
  void Blank() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }
  bool Ends() const {
    return at_ == end_ || *at_ == ',' || *at_ == ']' || *at_ == '}' || *at_ == ' ';
  }

  const char* at_;
  const char* end_;
};

bool ScanImages(Cursor* at, std::vector<MediaItem>* images) {
  if (!at->Take('[')) return false;
  if (at->Take(']')) return true;
  do {
    MediaItem item;
    if (!at->Take('[') || !at->Whole(1, kMostMediaSide, &item.width) || !at->Take(',') ||
        !at->Whole(1, kMostMediaSide, &item.height) || !at->Take(']')) {
      return false;
    }
    images->push_back(item);
  } while (at->Take(','));
  return at->Take(']');
}

bool ScanVideo(Cursor* at, std::vector<MediaItem>* videos) {
  MediaItem item;
  item.kind = MediaKind::kVideo;
  if (!at->Take('{')) return false;
  do {
    std::string_view key;
    if (!at->Word(&key) || !at->Take(':')) return false;
    const bool frames = key == "frames";
    std::int64_t* value = frames       ? &item.frames
                          : key == "w" ? &item.width
                          : key == "h" ? &item.height
                                       : nullptr;
    if (value == nullptr || *value != 0) return false;
    if (!at->Whole(1, frames ? kMostVideoFrames : kMostMediaSide, value)) return false;
  } while (at->Take(','));
  videos->push_back(item);
  return at->Take('}') && item.frames > 0 && item.width > 0 && item.height > 0;
}

// In one order, whatever the order of the keys; equal neighbours are one entry.
void Assemble(const std::vector<MediaItem>& images, double seconds,
              const std::vector<MediaItem>& videos, Sample* sample) {
  const auto add = [&](const MediaItem& item) {
    if (!sample->media.empty()) {
      MediaItem last = sample->media.back();
      last.count = 1;
      if (last == item) {
        ++sample->media.back().count;
        return;
      }
    }
    sample->media.push_back(item);
  };
  for (const MediaItem& item : images) add(item);
  if (seconds > 0) {
    MediaItem item;
    item.kind = MediaKind::kAudio;
    item.seconds = seconds;
    add(item);
  }
  for (const MediaItem& item : videos) add(item);
}

Sample ReadLine(const std::string& text, const std::string& file) {
  const JsonDocument document = ParseJson(text, file);
  ObjectReader reader(document, document.root, "");
  Sample sample;
  sample.text_tokens = reader.Integer("text_tokens", 0, kMostSampleTokens);
  std::vector<MediaItem> images, videos;
  if (reader.Has("images")) {
    constexpr const char* kForm = "\"images\": [[width, height], …], whole pixels in 1 … 65536";
    const Json& list = reader.Value("images");
    if (!list.IsArray()) {
      reader.Fail(627, "images", "'images' is " + std::string(list.TypeName()), kForm);
    }
    for (const Json& image : list.items()) {
      const auto side = [&](std::size_t i) -> std::int64_t {
        if (!image.IsArray() || image.items().size() != 2 || !image.items()[i].IsInteger())
          return 0;
        return image.items()[i].AsInteger();
      };
      MediaItem item;
      item.width = side(0);
      item.height = side(1);
      if (item.width < 1 || item.height < 1 || item.width > kMostMediaSide ||
          item.height > kMostMediaSide) {
        reader.Fail(627, "images", "an image is " + image.Dump(), kForm);
      }
      images.push_back(item);
    }
  }
  const double seconds = reader.NumberOr("audio_s", 0, 0, kMostAudioSeconds);
  if (reader.Has("video")) {
    std::vector<ObjectReader> list;
    if (reader.Value("video").IsArray()) {
      list = reader.Objects("video");
    } else {
      list.push_back(reader.Object("video"));
    }
    for (ObjectReader& video : list) {
      MediaItem item;
      item.kind = MediaKind::kVideo;
      item.frames = video.Integer("frames", 1, kMostVideoFrames);
      item.width = video.Integer("w", 1, kMostMediaSide);
      item.height = video.Integer("h", 1, kMostMediaSide);
      video.Finish();
      videos.push_back(item);
    }
  }
  reader.Finish();
  Assemble(images, seconds, videos, &sample);
  if (sample.text_tokens == 0 && sample.media.empty()) {
    reader.Fail(624, "", "this sample holds neither text nor media",
                "remove the line, or give it text_tokens");
  }
  return sample;
}

}  // namespace

Sample ReadSampleLine(const std::string& text, const std::string& file, std::size_t line) {
  try {
    return ReadLine(text, file);
  } catch (const InputError& error) {
    Diagnostic d = error.diagnostic();
    d.where.line += static_cast<int>(line) - 1;
    throw InputError(std::move(d), error.exit_code());
  }
}

bool ScanSampleLine(std::string_view text, Sample* sample) {
  *sample = Sample();
  Cursor at(text);
  std::vector<MediaItem> images, videos;
  double seconds = 0;
  unsigned seen = 0;
  if (!at.Take('{')) return false;
  do {
    std::string_view key;
    if (!at.Word(&key) || !at.Take(':')) return false;
    unsigned bit = 0;
    bool good = false;
    if (key == "text_tokens") {
      bit = 1;
      good = at.Whole(0, kMostSampleTokens, &sample->text_tokens);
    } else if (key == "images") {
      bit = 2;
      good = ScanImages(&at, &images);
    } else if (key == "audio_s") {
      bit = 4;
      good = at.Seconds(&seconds);
    } else if (key == "video") {
      bit = 8;
      if (at.Take('[')) {
        good = at.Take(']');
        if (!good) {
          do {
            good = ScanVideo(&at, &videos);
          } while (good && at.Take(','));
          good = good && at.Take(']');
        }
      } else {
        good = ScanVideo(&at, &videos);
      }
    }
    if (!good || (seen & bit) != 0) return false;  // a key twice is E0104
    seen |= bit;
  } while (at.Take(','));
  if (!at.Take('}') || !at.AtEnd() || (seen & 1) == 0) return false;
  Assemble(images, seconds, videos, sample);
  return sample->text_tokens > 0 || !sample->media.empty();
}

Sample SampleFile::At(std::size_t index) const {
  Sample sample;
  sample.text_tokens = text_tokens_[index];
  sample.media.assign(media_.begin() + first_media_[index],
                      media_.begin() + first_media_[index + 1]);
  return sample;
}

// A shuffle without a shuffled list. Numbers of 2h bits, the fewest even number that hold size()
// values, go through a Feistel network: (left, right) → (right, left ⊕ f(right)), four rounds with
// f a random function of the seed, the pass and the round. Every round can be undone, so the whole is
// a permutation of 4^h values; one that falls beyond size() goes through again until it does not,
// which keeps it a permutation of the rest (Black and Rogaway, "Ciphers with arbitrary finite
// domains", 2002). At most four values in one of use, so four passes on average at worst.
//
// 600 lines: h = 5, 1024 values; position 7 may go to 871, and from there to 12.
std::size_t SampleFile::IndexAt(std::uint64_t seed, std::uint64_t position) const {
  const std::uint64_t count = size();
  const std::uint64_t pass = position / count;
  std::uint64_t value = position % count;
  const int half = std::max(1, (static_cast<int>(std::bit_width(count - 1)) + 1) / 2);
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  do {
    std::uint64_t left = value >> half, right = value & mask;
    for (std::uint64_t round = 0; round < 4; ++round) {
      const std::uint64_t mixed = RandomBits(seed, 4 * pass + round, right) & mask;
      left = std::exchange(right, left ^ mixed);
    }
    value = left << half | right;
  } while (value >= count);
  return static_cast<std::size_t>(value);
}

void SampleFile::Append(const Sample& sample, std::size_t line) {
  text_tokens_.push_back(sample.text_tokens);
  media_.insert(media_.end(), sample.media.begin(), sample.media.end());
  first_media_.push_back(static_cast<std::uint32_t>(media_.size()));
  lines_.push_back(static_cast<std::uint32_t>(line));
}

SampleFile SampleFile::Read(const std::string& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  std::ifstream in;
  if (std::filesystem::exists(status) && !std::filesystem::is_directory(status)) {
    in.open(path, std::ios::binary);
  }
  if (!in.is_open()) {
    ReadTextFile(path);  // says why not
    ThrowInput(202, "cannot read '" + path + "'", "check the permissions of the file");
  }
  NoteRead(path);
  SampleFile file;
  file.path_ = path;
  Hash128 hash;
  std::vector<char> buffer(kLongestLine);
  Sample sample;
  std::size_t line = 0;
  while (in.getline(buffer.data(), static_cast<std::streamsize>(buffer.size()))) {
    ++line;
    const std::streamsize taken = in.gcount() - (in.eof() ? 0 : 1);  // without the newline
    const std::string_view text(buffer.data(), static_cast<std::size_t>(taken));
    const Hash128 own = HashText(text);
    const std::array<std::uint64_t, 4> chain = {hash.high, hash.low, own.high, own.low};
    hash = HashBytes(chain.data(), sizeof chain);
    if (text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (!ScanSampleLine(text, &sample)) sample = ReadSampleLine(std::string(text), path, line);
    if (file.size() >= kMostLines || file.media_.size() >= 0xfff00000u) {
      ThrowInput(628, "'" + path + "' holds more samples or media than can be counted",
                 "take a part of the file: the mix of 10^6 samples is that of all");
    }
    file.Append(sample, line);
  }
  if (!in.eof() && !in.bad()) {  // the buffer is full: not a file of samples (/dev/zero never ends)
    Diagnostic d;
    d.code = 629;
    d.message = "a line is longer than 1 MiB";
    d.where.file = path;
    d.where.line = static_cast<int>(line) + 1;
    d.where.column = 1;
    d.help = "one sample a line; is this the right file?";
    throw InputError(std::move(d));
  }
  if (in.bad()) ThrowInput(202, "cannot read '" + path + "' to its end", "is the disk healthy?");
  if (file.size() == 0) {
    Diagnostic d;
    d.code = 625;
    d.message = "there is no sample in '" + path + "'";
    d.where.file = path;
    d.help = "one JSON object a line: {\"text_tokens\": 123, \"images\": [[640, 480]]}";
    throw InputError(std::move(d));
  }
  file.hash_ = hash.Hex();
  return file;
}

std::shared_ptr<const SampleFile> SampleFileCache::Get(const std::string& path) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = files_.find(path); found != files_.end()) return found->second;
  }
  // Read outside of the lock: two threads may both read, and agree.
  auto file = std::make_shared<const SampleFile>(SampleFile::Read(path));
  const std::lock_guard lock(mutex_);
  return files_.emplace(path, std::move(file)).first->second;
}

}  // namespace aurum
