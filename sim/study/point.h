#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sim/core/hash.h"
#include "sim/core/json.h"
#include "sim/study/design.h"

namespace aurum {

// The version of what a point's figures mean. A part of every point id: figures that change their
// meaning change it.
constexpr std::string_view kResultSchema = "aurum.result/1";

// One figure of a result; the name carries the unit ("step_time_s"). A NaN counts as absent.
struct Figure {
  std::string name;
  std::variant<double, std::string> value;
};

enum class PointStatus {
  kOk,          // has figures
  kInfeasible,  // an answer too: the plan does not fit or does not divide; the diagnostic says why
  kFailed,      // the input at this point is wrong; the diagnostic says what
};
std::string_view PointStatusName(PointStatus status);  // "ok", "infeasible", "failed"

struct PointRow {
  std::size_t ordinal = 0;
  Hash128 id;
  PointStatus status = PointStatus::kOk;
  std::string diagnostic;  // as FormatDiagnostic writes it; "" if ok
  std::vector<Figure> figures;
};

// What every point shares: the scenario without its "sweep" section.
Json WithoutSweep(const Json& scenario);

// The content hash of one point: of kResultSchema, the scenario without its sweep, and the axes'
// paths and values there. It depends neither on the ordinal nor on the order of the axes, so the
// same point has the same id in a larger study, and in another design over the same paths.
Hash128 PointId(const JsonDocument& scenario, const Design& design, std::size_t ordinal);

// Walks the points of a study with one document that changes in place: no parsing and no copy per
// point, and only the axes that differ from the point before are touched. One cursor per thread; it
// neither copies nor moves, because it keeps pointers into its own document.
//
// The value that an axis sets is located in a source of its own, "axis PATH = VALUE", so an error
// about it names the point. E0106 from the constructor if a path leads through something that is no
// object or array of the scenario.
class PointCursor {
 public:
  PointCursor(const JsonDocument& scenario, Design design);
  PointCursor(const PointCursor&) = delete;
  PointCursor& operator=(const PointCursor&) = delete;

  void MoveTo(std::size_t ordinal);
  const JsonDocument& document() const { return document_; }
  Hash128 id();  // of the current point

 private:
  struct Slot {
    Json* value = nullptr;  // in document_
    std::size_t axis = 0;
    std::size_t row = SIZE_MAX;
    std::uint16_t source = 0;
    std::string pointer;
    std::string text;  // the value as JSON
  };

  Design design_;
  JsonDocument document_;
  std::vector<Slot> slots_;         // in the order of the axes
  std::vector<std::size_t> order_;  // of the slots by pointer
  std::vector<std::size_t> rows_;
  std::string prefix_;  // of what is hashed
  std::string hashed_;
};

}  // namespace aurum
