#pragma once

#include <string>
#include <vector>

#include "sim/study/published/record.h"
#include "sim/study/published/to_scenario.h"

namespace aurum {

// The records of tests/study/fixtures/published_NAME.json.
inline std::vector<Record> PublishedFixture(const std::string& name) {
  const JsonDocument arguments = ReadJsonFile("tests/study/fixtures/published_megatron_args.json");
  return ReadRecords(ReadJsonFile("tests/study/fixtures/published_" + name + ".json"), &arguments);
}

inline JsonDocument AsDocument(const Json& json) {
  return ParseJson(json.Dump(2), "made of a record");
}

// Whether a note says that `part` was taken for granted.
inline bool Assumes(const Translation& t, const std::string& part) {
  for (const std::string& note : t.assumed)
    if (note.find(part) != std::string::npos) return true;
  return false;
}

}  // namespace aurum
