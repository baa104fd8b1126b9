#pragma once

#include <string>
#include <vector>

#include "sim/core/json.h"

namespace aurum {

// Objects of a document as CSV, for machines: a column for every key, in the order of `columns` and then of their first
// appearance, so names carry their units as in the document. An object within is columns of its own ("choices.tp");
// a list of words is one cell, as a shell reads it; a list of anything else is left out.
std::string CsvOfRows(const std::vector<Json>& rows, std::vector<std::string> columns = {});

// In quotes where a shell would read more than the word.
std::string ShellQuoted(const std::string& word);

}  // namespace aurum
