#include "sim/study/point.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <numeric>
#include <utility>

namespace aurum {
namespace {

// As Json::Dump writes it, without its detour for the common case.
std::string ValueText(const Json& value) {
  if (!value.IsInteger()) return value.Dump();
  char buffer[24];
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, value.AsInteger()).ptr);
}

}  // namespace

std::string_view PointStatusName(PointStatus status) {
  switch (status) {
    case PointStatus::kOk:
      return "ok";
    case PointStatus::kInfeasible:
      return "infeasible";
    case PointStatus::kFailed:
      return "failed";
  }
  assert(false);
  return "";
}

Json WithoutSweep(const Json& scenario) {
  Json base = scenario;
  if (base.IsObject()) {
    std::erase_if(base.members(), [](const auto& member) { return member.first == "sweep"; });
  }
  return base;
}

Hash128 PointId(const JsonDocument& scenario, const Design& design, std::size_t ordinal) {
  PointCursor cursor(scenario, design);
  cursor.MoveTo(ordinal);
  return cursor.id();
}

PointCursor::PointCursor(const JsonDocument& scenario, Design design)
    : design_(std::move(design)), document_(scenario) {
  const std::vector<Axis>& axes = design_.axes();
  slots_.resize(axes.size());
  order_.resize(axes.size());
  document_.root = WithoutSweep(scenario.root);
  prefix_ = std::string(kResultSchema) + "\n" + HashText(document_.root.Dump()).Hex();
  // Setting a path may move its neighbours, so all are set before any is pointed at.
  for (std::size_t i = 0; i < axes.size(); ++i)
    SetPath(&document_, axes[i].path, design_.Value(i, 0), "axis " + axes[i].path);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    slots_[i].axis = i;
    slots_[i].pointer = AxisPointer(axes[i].path);
    slots_[i].value = const_cast<Json*>(FindPath(document_.root, slots_[i].pointer));
    assert(slots_[i].value != nullptr);
    slots_[i].source = slots_[i].value->source();
  }
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::sort(order_.begin(), order_.end(),
            [&](std::size_t a, std::size_t b) { return slots_[a].pointer < slots_[b].pointer; });
}

void PointCursor::MoveTo(std::size_t ordinal) {
  design_.Rows(ordinal, &rows_);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (rows_[i] == slot.row) continue;
    slot.row = rows_[i];
    *slot.value = design_.Value(i, rows_[i]);
    slot.value->SetPlace(slot.source, 0);
    slot.text = ValueText(*slot.value);
    JsonSource& source = document_.sources[slot.source];
    source.name = "axis " + design_.axes()[i].path + " = " + slot.text;
    source.text = slot.text;
  }
}

Hash128 PointCursor::id() {
  hashed_ = prefix_;
  for (const std::size_t i : order_) {
    hashed_ += '\n';
    hashed_ += slots_[i].pointer;
    hashed_ += '=';
    hashed_ += slots_[i].text;
  }
  return HashText(hashed_);
}

}  // namespace aurum
