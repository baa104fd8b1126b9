#include "sim/study/document_head.h"

#include "sim/study/evaluate.h"

namespace aurum {

Json InputsJson(const std::vector<Scenario::Input>& inputs) {
  Json all = Json::Array();
  for (const Scenario::Input& input : inputs) {
    Json entry = Json::Object();
    entry.Set("role", input.role);
    entry.Set("name", input.name);
    entry.Set("hash", input.hash);
    all.Append(std::move(entry));
  }
  return all;
}

Json WarningsJson(const std::vector<Diagnostic>& warnings) {
  Json all = Json::Array();
  for (const Diagnostic& warning : warnings) all.Append(DiagnosticJson(warning));
  return all;
}

}  // namespace aurum
