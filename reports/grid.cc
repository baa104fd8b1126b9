#include "reports/grid.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "reports/text.h"

namespace aurum {
namespace {

constexpr std::array<const char*, 3> kAxes = {"flops_gflop_per_token", "comm_bw_gb_per_s",
                                              "align_ratio"};
constexpr double kNull = std::numeric_limits<double>::quiet_NaN();

bool Same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

Json ToJson(double value) {
  if (std::isnan(value)) return Json();
  if (value == std::floor(value) && std::abs(value) < 1e15)
    return Json(static_cast<std::int64_t>(value));
  return Json(value);
}

double FromJson(const Json& value) { return value.IsNumber() ? value.AsNumber() : kNull; }

std::vector<double> Numbers(const Json& array) {
  std::vector<double> out;
  out.reserve(array.items().size());
  for (const Json& item : array.items()) out.push_back(FromJson(item));
  return out;
}

std::size_t Points(const GridShape& shape) { return shape[0] * shape[1] * shape[2]; }

// Whether no value changes when only the index along `axis` changes.
bool ConstantAlong(const std::vector<double>& values, const GridShape& shape, std::size_t axis) {
  const std::array<std::size_t, 3> strides = {shape[1] * shape[2], shape[2], 1};
  for (std::size_t p = 0; p < values.size(); ++p) {
    const std::size_t index = p / strides[axis] % shape[axis];
    if (index > 0 && !Same(values[p], values[p - strides[axis]])) return false;
  }
  return true;
}

std::size_t Nearest(const std::vector<double>& values, double target) {
  std::size_t best = 0;
  for (std::size_t n = 1; n < values.size(); ++n) {
    if (std::abs(values[n] - target) < std::abs(values[best] - target)) best = n;
  }
  return best;
}

std::size_t Index(std::optional<double> value) {
  return value && *value > 0 ? static_cast<std::size_t>(*value) : 0;
}

}  // namespace

Json EncodeField(const std::vector<double>& values, const GridShape& shape, int digits) {
  assert(values.size() == Points(shape));
  std::vector<double> rounded(values.size());
  std::transform(values.begin(), values.end(), rounded.begin(),
                 [digits](double v) { return RoundSignificant(v, digits); });

  std::array<bool, 3> depends{};
  for (std::size_t a = 0; a < 3; ++a) depends[a] = !ConstantAlong(rounded, shape, a);
  if (!(depends[0] && depends[1] && depends[2])) {
    Json axes = Json::Array();
    for (std::size_t a = 0; a < 3; ++a) {
      if (depends[a]) axes.Append(Json(kAxes[a]));
    }
    Json kept = Json::Array();
    for (std::size_t i = 0; i < (depends[0] ? shape[0] : 1); ++i) {
      for (std::size_t j = 0; j < (depends[1] ? shape[1] : 1); ++j) {
        for (std::size_t k = 0; k < (depends[2] ? shape[2] : 1); ++k) {
          kept.Append(ToJson(rounded[(i * shape[1] + j) * shape[2] + k]));
        }
      }
    }
    Json field = Json::Object();
    field.Set("axes", std::move(axes));
    field.Set("values", std::move(kept));
    return field;
  }

  std::vector<std::pair<double, std::int64_t>> runs;
  for (const double v : rounded) {
    if (!runs.empty() && Same(runs.back().first, v)) {
      ++runs.back().second;
    } else {
      runs.emplace_back(v, 1);
    }
  }
  // "[0,12]," against "0," twelve times: a run pays from about four on.
  if (runs.size() * 4 <= rounded.size()) {
    Json list = Json::Array();
    for (const auto& [value, length] : runs)
      list.Append(Json::Array({ToJson(value), Json(length)}));
    Json field = Json::Object();
    field.Set("runs", std::move(list));
    return field;
  }
  Json all = Json::Array();
  for (const double v : rounded) all.Append(ToJson(v));
  return all;
}

FieldReader::FieldReader(const Json& field, const GridShape& shape) {
  std::array<bool, 3> depends = {true, true, true};
  if (field.IsArray()) {
    values_ = Numbers(field);
  } else if (const Json* runs = field.Find("runs"); runs != nullptr) {
    values_.reserve(Points(shape));
    for (const Json& run : runs->items()) {
      const std::vector<double> pair = Numbers(run);
      assert(pair.size() == 2);
      values_.insert(values_.end(), static_cast<std::size_t>(pair[1]), pair[0]);
    }
  } else {
    values_ = Numbers(ArrayOf(field, "values"));
    const Json& axes = ArrayOf(field, "axes");
    for (std::size_t a = 0; a < 3; ++a) {
      depends[a] = std::any_of(axes.items().begin(), axes.items().end(), [a](const Json& name) {
        return name.IsString() && name.AsString() == kAxes[a];
      });
    }
  }
  std::size_t size = 1;
  for (std::size_t a = 3; a-- > 0;) {
    if (!depends[a]) continue;
    strides_[a] = size;
    size *= shape[a];
  }
  assert(values_.size() == size);
}

std::optional<double> FieldReader::At(std::size_t i, std::size_t j, std::size_t k) const {
  const std::size_t at = i * strides_[0] + j * strides_[1] + k * strides_[2];
  if (at >= values_.size() || std::isnan(values_[at])) return std::nullopt;
  return values_[at];
}

std::optional<double> SweepPoint::Gap() const {
  if (!simulated_step_time_s || *simulated_step_time_s <= 0) return std::nullopt;
  return formula_step_time_s / *simulated_step_time_s - 1;
}

SweepGrid::SweepGrid(const Json& sweep, const Json& entry)
    : name(TextOf(entry, "name")), cluster(TextOf(entry, "cluster")), entry_(&entry) {
  const Json& axes =
      entry.Find("axes") != nullptr ? ObjectOf(entry, "axes") : ObjectOf(sweep, "axes");
  flops_gflop_per_token = Numbers(ArrayOf(axes, kAxes[0]));
  comm_bw_gb_per_s = Numbers(ArrayOf(axes, kAxes[1]));
  align_ratio = Numbers(ArrayOf(axes, kAxes[2]));
  for (const Json& modality : ArrayOf(entry, "modalities").items()) {
    modalities.push_back(modality.IsString() ? modality.AsString() : std::string());
  }
  const GridShape shape = Shape();
  const auto field = [&](std::string_view key) {
    const Json* value = entry.Find(key);
    assert(value != nullptr);
    return value == nullptr ? FieldReader() : FieldReader(*value, shape);
  };
  simulated_ = field("simulated_step_time_s");
  formula_ = field("formula_step_time_s");
  beta_ = field("beta_p_align_s");
  limit_ = field("limit");
  reason_ = field("reason");
  const Json& terms = ObjectOf(entry, "terms");
  const auto per_modality = [&](std::string_view key) {
    std::vector<FieldReader> readers;
    for (const Json& one : ArrayOf(terms, key).items()) readers.emplace_back(one, shape);
    readers.resize(modalities.size());
    return readers;
  };
  f_over_b_ = per_modality("f_over_b_s");
  g_over_c_ = per_modality("g_over_c_s");
  alpha_comm_ = per_modality("alpha_comm_s");
}

GridShape SweepGrid::Shape() const {
  return {flops_gflop_per_token.size(), comm_bw_gb_per_s.size(), align_ratio.size()};
}

SweepPoint SweepGrid::At(std::size_t i, std::size_t j, std::size_t k) const {
  SweepPoint point;
  point.simulated_step_time_s = simulated_.At(i, j, k);
  point.formula_step_time_s = formula_.At(i, j, k).value_or(0);
  point.beta_p_align_s = beta_.At(i, j, k).value_or(0);
  point.limit = Index(limit_.At(i, j, k));
  point.reason = Index(reason_.At(i, j, k));
  double longest = -1;
  for (std::size_t m = 0; m < modalities.size(); ++m) {
    const double fb = f_over_b_[m].At(i, j, k).value_or(0);
    const double gc = g_over_c_[m].At(i, j, k).value_or(0);
    const double comm = alpha_comm_[m].At(i, j, k).value_or(0);
    if (fb + gc + comm <= longest) continue;
    longest = fb + gc + comm;
    point.modality = m;
    point.f_over_b_s = fb;
    point.g_over_c_s = gc;
    point.alpha_comm_s = comm;
  }
  return point;
}

SweepPoint SweepGrid::AtReference() const {
  const Json* exact = entry_->Find("at_reference");
  if (exact == nullptr || !exact->IsObject()) {
    const Json& reference = ObjectOf(*entry_, "reference");
    return At(Nearest(flops_gflop_per_token, NumberOf(reference, "flops").value_or(0)),
              Nearest(comm_bw_gb_per_s, NumberOf(reference, "bw").value_or(0)),
              Nearest(align_ratio, NumberOf(reference, "mar").value_or(0)));
  }
  SweepPoint point;
  point.simulated_step_time_s = NumberOf(*exact, "simulated_step_time_s");
  point.formula_step_time_s = NumberOf(*exact, "formula_step_time_s").value_or(0);
  point.beta_p_align_s = NumberOf(*exact, "beta_p_align_s").value_or(0);
  point.limit = Index(NumberOf(*exact, "limit"));
  point.reason = Index(NumberOf(*exact, "reason"));
  const Json& terms = ObjectOf(*exact, "terms");
  const std::vector<double> fb = Numbers(ArrayOf(terms, "f_over_b_s"));
  const std::vector<double> gc = Numbers(ArrayOf(terms, "g_over_c_s"));
  const std::vector<double> comm = Numbers(ArrayOf(terms, "alpha_comm_s"));
  double longest = -1;
  for (std::size_t m = 0; m < std::min({fb.size(), gc.size(), comm.size()}); ++m) {
    if (fb[m] + gc[m] + comm[m] <= longest) continue;
    longest = fb[m] + gc[m] + comm[m];
    point.modality = m;
    point.f_over_b_s = fb[m];
    point.g_over_c_s = gc[m];
    point.alpha_comm_s = comm[m];
  }
  return point;
}

bool SweepGrid::ReferenceIsExact() const {
  if (ObjectOf(*entry_, "at_reference").members().size() > 0) return true;
  const Json& reference = ObjectOf(*entry_, "reference");
  const auto on = [&](const std::vector<double>& axis, std::string_view key) {
    const std::optional<double> x = NumberOf(reference, key);
    return x && std::find(axis.begin(), axis.end(), *x) != axis.end();
  };
  return on(flops_gflop_per_token, "flops") && on(comm_bw_gb_per_s, "bw") && on(align_ratio, "mar");
}

std::vector<std::size_t> SweepGrid::CountLimits(std::size_t limits) const {
  std::vector<std::size_t> count(limits);
  const GridShape shape = Shape();
  for (std::size_t i = 0; i < shape[0]; ++i) {
    for (std::size_t j = 0; j < shape[1]; ++j) {
      for (std::size_t k = 0; k < shape[2]; ++k) {
        const std::size_t limit = Index(limit_.At(i, j, k));
        if (simulated_.At(i, j, k) && limit < limits) ++count[limit];
      }
    }
  }
  return count;
}

std::string NameAt(const Json& names, std::size_t index) {
  if (index >= names.items().size() || !names.items()[index].IsString()) return "";
  return names.items()[index].AsString();
}

}  // namespace aurum
