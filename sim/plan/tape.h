#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "sim/core/time.h"
#include "sim/plan/pricing.h"
#include "sim/plan/program.h"
#include "sim/plan/units.h"

namespace aurum {

// What a lowering takes down so that the same plan can be timed again under other costs (retime.h): how
// every duration came about. Ops of one atom take equally long under whatever costs.

enum class UnitPart : std::uint8_t { kForward, kAgain, kBackward, kInputGradient, kWeightGradient };
enum class UnitHalf : std::uint8_t { kFirst, kShared, kSecond, kAll };

// Kernels of a part and half of a unit, once.
KernelCost CostOfPart(const Unit& unit, UnitPart part, UnitHalf half);

// Seconds, and by which node of the tape. A lowering that takes nothing down leaves nodes at 0.
struct Amount {
  double s = 0;
  std::uint32_t node = 0;
};

inline constexpr std::uint32_t kNoAtom = 0xffffffffU;

class Tape {
 public:
  // Where a unit is: by stage, chunk (bubbles: as many as there are chunks) and index.
  struct UnitPlace {
    std::size_t stage = 0, chunk = 0, index = 0;
    auto operator<=>(const UnitPlace&) const = default;
  };
  enum class AtomKind : std::uint8_t { kFixed, kKernel, kCommunication, kTraffic };
  struct Atom {
    AtomKind kind = AtomKind::kFixed;
    Lane lane = Lane::kMain;
    OpKind op = OpKind::kHost;
    double number = 0;         // kFixed: seconds; kCommunication: times; kTraffic: bytes
    std::uint32_t index = 0;   // kKernel: of costs(); kCommunication: CommId
    std::uint32_t tensor = 0;  // kKernel: nodes of the seconds of communication beside it
    std::uint32_t other = 0;
    auto operator<=>(const Atom&) const = default;
  };
  struct Cost {
    UnitPlace unit;
    UnitPart part = UnitPart::kForward;
    UnitHalf half = UnitHalf::kAll;
    auto operator<=>(const Cost&) const = default;
  };
  enum class Rule : std::uint8_t { kNumber, kSeconds, kPlus, kMinus, kMax, kMin, kOver };
  struct Node {
    Rule rule = Rule::kNumber;
    std::uint32_t a = 0, b = 0;  // operands; kSeconds: a CommId
    double number = 0;           // kNumber; kOver: the divisor
    auto operator<=>(const Node&) const = default;
  };

  // A tape that is not `on` computes, and takes nothing down.
  explicit Tape(bool on) : on_(on) {
    if (on_) Take(Node{});
  }
  bool on() const { return on_; }

  // Arithmetic on seconds, written down.
  Amount Number(double s);
  Amount Seconds(CommId comm, double s);
  Amount Plus(Amount a, Amount b);
  Amount Minus(Amount a, Amount b);
  Amount Max(Amount a, Amount b);
  Amount Min(Amount a, Amount b);
  Amount Over(Amount a, double divisor);

  // Numbers of atoms; kNoAtom if not on.
  std::uint32_t Fixed(double seconds);
  std::uint32_t Kernel(const UnitPlace& unit, UnitPart part, UnitHalf half, std::uint32_t tensor,
                       std::uint32_t other);
  std::uint32_t Communication(CommId comm, double times);
  std::uint32_t Traffic(double bytes);
  // The next op of the program is of this atom, which becomes one of its lane and kind.
  void NextOp(std::uint32_t atom, Lane lane, OpKind kind);

  // Whether every op has an atom.
  bool Complete() const { return on_ && complete_; }
  const std::vector<Atom>& atoms() const { return atoms_; }
  const std::vector<Cost>& costs() const { return costs_; }
  const std::vector<std::uint32_t>& atom_of_op() const { return atom_of_op_; }
  // The value of every node, by the seconds of communications.
  void Evaluate(const PlanPricer& pricer, std::vector<double>* values) const;

 private:
  std::uint32_t Take(const Node& node);
  std::uint32_t Take(const Atom& atom);

  bool on_ = false;
  bool complete_ = true;
  std::vector<Node> nodes_;
  std::map<Node, std::uint32_t> known_nodes_;
  std::vector<Atom> atoms_;
  std::map<Atom, std::uint32_t> known_atoms_;
  std::vector<Cost> costs_;
  std::map<Cost, std::uint32_t> known_costs_;
  std::vector<std::uint32_t> atom_of_op_;
};

}  // namespace aurum
