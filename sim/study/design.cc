#include "sim/study/design.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <functional>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "sim/core/object_reader.h"
#include "sim/core/random.h"
#include "sim/core/rounding.h"
#include "sim/plan/scenario_file.h"
#include "sim/study/point_list.h"

// How points are drawn
// --------------------
// Every drawn number is a function of (seed, axis, sample): RandomUniform keyed by the hash of the axis' path. So nothing depends on
// threads or on the order of evaluation, an axis that is added or moved leaves the values of the others as they were, and the first 100
// points of 1000 random ones are the 100 of the same seed: a study can grow without losing what it has.
//
// Random points are those of the samples 0, 1, 2, ... that were not there before (choices repeat; a study has each point once).
//
// A Latin hypercube (McKay, Beckman, Conover, "A comparison of three methods for selecting values of input variables in the analysis of
// output from a computer code", Technometrics 21, 1979) cuts each axis into as many strata of equal probability as there are points and
// visits each once: axis j of point i lies in stratum π_j(i), π_j a random permutation, at a random place in it. With 4 points on two
// axes each row and each column of a 4 × 4 board holds one. An axis of m values gets each of them ⌊N/m⌋ or ⌈N/m⌉ times. Where choices
// make two points equal, the later one swaps its stratum of one axis with another point, which keeps the strata, until all differ.
//
// Values between two ends are rounded to six digits, so that the last bits of a machine's exp() change no point's id. A store keeps a
// hash of what was drawn all the same (Design::drawn), and refuses to go on where it differs.
namespace aurum {
namespace {

constexpr int kDigits = 6;
constexpr std::uint64_t kPermute = 0x6c68732d70657200;  // streams apart from those of the values
constexpr std::uint64_t kRepair = 0x6c68732d66697800;

struct Block {
  std::vector<std::size_t> axes;
  std::size_t rows = 1;
  bool drawn = false;
};

// What a section or a command line says, before it is known to make sense.
struct Spec {
  std::string kind = "grid";
  std::optional<std::size_t> points;
  std::optional<std::uint64_t> seed;
  std::vector<std::vector<std::string>> zip;
  std::vector<std::string> cross;
  std::vector<Axis> listed;  // the columns of a list of points
};

// What is wrong with a Spec, and the key of the section that it is about.
struct Wrong {
  Diagnostic diagnostic;
  std::string key;
};

[[noreturn]] void FailSpec(int code, std::string message, std::string help, std::string key) {
  Wrong wrong;
  wrong.diagnostic.code = code;
  wrong.diagnostic.message = std::move(message);
  wrong.diagnostic.help = std::move(help);
  wrong.key = std::move(key);
  throw wrong;
}

const std::vector<std::string> kKinds = {"grid", "zip", "list", "random", "lhs"};

bool Draws(const std::string& kind) { return kind == "random" || kind == "lhs"; }

AxisRules RulesOf(const std::string& kind) {
  AxisRules rules;
  rules.ranges = Draws(kind);
  rules.repeats = kind == "zip" || kind == "list";
  rules.product = kind == "grid";
  return rules;
}

std::string Count(std::size_t n, const char* one) {
  return std::to_string(n) + " " + one + (n == 1 ? "" : "s");
}

}  // namespace

struct Design::Data {
  DesignKind kind = DesignKind::kGrid;
  std::vector<Axis> axes;
  std::vector<Block> blocks;
  std::vector<std::size_t> block_of;  // each axis
  std::size_t points = 1;
  std::size_t dropped = 0;

  // Of the drawn block.
  std::uint64_t seed = 0;
  std::size_t samples = 0;
  std::vector<std::uint64_t> stream;               // of each axis
  std::vector<std::uint32_t> sample_of;            // random: of each row; empty: its own number
  std::vector<std::vector<std::uint32_t>> strata;  // lhs: of each axis, of each row
  Hash128 drawn;

  // Where in the axis' distribution a row lies, in (0, 1).
  double Quantile(std::size_t axis, std::size_t row) const {
    if (kind == DesignKind::kLatinHypercube) {
      return (strata[axis][row] + RandomUniform(seed, stream[axis], row)) /
             static_cast<double>(samples);
    }
    return RandomUniform(seed, stream[axis], sample_of.empty() ? row : sample_of[row]);
  }
  // Of `choices` equally likely ones, which. In a hypercube strata are dealt out whole, so that each
  // choice gets as many as the others, or one more.
  double Choice(std::size_t axis, std::size_t row, double choices) const {
    const double at = kind == DesignKind::kLatinHypercube
                          ? strata[axis][row] * choices / static_cast<double>(samples)
                          : Quantile(axis, row) * choices;
    return std::min(std::floor(at), choices - 1);
  }
  // The value as a number: of a list its index.
  double Draw(std::size_t axis, std::size_t row) const {
    const Axis& a = axes[axis];
    if (!a.range) return Choice(axis, row, static_cast<double>(a.values.size()));
    const AxisRange& r = *a.range;
    if (r.integer && !r.log) return r.from + Choice(axis, row, r.to - r.from + 1);
    const double q = Quantile(axis, row);
    double value = 0;
    if (r.integer) {
      const double low = std::log(r.from - 0.5), high = std::log(r.to + 0.5);
      value = std::round(std::exp(low + q * (high - low)));
    } else {
      value = RoundSignificant(r.log ? std::exp(std::log(r.from) * (1 - q) + std::log(r.to) * q)
                                     : r.from * (1 - q) + r.to * q,
                               kDigits);
    }
    return std::clamp(value, r.from, r.to);
  }
};

namespace {

Hash128 HashOfRow(const Design::Data& data, const Block& block, std::size_t row,
                  std::vector<double>* room) {
  room->clear();
  for (const std::size_t axis : block.axes) room->push_back(data.Draw(axis, row));
  return HashBytes(room->data(), room->size() * sizeof(double));
}

struct HashKey {
  std::size_t operator()(const Hash128& hash) const { return static_cast<std::size_t>(hash.low); }
};
using Seen = std::unordered_map<Hash128, std::size_t, HashKey>;

// Rows that repeat an earlier one. Sorts hashes instead of keeping a table: ten million points are 160 MB.
std::vector<std::size_t> Repeats(const Design::Data& data, const Block& block, Hash128* all) {
  std::vector<std::pair<Hash128, std::size_t>> rows(block.rows);
  std::vector<double> room;
  std::vector<Hash128> in_order;
  in_order.reserve(block.rows);
  for (std::size_t i = 0; i < block.rows; ++i) {
    rows[i] = {HashOfRow(data, block, i, &room), i};
    in_order.push_back(rows[i].first);
  }
  *all = HashBytes(in_order.data(), in_order.size() * sizeof(Hash128));
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    if (a.first.high != b.first.high) return a.first.high < b.first.high;
    if (a.first.low != b.first.low) return a.first.low < b.first.low;
    return a.second < b.second;
  });
  std::vector<std::size_t> repeats;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    if (rows[i].first == rows[i - 1].first) repeats.push_back(rows[i].second);
  }
  std::sort(repeats.begin(), repeats.end());
  return repeats;
}

[[noreturn]] void TooFew(const Design::Data& data, const Block& block, std::size_t found) {
  double all = 1;
  for (const std::size_t axis : block.axes) {
    const Axis& a = data.axes[axis];
    all *= !a.range ? static_cast<double>(a.values.size())
                    : (a.range->integer ? a.range->to - a.range->from + 1 : HUGE_VAL);
  }
  const std::string of =
      std::isfinite(all) && all < 1e15
          ? ", which have " + std::to_string(static_cast<long long>(all)) + " combinations"
          : "";
  FailSpec(713,
           "no " + std::to_string(block.rows) + " different points can be drawn from these axes" +
               of + (found > 0 ? ": " + Count(found, "point") + " found" : ""),
           "draw fewer points, or take the grid", "points");
}

// Samples are tried in their order; for as many points as a space of choices has it takes about
// ln(N) tries a point.
void DrawRandom(Design::Data* data, const Block& block) {
  if (Repeats(*data, block, &data->drawn).empty()) return;
  Seen seen;
  std::vector<std::uint32_t> chosen;
  std::vector<double> room;
  const std::size_t most = std::min<std::size_t>(64 * block.rows + 10'000, UINT32_MAX);
  for (std::size_t sample = 0; chosen.size() < block.rows; ++sample) {
    if (sample == most) TooFew(*data, block, chosen.size());
    if (seen.emplace(HashOfRow(*data, block, sample, &room), 0).second)
      chosen.push_back(static_cast<std::uint32_t>(sample));
  }
  data->sample_of = std::move(chosen);
  Repeats(*data, block, &data->drawn);
}

std::size_t Below(std::size_t count, std::uint64_t bits) {
  return static_cast<std::size_t>(((bits >> 32) * count) >> 32);  // count < 2^32
}

void DrawLatinHypercube(Design::Data* data, const Block& block) {
  data->strata.resize(data->axes.size());
  for (const std::size_t axis : block.axes) {
    std::vector<std::uint32_t>& strata = data->strata[axis];
    strata.resize(block.rows);
    std::iota(strata.begin(), strata.end(), 0U);
    for (std::size_t i = block.rows; i-- > 1;) {  // Fisher and Yates
      std::swap(strata[i],
                strata[Below(i + 1, RandomBits(data->seed, data->stream[axis] ^ kPermute, i))]);
    }
  }
  constexpr std::uint64_t kRounds = 200;
  std::vector<std::size_t> repeats = Repeats(*data, block, &data->drawn);
  for (std::uint64_t round = 0; !repeats.empty(); ++round) {
    if (round == kRounds) TooFew(*data, block, block.rows - repeats.size());
    for (const std::size_t row : repeats) {
      const std::uint64_t bits = RandomBits(data->seed, kRepair + round, row);
      std::vector<std::uint32_t>& strata = data->strata[block.axes[bits % block.axes.size()]];
      std::swap(strata[row], strata[Below(block.rows, bits)]);
    }
    repeats = Repeats(*data, block, &data->drawn);
  }
}

// The axis that a path of "zip" or "cross" names.
std::size_t AxisOf(const std::vector<Axis>& axes, const std::string& path, const char* key) {
  const std::string pointer = AxisPointer(path);
  std::vector<std::string> known;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (AxisPointer(axes[i].path) == pointer) return i;
    known.push_back(axes[i].path);
  }
  const std::string nearest = NearestName(path, known);
  std::string help = nearest.empty() ? "axes:" : "did you mean '" + nearest + "'?";
  if (nearest.empty()) {
    for (const std::string& each : known) help += " " + each;
  }
  FailSpec(710, "'" + path + "' is no axis of this sweep", help, key);
}

// Drops rows of axes that walk together which an earlier row has already.
std::size_t DropRepeats(std::vector<Axis>* axes, const std::vector<std::size_t>& group,
                        std::size_t rows) {
  std::unordered_map<std::string, std::size_t> seen;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    std::string text;
    for (const std::size_t axis : group) text += (*axes)[axis].values[i].Dump() + "\n";
    if (!seen.emplace(std::move(text), i).second) continue;
    if (kept != i) {
      for (const std::size_t axis : group)
        (*axes)[axis].values[kept] = std::move((*axes)[axis].values[i]);
    }
    ++kept;
  }
  for (const std::size_t axis : group) (*axes)[axis].values.resize(kept);
  return rows - kept;
}

// Which axes stand together, each axis in one group at most.
std::vector<std::vector<std::size_t>> GroupsOf(const Spec& spec, const std::vector<Axis>& axes) {
  std::vector<std::vector<std::size_t>> groups;
  std::vector<bool> taken(axes.size(), false);
  const auto take = [&](const std::string& path, const char* key) {
    const std::size_t axis = AxisOf(axes, path, key);
    if (taken[axis]) FailSpec(710, "'" + path + "' is named twice", "name each axis once", key);
    taken[axis] = true;
    return axis;
  };
  const auto rest = [&] {
    std::vector<std::size_t> group;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (!taken[i]) group.push_back(i);
    }
    return group;
  };
  if (spec.kind == "zip" && spec.zip.empty()) {
    groups.push_back(rest());
  } else if (spec.kind == "zip") {
    for (const std::vector<std::string>& paths : spec.zip) {
      groups.emplace_back();
      for (const std::string& path : paths) groups.back().push_back(take(path, "zip"));
      std::sort(groups.back().begin(), groups.back().end());
    }
  } else if (spec.kind == "list") {
    groups.emplace_back();
    for (std::size_t i = 0; i < spec.listed.size(); ++i) groups.back().push_back(i);
  } else if (Draws(spec.kind)) {
    for (const std::string& path : spec.cross) take(path, "cross");
    groups.push_back(rest());
    if (groups.back().empty())
      FailSpec(710, "no axis is left to draw from", "name fewer axes in cross", "cross");
  }
  return groups;
}

Design Build(const Spec& spec, std::vector<Axis> axes) {
  auto data = std::make_shared<Design::Data>();
  data->dropped = 0;
  // The columns of a list come first.
  std::vector<Axis> all = spec.listed;
  for (Axis& axis : axes) {
    const std::string pointer = AxisPointer(axis.path);
    const auto same = [&](const Axis& listed) { return AxisPointer(listed.path) == pointer; };
    if (std::none_of(spec.listed.begin(), spec.listed.end(), same)) all.push_back(std::move(axis));
  }
  CheckAxes(all, RulesOf(spec.kind));
  if (spec.kind != "grid" && all.empty())
    FailSpec(710, "a design needs axes", R"(add "axes": [...], or --vary)", "");
  const std::vector<std::vector<std::size_t>> groups = GroupsOf(spec, all);
  const bool drawn = Draws(spec.kind);

  std::vector<const std::vector<std::size_t>*> group_of(all.size(), nullptr);
  for (const auto& group : groups) {
    for (const std::size_t axis : group) group_of[axis] = &group;
    if (drawn) continue;
    const std::size_t rows = all[group[0]].values.size();
    for (const std::size_t axis : group) {
      if (all[axis].values.size() == rows) continue;
      FailSpec(712,
               "'" + all[group[0]].path + "' has " + Count(rows, "value") + " and '" +
                   all[axis].path + "' has " + std::to_string(all[axis].values.size()) +
                   ", and they walk together",
               "give both as many values, or leave one out of the zip", "zip");
    }
    data->dropped += DropRepeats(&all, group, rows);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (group_of[i] == nullptr) {
      CheckAxes({all[i]});  // crossed: each value once, and no range
      data->blocks.push_back({{i}, all[i].values.size(), false});
    } else if (group_of[i]->front() == i) {
      data->blocks.push_back(
          {*group_of[i], drawn ? spec.points.value() : all[i].values.size(), drawn});
    }
  }
  const auto together = [](const Block& block) { return block.axes.size() > 1; };
  if (drawn) {
    data->kind = spec.kind == "lhs" ? DesignKind::kLatinHypercube : DesignKind::kRandom;
  } else if (std::any_of(data->blocks.begin(), data->blocks.end(), together)) {
    data->kind = DesignKind::kZip;
  }
  data->axes = std::move(all);
  data->block_of.resize(data->axes.size());
  for (std::size_t b = 0; b < data->blocks.size(); ++b) {
    const Block& block = data->blocks[b];
    for (const std::size_t axis : block.axes) data->block_of[axis] = b;
    if (block.rows > kMaxSweepPoints / data->points) {
      std::string product;
      for (const Block& each : data->blocks)
        product += (product.empty() ? "" : " × ") + std::to_string(each.rows);
      FailSpec(
          705,
          "the design has " + product + " points, more than " + std::to_string(kMaxSweepPoints),
          "use fewer, or split the study into several", drawn ? "points" : "");
    }
    data->points *= block.rows;
  }
  if (drawn) {
    data->seed = spec.seed.value_or(1);
    data->samples = *spec.points;
    for (const Axis& axis : data->axes)
      data->stream.push_back(HashText(AxisPointer(axis.path)).low);
    const auto block = std::find_if(data->blocks.begin(), data->blocks.end(),
                                    [](const Block& each) { return each.drawn; });
    if (data->kind == DesignKind::kRandom) {
      DrawRandom(data.get(), *block);
    } else {
      DrawLatinHypercube(data.get(), *block);
    }
  }
  return Design(std::shared_ptr<const Design::Data>(std::move(data)));
}

void CheckSpec(const Spec& spec) {
  const auto only = [&](bool given, const char* key, const char* kinds) {
    if (given)
      FailSpec(710, std::string("a ") + spec.kind + " design takes no " + key,
               std::string(kinds) + " do; remove it, or change the kind", key);
  };
  if (spec.kind != "zip") only(!spec.zip.empty(), "zip", "zip designs");
  if (Draws(spec.kind)) {
    if (!spec.points)
      FailSpec(710, "how many points to draw is not told", R"("points": 1000, or --points 1000)",
               "");
    if (*spec.points == 0)
      FailSpec(710, "no points are to be drawn", "draw at least one", "points");
  } else {
    only(spec.points.has_value(), "number of points", "random and lhs designs");
    only(spec.seed.has_value(), "seed", "random and lhs designs");
    only(!spec.cross.empty(), "cross", "random and lhs designs");
  }
}

// ---- of a scenario ----

std::size_t KindIndex(const std::string& kind) {
  return static_cast<std::size_t>(std::find(kKinds.begin(), kKinds.end(), kind) - kKinds.begin());
}

Spec ReadSpec(const JsonDocument& scenario) {
  Spec spec;
  ObjectReader top(scenario, scenario.root, "");
  auto sweep = top.ObjectIf("sweep");
  if (!sweep || !sweep->Has("design")) return spec;
  const Json& value = sweep->Value("design");
  if (value.IsString()) {
    spec.kind = kKinds[sweep->Choice("design", {"grid", "zip"})];
    return spec;
  }
  ObjectReader design = sweep->Object("design");
  spec.kind = kKinds[design.Choice("kind", kKinds)];
  const auto most = static_cast<std::int64_t>(kMaxSweepPoints);
  if (spec.kind == "list") {
    const bool told = design.Has("points"), file = design.Has("file");
    if (told == file) {
      design.Fail(710, told ? "file" : "", "a list has either points or a file of them",
                  R"("points": [{"plan.micro_batch_size": 1}, ...], or "file": "points.csv")");
    }
    if (file) {
      const std::filesystem::path named = design.String("file");
      const std::filesystem::path folder =
          std::filesystem::path(scenario.sources.front().name).parent_path();
      spec.listed = ReadPointFile((folder / named).lexically_normal().string());
    } else {
      spec.listed = ReadPointList(scenario, design.Value("points"), design.pointer() + "/points");
    }
  } else if (Draws(spec.kind)) {
    spec.points = static_cast<std::size_t>(design.Integer("points", 1, most));
    spec.seed = static_cast<std::uint64_t>(design.IntegerOr("seed", 1, 0, std::int64_t{1} << 62));
    if (design.Has("cross")) spec.cross = design.Strings("cross");
  } else if (spec.kind == "zip" && design.Has("zip")) {
    const Json& groups = design.Value("zip");
    const auto fail = [&] {
      design.Fail(103, "zip", "'zip' must be an array of arrays of paths",
                  R"("zip": [["plan.backbone.tp", "plan.backbone.pp"]])");
    };
    if (!groups.IsArray()) fail();
    for (const Json& group : groups.items()) {
      if (!group.IsArray() || group.items().empty()) fail();
      spec.zip.emplace_back();
      for (const Json& path : group.items()) {
        if (!path.IsString()) fail();
        spec.zip.back().push_back(path.AsString());
      }
    }
  }
  design.Finish();
  return spec;
}

// Runs `make`; what it finds wrong gets its place in the section.
Design InSection(const JsonDocument& scenario, const std::function<Design()>& make) {
  try {
    return make();
  } catch (const Wrong& wrong) {
    const Diagnostic& d = wrong.diagnostic;
    ObjectReader top(scenario, scenario.root, "");
    auto sweep = top.ObjectIf("sweep");
    if (!sweep || !sweep->Has("design")) ThrowInput(d.code, d.message, d.help);
    if (!sweep->Value("design").IsObject()) sweep->Fail(d.code, "design", d.message, d.help);
    sweep->Object("design").Fail(d.code, wrong.key, d.message, d.help);
  }
}

// ---- of a command line ----

std::vector<std::string> Paths(const std::string& text) {
  std::vector<std::string> paths;
  std::size_t from = 0;
  while (true) {
    const std::size_t comma = text.find(',', from);
    std::string path = text.substr(from, comma == std::string::npos ? comma : comma - from);
    const std::size_t first = path.find_first_not_of(' ');
    path = first == std::string::npos ? ""
                                      : path.substr(first, path.find_last_not_of(' ') - first + 1);
    if (path.empty()) {
      ThrowInput(710, "'" + text + "' is no list of axes",
                 "for example plan.backbone.tp,plan.backbone.pp", ExitCode::kUsage);
    }
    paths.push_back(std::move(path));
    if (comma == std::string::npos) return paths;
    from = comma + 1;
  }
}

Spec SpecOf(const Spec& own, const DesignOptions& options) {
  const auto fail = [](const std::string& message, const std::string& help) {
    ThrowInput(710, message, help, ExitCode::kUsage);
  };
  std::size_t count = 0;
  const char* end = options.points.data() + options.points.size();
  const auto read = std::from_chars(options.points.data(), end, count);
  const bool number = !options.points.empty() && read.ec == std::errc() && read.ptr == end;
  const bool file = !options.points.empty() && !number;

  std::string kind = options.kind;
  if (kind.empty()) kind = file ? "list" : !options.zip.empty() ? "zip" : own.kind;
  if (KindIndex(kind) == kKinds.size())
    fail("'" + kind + "' is no design", "designs: grid, zip, list, random, lhs");
  Spec spec;
  if (kind == own.kind || (Draws(kind) && Draws(own.kind))) spec = own;
  spec.kind = kind;
  if (file && kind != "list")
    fail("--points " + options.points + " is no number, and a " + kind + " design reads no file",
         Draws(kind) ? "--points 1000" : "leave out --design to take the points of the file");
  if (file) spec.listed = ReadPointFile(options.points);
  if (kind == "list" && spec.listed.empty())
    fail("a list needs a file of points", "--points points.csv");
  if (number && !Draws(kind)) {
    fail("--points " + options.points + " draws points, and a " + kind + " design has its own",
         "--design random or --design lhs; a file of that name is ./" + options.points);
  }
  if (number) spec.points = count;
  if (options.seed && !Draws(kind))
    fail("--seed has no use in a " + kind + " design", "--design random or --design lhs");
  if (options.seed) spec.seed = options.seed;
  if (!options.cross.empty()) {
    spec.cross.clear();
    for (const std::string& text : options.cross) {
      for (std::string& path : Paths(text)) spec.cross.push_back(std::move(path));
    }
  }
  if (!options.zip.empty()) {
    spec.zip.clear();
    for (const std::string& text : options.zip) spec.zip.push_back(Paths(text));
  }
  return spec;
}

bool NamesFile(const std::string& pointer) {
  if (pointer == "/model" || pointer == "/cluster" || pointer == "/profile" || pointer == "/stack")
    return true;
  return pointer.starts_with("/pools/") && pointer.ends_with("/profile");
}

void ResolveValues(const std::string& file, std::vector<Axis>* axes) {
  for (Axis& axis : *axes) {
    if (!NamesFile(AxisPointer(axis.path))) continue;
    for (Json& value : axis.values) {
      if (!value.IsString()) continue;
      Json resolved(PathBeside(file, value.AsString()));
      resolved.SetPlace(value.source(), value.offset());
      value = std::move(resolved);
    }
  }
}

}  // namespace

std::string_view DesignKindName(DesignKind kind) {
  switch (kind) {
    case DesignKind::kGrid:
      return "grid";
    case DesignKind::kZip:
      return "zip";
    case DesignKind::kRandom:
      return "random";
    case DesignKind::kLatinHypercube:
      return "lhs";
  }
  assert(false);
  return "";
}

Design::Design() : Design(Build({}, {})) {}
Design::Design(std::vector<Axis> axes) : Design(Build({}, std::move(axes))) {}

DesignKind Design::kind() const { return data_->kind; }
std::size_t Design::points() const { return data_->points; }
const std::vector<Axis>& Design::axes() const { return data_->axes; }
std::size_t Design::dropped() const { return data_->dropped; }
Hash128 Design::drawn() const { return data_->drawn; }

void Design::Rows(std::size_t ordinal, std::vector<std::size_t>* rows) const {
  rows->resize(data_->axes.size());
  for (std::size_t b = data_->blocks.size(); b-- > 0;) {
    const Block& block = data_->blocks[b];
    const std::size_t row = ordinal % block.rows;
    ordinal /= block.rows;
    for (const std::size_t axis : block.axes) (*rows)[axis] = row;
  }
}

std::vector<std::size_t> Design::Rows(std::size_t ordinal) const {
  std::vector<std::size_t> rows;
  Rows(ordinal, &rows);
  return rows;
}

Json Design::Value(std::size_t axis, std::size_t row) const {
  const Axis& a = data_->axes[axis];
  if (!data_->blocks[data_->block_of[axis]].drawn) return a.values[row];
  const double drawn = data_->Draw(axis, row);
  if (!a.range) return a.values[static_cast<std::size_t>(drawn)];
  return CanonicalAxisValue(Json(drawn));
}

std::vector<Json> Design::Values(std::size_t ordinal) const {
  const std::vector<std::size_t> rows = Rows(ordinal);
  std::vector<Json> values;
  values.reserve(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) values.push_back(Value(i, rows[i]));
  return values;
}

std::string Design::Describe() const {
  if (IsGrid())
    return "all combinations of " + Count(data_->axes.size(), "axis")
                                        .replace(std::to_string(data_->axes.size()).size(),
                                                 std::string::npos,
                                                 data_->axes.size() == 1 ? " axis" : " axes");
  std::string text, crossed;
  for (const Block& block : data_->blocks) {
    if (block.drawn) {
      text += std::to_string(block.rows) +
              (data_->kind == DesignKind::kRandom ? " points drawn at random"
                                                  : " points of a Latin hypercube") +
              " (seed " + std::to_string(data_->seed) + ")";
    } else if (block.axes.size() > 1) {
      text += (text.empty() ? "" : " × ") + std::to_string(block.rows) + " points of " +
              std::to_string(block.axes.size()) + " axes together";
    } else {
      crossed +=
          " × " + std::to_string(block.rows) + " values of " + data_->axes[block.axes[0]].path;
    }
  }
  return text + crossed;
}

Json Design::AxesJson() const { return AxesToJson(data_->axes); }

Json Design::SpecJson() const {
  if (IsGrid()) return Json(DesignKindName(kind()));
  Json spec = Json::Object();
  spec.Set("kind", DesignKindName(kind()));
  Json groups = Json::Array(), crossed = Json::Array();
  for (const Block& block : data_->blocks) {
    Json group = Json::Array();
    for (const std::size_t axis : block.axes) group.Append(data_->axes[axis].path);
    if (block.axes.size() > 1) groups.Append(group);
    if (!block.drawn) {
      for (const Json& path : group.items()) crossed.Append(path);
    }
  }
  if (kind() == DesignKind::kZip) {
    spec.Set("zip", std::move(groups));
    return spec;
  }
  spec.Set("points", static_cast<std::int64_t>(data_->samples));
  spec.Set("seed", static_cast<std::int64_t>(data_->seed));
  if (!crossed.items().empty()) spec.Set("cross", std::move(crossed));
  return spec;
}

Design ReadDesign(const JsonDocument& scenario) {
  const Spec spec = ReadSpec(scenario);
  std::vector<Axis> axes = ReadAxes(scenario, RulesOf(spec.kind));
  return InSection(scenario, [&] {
    CheckSpec(spec);
    return Build(spec, std::move(axes));
  });
}

Design SweepDesign(const JsonDocument& scenario, const DesignOptions& options) {
  const Spec own = ReadSpec(scenario);
  const Spec spec = SpecOf(own, options);
  const bool told = options.kind.empty() && options.points.empty() && !options.seed &&
                    options.zip.empty() && options.cross.empty();
  std::vector<Axis> axes;
  if (!told && spec.kind != own.kind) {
    // The scenario's axes are read as its own design allows; Build checks them against this one.
    ReadAxes(scenario, RulesOf(own.kind));
  }
  AxisRules rules = RulesOf(spec.kind);
  axes = SweepAxes(scenario, options.vary, rules);
  Spec resolved = spec;
  const std::string& file = scenario.sources.front().name;
  ResolveValues(file, &axes);
  ResolveValues(file, &resolved.listed);
  for (const Axis& axis : resolved.listed) {
    for (const std::string& text : options.vary) {
      if (AxisPointer(text.substr(0, text.find('='))) != AxisPointer(axis.path)) continue;
      ThrowInput(706, "'" + axis.path + "' is told by the points and by --vary",
                 "leave it out of one of the two", ExitCode::kUsage);
    }
  }
  const auto build = [&] {
    CheckSpec(resolved);
    return Build(resolved, std::move(axes));
  };
  if (told) return InSection(scenario, build);
  try {
    return build();
  } catch (const Wrong& wrong) {
    ThrowInput(wrong.diagnostic.code, wrong.diagnostic.message, wrong.diagnostic.help,
               ExitCode::kUsage);
  }
}

}  // namespace aurum
