#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/json.h"

namespace aurum {

// Between two ends; what a design that draws its points takes values from.
struct AxisRange {
  double from = 0;
  double to = 0;         // above `from`
  bool log = false;      // equal ratios are equally likely; from > 0
  bool integer = false;  // whole numbers only, both ends among them
};

// One dimension of a sweep: the place in the scenario that changes, and the values that it takes.
//
// Values are canonical, so that one point has one id however its axis was spelled: a number without
// a fraction is an integer (8.0 and 8e0 are 8), -0 is 0, computed values are rounded (see below).
struct Axis {
  std::string
      path;  // dotted ("plan.micro_batch_size") or a JSON pointer ("/plan/micro_batch_size")
  std::vector<Json> values;  // at least one, all different (but see AxisRules); none with a range
  std::optional<AxisRange> range = {};  // instead of values
};

// What a design (sim/study/design.h) lets its axes be.
struct AxisRules {
  bool ranges = false;   // values drawn between two ends
  bool repeats = false;  // the same value twice, told apart by another axis
  bool product = true;   // their combinations are the points, and may not be too many
};

constexpr std::size_t kMaxSweepPoints = 10'000'000;  // of all axes together
constexpr std::size_t kMaxAxes = 64;

// The axes of the scenario's "sweep" section, {"axes": [...]}; none if it has no such section. An
// axis is
//     {"path": P, "values": [...]}                                          values of any JSON type
//     {"path": P, "from": A, "to": B, "count": N, "scale": "linear"|"log"}  N >= 2 values, both
//     ends exact
// Linear is the default; linear values are rounded to 12 significant digits, logarithmic ones to 6,
// so that the last bits of a machine's exp() change no id. Errors point into the file: E0101 ...
// E0108 of the strict reader, and
//   E0701 an axis that is neither form or both, a path that cannot be varied, too many axes, or a
//   range without a count that no rule allows
//   E0702 no values · E0703 a range that cannot be walked · E0705 more than kMaxSweepPoints points
//   E0706 two axes at one path, or one inside the other · E0707 the same value twice
// With AxisRules::ranges an axis may leave out "count", and say {"integer": true} in its place.
std::vector<Axis> ReadAxes(const JsonDocument& scenario, const AxisRules& rules = {});

// An axis of the command line:
//     path=a,b,c        a list: numbers, bare words, "quoted strings", JSON arrays and objects,
//     true, false, null path=lo:hi:step   lo, lo + step, ... up to and including hi; in exact
//     decimal arithmetic, so 0:1:0.1 holds 0.3 path=lo:hi:*f     lo, lo·f, lo·f², ... up to and
//     including hi; exact for integers, else to 12 significant digits path=lo:hi[:log][:int]
//     a range, where the rules allow it
// A word that looks like a range is written in quotes. Errors as above, and E0704: NaN, an
// infinity, or a number too large.
Axis ParseVary(std::string_view text, const AxisRules& rules = {});

// The axes of a run: the scenario's, where `vary` of the same path replaces the scenario's axis in
// its place, and other paths are appended in the order given. E0706 if two of `vary` name one path.
std::vector<Axis> SweepAxes(const JsonDocument& scenario, const std::vector<std::string>& vary,
                            const AxisRules& rules = {});

// The number of points of all combinations, 1 for no axes or where they are not the points. Checks
// everything that ReadAxes would (E0701, E0702, E0705 ... E0707), without a place, for axes that a
// program made.
std::size_t CheckAxes(const std::vector<Axis>& axes, const AxisRules& rules = {});

// One value as it is spelled on a command line or in a table: a number, true, false, null, JSON in
// quotes, brackets or braces, or else a word. E0701, E0702, E0704.
Json ParseAxisValue(const std::string& text);
// The one way to write a number: whole ones as integers.
Json CanonicalAxisValue(Json value);

// The path as a JSON pointer, whichever way it is spelled: what makes two paths equal.
std::string AxisPointer(std::string_view path);

// [{"path": ..., "values": [...]}, {"path": ..., "from": ..., "to": ...}, ...], what ReadAxes reads
// back as the same axes.
Json AxesToJson(const std::vector<Axis>& axes);

}  // namespace aurum
