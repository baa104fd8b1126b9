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

std::vector<std::size_t> PointIndices(const std::vector<Axis>& axes, std::size_t ordinal) {
  std::vector<std::size_t> indices(axes.size());
  for (std::size_t i = axes.size(); i-- > 0;) {
    indices[i] = ordinal % axes[i].values.size();
    ordinal /= axes[i].values.size();
  }
  return indices;
}

Json WithoutSweep(const Json& scenario) {
  Json base = scenario;
  if (base.IsObject()) {
    std::erase_if(base.members(), [](const auto& member) { return member.first == "sweep"; });
  }
  return base;
}

Hash128 PointId(const JsonDocument& scenario, const std::vector<Axis>& axes, std::size_t ordinal) {
  PointCursor cursor(scenario, axes);
  cursor.MoveTo(ordinal);
  return cursor.id();
}

PointCursor::PointCursor(const JsonDocument& scenario, const std::vector<Axis>& axes)
    : axes_(axes), document_(scenario), slots_(axes.size()), order_(axes.size()) {
  document_.root = WithoutSweep(scenario.root);
  prefix_ = std::string(kResultSchema) + "\n" + HashText(document_.root.Dump()).Hex();
  // Setting a path may move its neighbours, so all are set before any is pointed at.
  for (const Axis& axis : axes)
    SetPath(&document_, axis.path, axis.values.at(0), "axis " + axis.path);
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
  for (std::size_t i = slots_.size(); i-- > 0;) {
    Slot& slot = slots_[i];
    const std::vector<Json>& values = axes_[i].values;
    const std::size_t index = ordinal % values.size();
    ordinal /= values.size();
    if (index == slot.index) continue;
    slot.index = index;
    *slot.value = values[index];
    slot.value->SetPlace(slot.source, 0);
    slot.text = ValueText(values[index]);
    JsonSource& source = document_.sources[slot.source];
    source.name = "axis " + axes_[i].path + " = " + slot.text;
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
