// Drives one fuzz entry without libFuzzer: every seed as it is, then a fixed number of
// deterministic mutations of them.
//
//   fuzz_NAME ITERATIONS SEED-FILE-OR-FOLDER...
//
// A finding ends the process; the input that led to it is left in fuzz_NAME.finding beside the
// binary.

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/entry.h"

namespace {

constexpr std::size_t kMaxInput = 64 << 10;

// Where a parser tends to be wrong: the ends of ranges, other types, other nesting, characters that
// need care.
constexpr std::array<std::string_view, 28> kWords = {"0",
                                                     "-1",
                                                     "1",
                                                     "1e308",
                                                     "-1e308",
                                                     "1e-308",
                                                     "9223372036854775807",
                                                     "9223372036854775808",
                                                     "0.5",
                                                     "1e19",
                                                     "null",
                                                     "true",
                                                     "[]",
                                                     "{}",
                                                     "\"\"",
                                                     "\"\\u0000\"",
                                                     "[",
                                                     "]",
                                                     "{",
                                                     "}",
                                                     ",",
                                                     ":",
                                                     "\"",
                                                     "\\",
                                                     "\xff",
                                                     "\n",
                                                     "é",
                                                     "2147483648"};

// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  std::size_t Below(std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(Next() % n); }

 private:
  std::uint64_t state_;
};

// The end of the value-like run of characters that begins at `at`: what a whole number, word or
// string takes.
std::size_t TokenEnd(const std::string& text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() &&
         std::string_view(",:[]{} \n\t").find(text[end]) == std::string_view::npos)
    ++end;
  return end;
}

void Mutate(const std::vector<std::string>& seeds, Random* random, std::string* text) {
  const std::size_t at = random->Below(text->size() + 1);
  const std::string_view word = kWords[random->Below(kWords.size())];
  switch (random->Below(8)) {
    case 0:  // another byte
      if (at < text->size()) (*text)[at] = static_cast<char>(random->Below(256));
      break;
    case 1:
      text->insert(at, word);
      break;
    case 2: {  // another value in place of one that is there: the mutation that gets furthest into
               // a reader
      std::size_t begin = at;
      while (begin < text->size() && TokenEnd(*text, begin) == begin) ++begin;
      text->replace(begin, TokenEnd(*text, begin) - begin, word);
      break;
    }
    case 3:
      text->erase(at, 1 + random->Below(16));
      break;
    case 4:  // a stretch twice
      text->insert(at, text->substr(at, 1 + random->Below(64)));
      break;
    case 5:  // a stretch of another seed
      if (const std::string& other = seeds[random->Below(seeds.size())]; !other.empty()) {
        text->insert(at, other.substr(random->Below(other.size()), 1 + random->Below(64)));
      }
      break;
    case 6:
      text->resize(at);
      break;
    default: {  // a line less
      const std::size_t begin = text->rfind('\n', at == 0 ? 0 : at - 1);
      if (begin != std::string::npos) text->erase(begin, text->find('\n', begin + 1) - begin);
      break;
    }
  }
  if (text->size() > kMaxInput) text->resize(kMaxInput);
}

std::vector<std::string> ReadSeeds(int count, char** paths) {
  std::vector<std::filesystem::path> files;
  for (int i = 0; i < count; ++i) {
    if (std::filesystem::is_directory(paths[i])) {
      for (const auto& entry : std::filesystem::recursive_directory_iterator(paths[i])) {
        if (entry.is_regular_file()) files.push_back(entry.path());
      }
    } else {
      files.emplace_back(paths[i]);
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> seeds;
  for (const std::filesystem::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    if (!in) {
      std::fprintf(stderr, "cannot read the seed %s\n", file.c_str());
      std::exit(2);
    }
    seeds.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return seeds;
}

// What the handler of a deadly signal may look at.
std::string current;       // NOLINT(readability-identifier-naming)
std::string finding_path;  // NOLINT(readability-identifier-naming)

void Keep(int signal_number) {
  const int file = open(finding_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file >= 0) {
    if (write(file, current.data(), current.size()) < 0) _exit(3);
    close(file);
  }
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
}

void Run(const std::string& text) {
  current = text;
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(current.data()), current.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s ITERATIONS SEED-FILE-OR-FOLDER...\n", argv[0]);
    return 2;
  }
  const long iterations = std::strtol(argv[1], nullptr, 10);
  const std::vector<std::string> seeds = ReadSeeds(argc - 2, argv + 2);
  if (seeds.empty()) {
    std::fprintf(stderr, "there are no seeds in the places given\n");
    return 2;
  }
  finding_path = std::string(argv[0]) + ".finding";
  for (const int signal_number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTERM}) {
    std::signal(signal_number, Keep);
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // A small file that asks for memory without end is a finding too (sanitizers reserve more address
  // space than this).
  const rlimit limit{rlim_t{2} << 30, rlim_t{2} << 30};
  setrlimit(RLIMIT_AS, &limit);
#endif

  for (const std::string& seed : seeds) Run(seed);
  Random random(20240229);
  for (long i = 0; i < iterations; ++i) {
    std::string text = seeds[random.Below(seeds.size())];
    if (text.size() > kMaxInput) text.resize(kMaxInput);
    const std::size_t mutations = 1 + random.Below(4);
    for (std::size_t m = 0; m < mutations; ++m) Mutate(seeds, &random, &text);
    Run(text);
  }
  std::printf("%zu seeds, %ld mutations\n", seeds.size(), iterations);
  return 0;
}
