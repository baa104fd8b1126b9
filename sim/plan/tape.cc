#include "sim/plan/tape.h"

#include <algorithm>

namespace aurum {

KernelCost CostOfPart(const Unit& unit, UnitPart part, UnitHalf half) {
  KernelCost cost;
  const auto add = [&](const PassCost& of) {
    switch (part) {
      case UnitPart::kForward:
      case UnitPart::kAgain:
        cost += of.forward;
        break;
      case UnitPart::kBackward:
        cost += of.input_gradient;
        if (unit.trained) cost += of.weight_gradient;
        cost += of.adapter_gradient;
        break;
      case UnitPart::kInputGradient:
        cost += of.input_gradient;
        break;
      case UnitPart::kWeightGradient:
        if (unit.trained) cost += of.weight_gradient;
        cost += of.adapter_gradient;
        break;
    }
    if (part == UnitPart::kBackward || part == UnitPart::kInputGradient) {
      KernelCost again = of.again;
      again.flops = 0;  // no model FLOPs
      if (!unit.recomputed) cost += again;
    }
  };
  if (half == UnitHalf::kFirst || half == UnitHalf::kAll) add(unit.first);
  if (half == UnitHalf::kShared || half == UnitHalf::kAll) add(unit.shared);
  if (half == UnitHalf::kSecond || half == UnitHalf::kAll) add(unit.second);
  return cost;
}

std::uint32_t Tape::Take(const Node& node) {
  const auto [known, is_new] =
      known_nodes_.try_emplace(node, static_cast<std::uint32_t>(nodes_.size()));
  if (is_new) nodes_.push_back(node);
  return known->second;
}

std::uint32_t Tape::Take(const Atom& atom) {
  const auto [known, is_new] =
      known_atoms_.try_emplace(atom, static_cast<std::uint32_t>(atoms_.size()));
  if (is_new) atoms_.push_back(atom);
  return known->second;
}

Amount Tape::Number(double s) { return {s, on_ ? Take(Node{Rule::kNumber, 0, 0, s}) : 0}; }
Amount Tape::Seconds(CommId comm, double s) {
  return {s, on_ && comm != kNoComm ? Take(Node{Rule::kSeconds, comm, 0, 0}) : 0};
}
Amount Tape::Plus(Amount a, Amount b) {
  return {a.s + b.s, on_ ? Take(Node{Rule::kPlus, a.node, b.node, 0}) : 0};
}
Amount Tape::Minus(Amount a, Amount b) {
  return {a.s - b.s, on_ ? Take(Node{Rule::kMinus, a.node, b.node, 0}) : 0};
}
Amount Tape::Max(Amount a, Amount b) {
  return {std::max(a.s, b.s), on_ ? Take(Node{Rule::kMax, a.node, b.node, 0}) : 0};
}
Amount Tape::Min(Amount a, Amount b) {
  return {std::min(a.s, b.s), on_ ? Take(Node{Rule::kMin, a.node, b.node, 0}) : 0};
}
Amount Tape::Over(Amount a, double divisor) {
  return {a.s / divisor, on_ ? Take(Node{Rule::kOver, a.node, 0, divisor}) : 0};
}

std::uint32_t Tape::Fixed(double seconds) {
  return on_ ? Take(Atom{.kind = AtomKind::kFixed, .number = seconds}) : kNoAtom;
}

std::uint32_t Tape::Kernel(const UnitPlace& unit, UnitPart part, UnitHalf half,
                           std::uint32_t tensor, std::uint32_t other) {
  if (!on_) return kNoAtom;
  const Cost cost{unit, part, half};
  const auto [known, is_new] =
      known_costs_.try_emplace(cost, static_cast<std::uint32_t>(costs_.size()));
  if (is_new) costs_.push_back(cost);
  return Take(
      Atom{.kind = AtomKind::kKernel, .index = known->second, .tensor = tensor, .other = other});
}

std::uint32_t Tape::Communication(CommId comm, double times) {
  return on_ ? Take(Atom{.kind = AtomKind::kCommunication, .number = times, .index = comm})
             : kNoAtom;
}

std::uint32_t Tape::Traffic(double bytes) {
  return on_ ? Take(Atom{.kind = AtomKind::kTraffic, .number = bytes}) : kNoAtom;
}

void Tape::NextOp(std::uint32_t atom, Lane lane, OpKind kind) {
  if (!on_) return;
  if (atom == kNoAtom) {
    complete_ = false;
  } else if (atoms_[atom].lane != lane || atoms_[atom].op != kind) {
    Atom placed = atoms_[atom];
    placed.lane = lane;
    placed.op = kind;
    atom = Take(placed);
  }
  atom_of_op_.push_back(atom);
}

void Tape::Evaluate(const PlanPricer& pricer, std::vector<double>* values) const {
  std::vector<double>& v = *values;
  v.resize(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    switch (node.rule) {
      case Rule::kNumber:
        v[i] = node.number;
        break;
      case Rule::kSeconds:
        v[i] = pricer.Seconds(node.a);
        break;
      case Rule::kPlus:
        v[i] = v[node.a] + v[node.b];
        break;
      case Rule::kMinus:
        v[i] = v[node.a] - v[node.b];
        break;
      case Rule::kMax:
        v[i] = std::max(v[node.a], v[node.b]);
        break;
      case Rule::kMin:
        v[i] = std::min(v[node.a], v[node.b]);
        break;
      case Rule::kOver:
        v[i] = v[node.a] / node.number;
        break;
    }
  }
}

}  // namespace aurum
