#pragma once

#include <vector>

#include "sim/core/diagnostic.h"
#include "sim/core/json.h"
#include "sim/plan/scenario.h"

namespace aurum {

// What every document of a scenario begins with, beside its schema and version.
Json InputsJson(const std::vector<Scenario::Input>& inputs);  // [{"role", "name", "hash"}]
Json WarningsJson(const std::vector<Diagnostic>& warnings);   // as DiagnosticJson()

}  // namespace aurum
