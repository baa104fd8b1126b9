#include "reports/csv.h"

#include <fmt/format.h>

#include <iterator>
#include <optional>
#include <string_view>

#include "reports/grid.h"
#include "reports/text.h"

namespace aurum {
namespace {

std::string Quoted(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

// The shortest text that reads back as the same double.
std::string Exact(std::optional<double> value) { return value ? fmt::format("{}", *value) : ""; }

std::string SweepRows(const Json& sweep) {
  std::string out =
      "model,cluster,flops_gflop_per_token,comm_bw_gb_per_s,align_ratio,simulated_step_time_s,"
      "formula_step_time_s,"
      "relative_gap,modality,f_over_b_s,g_over_c_s,alpha_comm_s,beta_p_align_s,limit,reason\n";
  const Json& limits = ArrayOf(sweep, "limits");
  const Json& reasons = ArrayOf(sweep, "reasons");
  for (const Json& entry : ArrayOf(sweep, "models").items()) {
    const SweepGrid grid(sweep, entry);
    const std::string head = Quoted(grid.name) + "," + Quoted(grid.cluster);
    const GridShape shape = grid.Shape();
    for (std::size_t i = 0; i < shape[0]; ++i) {
      for (std::size_t j = 0; j < shape[1]; ++j) {
        for (std::size_t k = 0; k < shape[2]; ++k) {
          const SweepPoint p = grid.At(i, j, k);
          std::optional<double> gap = p.Gap();
          if (gap) gap = RoundSignificant(*gap, 4);
          fmt::format_to(std::back_inserter(out), "{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n",
                         head, grid.flops_gflop_per_token[i], grid.comm_bw_gb_per_s[j],
                         grid.align_ratio[k], Exact(p.simulated_step_time_s), p.formula_step_time_s,
                         Exact(gap),
                         grid.modalities.empty() ? "" : Quoted(grid.modalities[p.modality]),
                         p.f_over_b_s, p.g_over_c_s, p.alpha_comm_s, p.beta_p_align_s,
                         Quoted(NameAt(limits, p.limit)), Quoted(NameAt(reasons, p.reason)));
        }
      }
    }
  }
  return out;
}

class FigureRows {
 public:
  // Nothing is written for a figure that is not known.
  void Add(std::string_view section, std::string_view item, std::string_view figure,
           std::optional<double> value, std::string_view unit, std::optional<double> low = {},
           std::optional<double> high = {}) {
    if (!value) return;
    text_ += fmt::format("{},{},{},{},{},{},{}\n", Quoted(section), Quoted(item), Quoted(figure),
                         Exact(value), Quoted(unit), Exact(low), Exact(high));
  }
  void Add(std::string_view section, std::string_view item, const Json& object,
           std::string_view key, std::string_view unit) {
    // x_s has its interval in x_low_s and x_high_s.
    const std::size_t cut = key.rfind('_');
    const std::string low =
        fmt::format("{}_low{}", key.substr(0, cut), cut == key.npos ? "" : key.substr(cut));
    const std::string high =
        fmt::format("{}_high{}", key.substr(0, cut), cut == key.npos ? "" : key.substr(cut));
    Add(section, item, key, NumberOf(object, key), unit, NumberOf(object, low),
        NumberOf(object, high));
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_ = "section,item,figure,value,unit,low,high\n";
};

void AddTime(const Json& time, std::string_view section, std::string_view item, FigureRows* rows) {
  for (const auto& [key, value] : time.members()) {
    if (value.IsNumber()) rows->Add(section, item, key, value.AsNumber(), "s");
  }
}

std::string Figures(const Json& island) {
  FigureRows rows;
  const Json& verdict = ObjectOf(island, "verdict");
  rows.Add("verdict", "", verdict, "step_time_s", "s");
  rows.Add("verdict", "", verdict, "tokens_per_s", "1/s");
  rows.Add("verdict", "", verdict, "tokens_per_s_per_gpu", "1/s");
  rows.Add("verdict", "", verdict, "samples_per_s", "1/s");
  rows.Add("verdict", "", verdict, "mfu", "1");
  rows.Add("verdict", "", verdict, "peak_gib", "GiB");
  rows.Add("verdict", "", verdict, "device_usable_gib", "GiB");
  AddTime(ObjectOf(island, "time"), "time", "", &rows);

  for (const Json& plan : ArrayOf(ObjectOf(island, "plans"), "rows").items()) {
    const std::string name = TextOf(plan, "name");
    rows.Add("plans", name, plan, "step_time_s", "s");
    rows.Add("plans", name, plan, "tokens_per_s_per_gpu", "1/s");
    rows.Add("plans", name, plan, "mfu", "1");
    rows.Add("plans", name, plan, "peak_gib", "GiB");
    AddTime(ObjectOf(plan, "time"), "plans", name, &rows);
  }

  const Json& memory = ObjectOf(island, "memory");
  const Json& peak = ObjectOf(memory, "peak");
  rows.Add("memory", TextOf(memory, "rank"), "peak_gib", NumberOf(peak, "gib"), "GiB",
           NumberOf(peak, "low_gib"), NumberOf(peak, "high_gib"));
  for (const Json& component : ArrayOf(memory, "components").items()) {
    rows.Add("memory", TextOf(component, "name"), "largest_gib", LargestOf(component, "gib"),
             "GiB");
  }
  for (const Json& fix : ArrayOf(memory, "fixes").items()) {
    rows.Add("memory fixes", TextOf(fix, "fix"), fix, "saves_gib", "GiB");
    rows.Add("memory fixes", TextOf(fix, "fix"), fix, "step_time_delta_s", "s");
  }

  for (const Json& one : ArrayOf(island, "sensitivities").items()) {
    const std::string resource = TextOf(one, "resource");
    rows.Add("sensitivities", resource, "value", NumberOf(one, "value"), TextOf(one, "unit"));
    const std::optional<double> half = NumberOf(one, "half_width_s");
    for (const char* key : {"step_time_delta_up_s", "step_time_delta_down_s"}) {
      const std::optional<double> value = NumberOf(one, key);
      if (!value) continue;
      rows.Add("sensitivities", resource, key, value, "s",
               half ? std::optional(*value - *half) : std::nullopt,
               half ? std::optional(*value + *half) : std::nullopt);
    }
  }

  const Json& validation = ObjectOf(island, "validation");
  for (const auto& [metric, score] : ObjectOf(validation, "metrics").members()) {
    for (const auto& [key, value] : score.members()) {
      if (value.IsNumber()) rows.Add("validation", metric, key, value.AsNumber(), "1");
    }
  }
  for (const Json& row : ArrayOf(validation, "rows").items()) {
    const std::string metric = TextOf(row, "metric");
    const std::string_view unit = metric.ends_with("_gib") ? "GiB"
                                  : metric.ends_with("_s") ? "s"
                                                           : "";
    const std::string item = TextOf(row, "id");
    rows.Add("validation rows", item, metric + " measured", NumberOf(row, "measured"), unit);
    rows.Add("validation rows", item, metric + " predicted", NumberOf(row, "predicted"), unit);
    rows.Add("validation rows", item, metric + " relative_error", NumberOf(row, "relative_error"),
             "1");
  }
  return rows.Take();
}

}  // namespace

std::string CsvReport(const Json& island) {
  const Json* sweep = island.Find("sweep");
  return sweep != nullptr && sweep->IsObject() ? SweepRows(*sweep) : Figures(island);
}

}  // namespace aurum
