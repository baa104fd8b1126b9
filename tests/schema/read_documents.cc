// Reads documents with our own readers, for check_agreement.py: every line of stdin is "KIND PATH
// JSON", every line of stdout is "ok" or the diagnostic's number and message.

#include <functional>
#include <iostream>
#include <map>
#include <string>

#include "models/reader.h"
#include "sim/audit/rows.h"
#include "sim/core/json.h"
#include "sim/cost/profile.h"
#include "sim/cost/stack.h"
#include "sim/monitor/series.h"
#include "sim/plan/scenario.h"
#include "sim/plan/scenario_file.h"
#include "sim/search/space.h"
#include "sim/study/design.h"
#include "sim/study/phases.h"
#include "sim/study/published/sources.h"
#include "sim/study/traffic.h"
#include "topologies/cluster.h"

int main() {
  aurum::InputCache cache(".");
  const std::map<std::string, std::function<void(const aurum::JsonDocument&)>> readers = {
      {"scenario",
       [&](const aurum::JsonDocument& document) {
         const aurum::Scenario scenario = aurum::ReadScenario(document, &cache);
         aurum::ReadDesign(document);
         if (document.root.Find("search") != nullptr) aurum::ReadSpace(document, scenario);
         if (aurum::HasPhases(document)) aurum::CheckPhases(document);
       }},
      {"claims",
       [](const aurum::JsonDocument& document) {
         aurum::ReadClaims(document, aurum::AllComputations());
       }},
      {"model", [](const aurum::JsonDocument& document) { aurum::ReadModel(document); }},
      {"cluster", [](const aurum::JsonDocument& document) { aurum::ReadCluster(document); }},
      {"profile", [](const aurum::JsonDocument& document) { aurum::ReadProfile(document); }},
      {"traffic",
       [&](const aurum::JsonDocument& document) { aurum::ReadTraffic(document, &cache); }},
      {"series",
       [&](const aurum::JsonDocument& document) { aurum::ReadSeries(document, ".", &cache); }},
      {"published-sources",
       [](const aurum::JsonDocument& document) { aurum::ReadPublishedSources(document); }},
      {"stack",
       [](const aurum::JsonDocument& document) {
         const std::string base = aurum::BaseOfStack(document);
         if (base.empty()) {
           aurum::ReadStack(document);
         } else {
           const aurum::Stack of = aurum::LoadStack(base, ".");
           aurum::ReadStack(document, &of);
         }
       }},
  };
  std::string line;
  while (std::getline(std::cin, line)) {
    const std::size_t blank = line.find(' ');
    const std::size_t second = line.find(' ', blank + 1);
    try {
      const std::string path = line.substr(blank + 1, second - blank - 1);
      aurum::JsonDocument document = aurum::ParseJson(line.substr(second + 1), path);
      aurum::ResolvePaths(path, &document);
      readers.at(line.substr(0, blank))(document);
      std::cout << "ok\n";
    } catch (const aurum::InputError& error) {
      const aurum::Diagnostic& d = error.diagnostic();
      std::cout << d.CodeName() << ' ' << d.message << '\n';
    }
  }
  return 0;
}
