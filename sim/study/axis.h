#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/json.h"

namespace aurum {

// One dimension of a sweep: the place in the scenario that changes, and the values that it takes.
//
// Values are canonical, so that one point has one id however its axis was spelled: a number without
// a fraction is an integer (8.0 and 8e0 are 8), -0 is 0, computed values are rounded (see below).
struct Axis {
  std::string
      path;  // dotted ("plan.micro_batch_size") or a JSON pointer ("/plan/micro_batch_size")
  std::vector<Json> values;  // at least one, all different
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
//   E0701 an axis that is neither form or both, a path that cannot be varied, or too many axes
//   E0702 no values · E0703 a range that cannot be walked · E0705 more than kMaxSweepPoints points
//   E0706 two axes at one path, or one inside the other · E0707 the same value twice
std::vector<Axis> ReadAxes(const JsonDocument& scenario);

// An axis of the command line:
//     path=a,b,c        a list: numbers, bare words, "quoted strings", JSON arrays and objects,
//     true, false, null path=lo:hi:step   lo, lo + step, ... up to and including hi; in exact
//     decimal arithmetic, so 0:1:0.1 holds 0.3 path=lo:hi:*f     lo, lo·f, lo·f², ... up to and
//     including hi; exact for integers, else to 12 significant digits
// A word that looks like a range is written in quotes. Errors as above, and E0704: NaN, an
// infinity, or a number too large.
Axis ParseVary(std::string_view text);

// The axes of a run: the scenario's, where `vary` of the same path replaces the scenario's axis in
// its place, and other paths are appended in the order given. E0706 if two of `vary` name one path.
std::vector<Axis> SweepAxes(const JsonDocument& scenario, const std::vector<std::string>& vary);

// The number of points, 1 for no axes. Checks everything that ReadAxes would (E0701, E0702, E0705
// ... E0707), without a place, for axes that a program made.
std::size_t CheckAxes(const std::vector<Axis>& axes);

// The path as a JSON pointer, whichever way it is spelled: what makes two paths equal.
std::string AxisPointer(std::string_view path);

// [{"path": ..., "values": [...]}, ...], what ReadAxes reads back as the same axes.
Json AxesToJson(const std::vector<Axis>& axes);

}  // namespace aurum
