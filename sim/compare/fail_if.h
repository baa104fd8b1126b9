#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/core/json.h"

namespace aurum {

// Conditions under which a comparison is a failure, for the tests of recipes and plans:
//
//     step_time_s > 5%          it rose by more than 5 % from A to B
//     memory.peak_gib > +2      it rose by more than 2 (GiB)
//     tokens_per_s < -3%        it fell by more than 3 %
//     mfu < 0.35                in B it is below 0.35, whatever it is in A
//     fits < 1                  B does not fit: a truth is 0 or 1
//
// A percentage is of A's figure, a number with a sign a change, a number without one B's own figure. The comparisons
// are > < >= <=. Figures are named as in the documents of `simulate --json`, by path ("memory.peak_gib") or by the
// last word where that names one alone ("peak_gib").
struct Condition {
  enum class Order { kAbove, kBelow, kAtLeast, kAtMost };
  enum class Of { kRelativeChange, kChange, kValue };
  std::string text;
  std::string figure;
  Order order = Order::kAbove;
  Of of = Of::kRelativeChange;
  double limit = 0;  // of a relative change: a share
};

// E0882 where it is none.
Condition ParseCondition(std::string_view text);

// Figures by name, in the order of the document.
using NamedFigures = std::vector<std::pair<std::string, double>>;

// Every number and truth of a result, by its path; lists, and what is no figure of the step (the scenario, the wall
// time of the simulation), are left out.
NamedFigures FiguresOfResult(const Json& result);

// The figure of this name; where there is none, the one whose path ends in it. E0881 unknown, or several end so.
const std::pair<std::string, double>& FindFigure(const NamedFigures& figures,
                                                 const std::string& name);

struct Judged {
  Condition condition;
  std::string figure;  // its full name
  double a = 0, b = 0;
  double compared = 0;  // with the limit: a share, a change or a value
  bool failed = false;
  std::string said;  // "step_time_s rose by 7.2 %: 12.3 → 13.2"
};
// A relative change from 0 is infinite, or 0 where both are.
Judged Judge(const Condition& condition, std::string figure, double a, double b);
// Of two results. E0881 where a side does not have the figure.
Judged Judge(const Condition& condition, const NamedFigures& a, const NamedFigures& b);

Json JudgedJson(const std::vector<Judged>& judged);

}  // namespace aurum
