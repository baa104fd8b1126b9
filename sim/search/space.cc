#include "sim/search/space.h"

#include <algorithm>
#include <optional>

#include "sim/core/object_reader.h"
#include "sim/study/axis.h"

namespace aurum {
namespace {

// Paths that leave weights, gradients and optimizer states of a GPU as they are.
bool ChangesState(const std::string& path) {
  const std::string pointer = AxisPointer(path);
  for (const char* key :
       {"/plan/micro_batch_size", "/plan/recompute", "/plan/overlap", "/plan/rank_order",
        "/plan/schedule", "/plan/attention", "/plan/collectives", "/workload"}) {
    if (pointer.rfind(key, 0) == 0) return false;
  }
  return true;
}

Dimension OfAxis(const Axis& axis) {
  Dimension dimension;
  const std::size_t dot = axis.path.find_last_of("./");
  dimension.name = dot == std::string::npos ? axis.path : axis.path.substr(dot + 1);
  dimension.state = ChangesState(axis.path);
  dimension.late = AxisPointer(axis.path) == "/plan/rank_order";
  dimension.choices = ChoicesOf(axis.path, axis.values);
  return dimension;
}

// Late dimensions stand last; names are told apart.
void Insert(Dimension dimension, PlanSpace* space) {
  const auto named = [&](const std::string& name) {
    return std::any_of(space->dimensions.begin(), space->dimensions.end(),
                       [&](const Dimension& d) { return d.name == name; });
  };
  while (named(dimension.name)) dimension.name += "'";
  auto at = space->dimensions.end();
  if (!dimension.late) {
    at = std::find_if(space->dimensions.begin(), space->dimensions.end(),
                      [](const Dimension& d) { return d.late; });
  }
  space->dimensions.insert(at, std::move(dimension));
}

void CheckSize(const PlanSpace& space) {
  if (space.Combinations() <= kMostCombinations) return;
  ThrowInput(870, "the space has more than " + std::to_string(kMostCombinations) + " combinations",
             "fewer values, or --keep NAME for what need not be searched");
}

void Put(Dimension dimension, PlanSpace* space) {
  std::vector<std::string> pointers;
  for (const auto& [path, value] : dimension.choices.front().set)
    pointers.push_back(AxisPointer(path));
  for (auto at = space->dimensions.begin(); at != space->dimensions.end(); ++at) {
    const auto& set = at->choices.front().set;
    bool meets = false, inside = false;
    for (const auto& [path, value] : set) {
      const std::string there = AxisPointer(path);
      for (const std::string& here : pointers) {
        meets |= here == there;
        inside |= here.rfind(there + "/", 0) == 0 || there.rfind(here + "/", 0) == 0;
      }
    }
    if (inside) {
      ThrowInput(871,
                 "'" + dimension.choices.front().set.front().first + "' and the dimension '" +
                     at->name + "' set parts of each other",
                 "--keep " + at->name + " first, or one dimension for both in \"search\"",
                 ExitCode::kUsage);
    }
    if (!meets) continue;
    if (set.size() > pointers.size()) {
      ThrowInput(871,
                 "'" + dimension.choices.front().set.front().first + "' is set by the dimension '" +
                     at->name + "', which sets other paths with it",
                 "--keep " + at->name + " first, or vary all of them in \"search\"",
                 ExitCode::kUsage);
    }
    dimension.name = at->name;
    dimension.late = at->late;
    *at = std::move(dimension);
    CheckSize(*space);
    return;
  }
  Insert(std::move(dimension), space);
  CheckSize(*space);
}

// {"name": ..., "path": ..., "values": [...]} or {"name": ..., "choices": [{"path": value, ...}, ...]}
Dimension ReadDimension(ObjectReader* reader) {
  Dimension dimension;
  const std::string name = reader->String("name", "");
  if (reader->Has("choices")) {
    for (const char* key : {"path", "values"}) {
      if (reader->Has(key))
        reader->Fail(109, key, "a dimension has either 'choices' or 'path' and 'values'",
                     "remove one of the two");
    }
    const Json& choices = reader->Value("choices");
    if (!choices.IsArray() || choices.items().empty())
      reader->Fail(102, "choices", "a dimension without choices", "[{\"plan.backbone.tp\": 8}, …]");
    for (const Json& each : choices.items()) {
      if (!each.IsObject() || each.members().empty())
        reader->Fail(103, "choices", "a choice is an object of paths and values",
                     "{\"plan.backbone.tp\": 8}");
      Choice choice;
      for (const auto& [path, value] : each.members()) {
        AxisPointer(path);
        choice.set.emplace_back(path, value);
        choice.label += (choice.label.empty() ? "" : ", ") + LabelOf(value);
      }
      if (!dimension.choices.empty()) {
        const auto& first = dimension.choices.front().set;
        const bool same =
            first.size() == choice.set.size() &&
            std::equal(first.begin(), first.end(), choice.set.begin(),
                       [](const auto& a, const auto& b) { return a.first == b.first; });
        if (!same) {
          reader->Fail(873, "choices", "the choices of a dimension set different paths",
                       "the same paths in the same order in every choice");
        }
      }
      dimension.state = dimension.choices.empty() ? false : dimension.state;
      for (const auto& [path, value] : choice.set) dimension.state |= ChangesState(path);
      dimension.choices.push_back(std::move(choice));
    }
    dimension.name = name.empty() ? dimension.choices.front().set.front().first : name;
  } else {
    Axis axis;
    axis.path = reader->String("path");
    const Json& values = reader->Value("values");
    if (!values.IsArray() || values.items().empty())
      reader->Fail(102, "values", "a dimension without values", "[1, 2, 4]");
    for (const Json& value : values.items()) axis.values.push_back(value);
    CheckAxes({axis});
    dimension = OfAxis(axis);
    if (!name.empty()) dimension.name = name;
  }
  reader->Finish();
  return dimension;
}

}  // namespace

std::string LabelOf(const Json& value) {
  return value.IsString() ? value.AsString() : value.Dump();
}

std::vector<Choice> ChoicesOf(const std::string& path, const std::vector<Json>& values) {
  std::vector<Choice> choices;
  for (const Json& value : values) choices.push_back({LabelOf(value), {{path, value}}});
  return choices;
}

std::size_t PlanSpace::Early() const {
  return static_cast<std::size_t>(std::count_if(dimensions.begin(), dimensions.end(),
                                                [](const Dimension& d) { return !d.late; }));
}

std::uint64_t PlanSpace::Combinations() const {
  std::uint64_t all = 1;
  for (const Dimension& d : dimensions) {
    all *= d.choices.size();
    if (all > kMostCombinations) return all;
  }
  return all;
}

Multiplicity PlanSpace::StandsFor(const ChoiceIndices& at) const {
  return stands_for ? stands_for(at) : Multiplicity{};
}

void PlanSpace::Apply(const ChoiceIndices& at, JsonDocument* document) const {
  for (std::size_t d = 0; d < dimensions.size(); ++d) {
    for (const auto& [path, value] : dimensions[d].choices[at[d]].set)
      SetPath(document, path, value, dimensions[d].name);
  }
}

void Vary(const std::string& assignment, PlanSpace* space) {
  Put(OfAxis(ParseVary(assignment)), space);
}

void Keep(const std::string& name, PlanSpace* space) {
  const auto found = std::find_if(space->dimensions.begin(), space->dimensions.end(),
                                  [&](const Dimension& d) { return d.name == name; });
  if (found != space->dimensions.end()) {
    space->dimensions.erase(found);
    return;
  }
  std::string known;
  for (const Dimension& d : space->dimensions) known += (known.empty() ? "" : ", ") + d.name;
  ThrowInput(872, "the space has no dimension '" + name + "'", "dimensions: " + known,
             ExitCode::kUsage);
}

void CheckChoices(const JsonDocument& document, const PlanSpace& space, InputCache* cache) {
  for (const Dimension& dimension : space.dimensions) {
    std::optional<InputError> first;
    bool any = false;
    for (const Choice& choice : dimension.choices) {
      JsonDocument changed = document;
      try {
        for (const auto& [path, value] : choice.set) SetPath(&changed, path, value, dimension.name);
        ReadScenario(changed, cache);
        any = true;
      } catch (const InputError& error) {
        if (error.exit_code() == ExitCode::kInfeasible) any = true;
        if (!first) first.emplace(error);
      }
      if (any) break;
    }
    if (!any) throw *first;
  }
}

PlanSpace ReadSpace(const JsonDocument& document, const Scenario& scenario) {
  ObjectReader top(document, document.root, "");
  auto reader = top.ObjectIf("search");
  if (!reader) return DefaultSpace(scenario);
  const std::size_t base = reader->ChoiceOr("space", 0, {"auto", "calculon", "none"});
  PlanSpace space;
  if (base == 0) space = DefaultSpace(scenario);
  if (base == 1) space = CalculonSpace(scenario);
  if (base == 2) space.name = "scenario";
  if (reader->Has("keep")) {
    for (const std::string& name : reader->Strings("keep")) Keep(name, &space);
  }
  if (reader->Has("dimensions")) {
    if (base == 1) {
      reader->Fail(874, "dimensions", "Calculon's space is as it is",
                   "\"space\": \"auto\" or \"none\" with dimensions of your own");
    }
    std::vector<std::string> told;
    for (ObjectReader& each : reader->Objects("dimensions")) {
      Dimension dimension = ReadDimension(&each);
      for (const auto& [path, value] : dimension.choices.front().set) {
        if (std::find(told.begin(), told.end(), AxisPointer(path)) != told.end())
          each.Fail(873, "", "two dimensions set '" + path + "'",
                    "one dimension with all its values");
        told.push_back(AxisPointer(path));
      }
      Put(std::move(dimension), &space);
    }
  }
  reader->Finish();
  if (space.dimensions.empty()) {
    ThrowInput(875, "there is nothing to search: the space has no dimension",
               "\"search\": {\"dimensions\": [...]}, or --vary plan.micro_batch_size=1,2,4");
  }
  return space;
}

}  // namespace aurum
