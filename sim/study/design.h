#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/hash.h"
#include "sim/core/json.h"
#include "sim/study/axis.h"

namespace aurum {

enum class DesignKind {
  kGrid,           // every combination of the axes' values
  kZip,            // some axes walk together: a list of points, or values side by side
  kRandom,         // points drawn independently
  kLatinHypercube  // points drawn so that every axis is covered evenly
};
std::string_view DesignKindName(DesignKind kind);  // "grid", "zip", "random", "lhs"

// Which points of the axes' space a study has, and in which order: a number of points, and for each
// ordinal the value of each axis there. Immutable and cheap to copy; threads may share it.
//
// A design is a product of blocks. A block is one axis (its rows are its values), axes that walk
// together (row i is the i-th value of each), or axes that are drawn (row i is the i-th draw). Rows
// of different blocks are combined freely, the last block changing fastest, so a grid is the design
// whose blocks are single axes. See design.cc for how points are drawn.
class Design {
 public:
  Design();  // no axes: one point, the scenario itself
  // A grid. Errors of CheckAxes.
  Design(std::vector<Axis> axes);  // NOLINT(google-explicit-constructor): axes are a grid

  DesignKind kind() const;
  bool IsGrid() const { return kind() == DesignKind::kGrid; }
  std::size_t points() const;
  const std::vector<Axis>& axes() const;  // in the order of columns
  // Points of a list, or rows of a zip, that were there before and count once.
  std::size_t dropped() const;

  // Which row of its block each axis stands at; of a grid the index of its value.
  std::vector<std::size_t> Rows(std::size_t ordinal) const;
  void Rows(std::size_t ordinal, std::vector<std::size_t>* rows) const;
  // The value of an axis at a row. Equal rows give equal values.
  Json Value(std::size_t axis, std::size_t row) const;
  std::vector<Json> Values(std::size_t ordinal) const;  // of all axes

  // "all combinations of 3 axes", "1000 points drawn at random (seed 1), for each of 3 models".
  std::string Describe() const;
  // What ReadDesign reads back as the same design, as "axes" and "design" of a "sweep" section. A
  // list is written as the zip that it is.
  Json AxesJson() const;
  Json SpecJson() const;
  // Of every drawn point: whether another machine's arithmetic draws the same. Zero if none is drawn.
  Hash128 drawn() const;

  struct Data;
  explicit Design(std::shared_ptr<const Data> data) : data_(std::move(data)) {}

 private:
  std::shared_ptr<const Data> data_;
};

// The design of the scenario's "sweep" section, {"axes": [...], "design": D}; without a section one
// point. D is "grid" (the default), or
//   {"kind": "zip", "zip": [[PATH, PATH...]...]}     these axes walk together, the others are crossed
//                                                    with them; without "zip" all walk together
//   {"kind": "list", "points": [{PATH: VALUE...}...]} or {"kind": "list", "file": F}: points told one
//       by one, F a table (.csv), an array (.json) or lines (.jsonl) beside the scenario; axes that
//       the points do not have are crossed with them
//   {"kind": "random", "points": N, "seed": S, "cross": [PATH...]}  N different points drawn from the
//       axes, each value of a list or of a range equally likely; the axes of "cross" are not drawn,
//       but crossed with the points
//   {"kind": "lhs", ...}                              the same as a Latin hypercube
// Errors point into the file: those of ReadAxes, and
//   E0710 a design that contradicts itself, or names what is no axis · E0711 a list of points that is
//   malformed · E0712 axes that walk together and have different numbers of values · E0713 fewer
//   different points than the design asks for
Design ReadDesign(const JsonDocument& scenario);

// What a command line says of a design, over what the scenario says.
struct DesignOptions {
  std::vector<std::string> vary;  // as of SweepAxes
  std::string kind;               // "" the scenario's; else grid, zip, list, random or lhs
  std::string points;             // how many, or a file of them; "" the scenario's
  std::optional<std::uint64_t> seed;
  std::vector<std::string> zip;    // each "PATH,PATH..."
  std::vector<std::string> cross;  // each "PATH,PATH..."
};
// The design of a run. A value that names a model, cluster, profile or stack by a path is looked for
// beside the scenario's file first, as the scenario's own are. Errors as above; what the command line
// says wrongly is an error of usage.
Design SweepDesign(const JsonDocument& scenario, const DesignOptions& options);

}  // namespace aurum
