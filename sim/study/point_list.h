#pragma once

#include <string>
#include <vector>

#include "sim/core/json.h"
#include "sim/study/axis.h"

namespace aurum {

// Points that are told one by one. Each reader gives one axis a column, with as many values as there
// are points, repeats among them; every point must set every path that the first one sets.
//   E0711 a point that sets other paths, a table whose lines differ in length, or no points at all
//   and those of ParseAxisValue for a cell, with file and line.

// `points`, an array of objects of path and value, at `pointer` of the document.
std::vector<Axis> ReadPointList(const JsonDocument& document, const Json& points,
                                const std::string& pointer);

// A file: a table with a line of paths on top (.csv; cells in double quotes may hold commas, quotes
// and line breaks), an array of objects (.json), or one object a line (.jsonl). E0201 … E0203, E0100
// and E0711 for another ending.
std::vector<Axis> ReadPointFile(const std::string& path);

}  // namespace aurum
