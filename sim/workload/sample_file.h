#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sim/workload/sample_source.h"

namespace aurum {

// Real samples, one JSON object a line: {"text_tokens": 123, "images": [[width, height], …],
// "audio_s": 1.5, "video": {"frames": 32, "w": 640, "h": 360}}, the last also as a list. Packed in
// memory (16 bytes a sample and 56 an item of media); immutable, so threads may share it.
class SampleFile {
 public:
  std::size_t size() const { return text_tokens_.size(); }
  Sample At(std::size_t index) const;
  // At which place of the endless stream of `seed`: every pass over the file is a permutation of it.
  std::size_t IndexAt(std::uint64_t seed, std::uint64_t position) const;
  std::size_t LineOf(std::size_t index) const { return lines_[index]; }  // from 1
  const std::string& path() const { return path_; }
  const std::string& hash() const { return hash_; }  // of the lines, hexadecimal

  // Streams the file: a line in memory at a time. E0201, E0202 no file; E01xx, E0624, E0627, E0629 with
  // file, line and column; E0625 no sample in it.
  static SampleFile Read(const std::string& path);

 private:
  void Append(const Sample& sample, std::size_t line);

  std::string path_, hash_;
  std::vector<std::int64_t> text_tokens_;
  std::vector<std::uint32_t> first_media_{0};  // one more than samples
  std::vector<std::uint32_t> lines_;
  std::vector<MediaItem> media_;
};

// One line, read strictly: what the fast scanner of SampleFile must agree with. `file` and `line`
// are for messages.
Sample ReadSampleLine(const std::string& text, const std::string& file, std::size_t line);
// The same for lines in plain form, without a word on failure; false: let ReadSampleLine judge.
bool ScanSampleLine(std::string_view text, Sample* sample);

// Files that many scenarios of a study share, read once each. Threads may share it.
class SampleFileCache {
 public:
  std::shared_ptr<const SampleFile> Get(const std::string& path);

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const SampleFile>> files_;
};

}  // namespace aurum
