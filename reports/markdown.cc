#include "reports/markdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "reports/grid.h"
#include "reports/text.h"

namespace aurum {
namespace {

constexpr std::string_view kUnknown = "–";

// The parts of a step, by their keys in cli.md's order.
constexpr std::array<std::pair<const char*, const char*>, 7> kParts = {{
    {"compute_s", "compute"},
    {"exposed_comm_s", "exposed communication"},
    {"bubble_s", "pipeline bubbles"},
    {"straggler_wait_s", "wait for a slower rank"},
    {"alignment_wait_s", "alignment wait"},
    {"data_wait_s", "data wait"},
    {"optimizer_s", "optimizer"},
}};

std::string Cell(std::optional<double> value, auto format) {
  return value ? format(*value) : std::string(kUnknown);
}
std::string Seconds(const Json& object, std::string_view key) {
  return Cell(NumberOf(object, key), [](double v) { return SecondsText(v); });
}
std::string Gib(const Json& object, std::string_view key) {
  return Cell(NumberOf(object, key), [](double v) { return FixedText(v, 1) + " GiB"; });
}
std::string Percent(const Json& object, std::string_view key) {
  return Cell(NumberOf(object, key), [](double v) { return PercentText(v); });
}
std::string Change(const Json& object, std::string_view key) {
  return Cell(NumberOf(object, key), [](double v) { return SignedSecondsText(v); });
}
std::string Count(const Json& object, std::string_view key) {
  return Cell(NumberOf(object, key), [](double v) { return CountText(v); });
}
std::string Setting(const Json& object, std::string_view key) {
  return Cell(NumberOf(object, key), [](double v) { return TickText(v); });
}
std::string Plain(const Json& object, std::string_view key, int significant = 3) {
  return Cell(NumberOf(object, key),
              [significant](double v) { return NumberText(v, significant); });
}
std::string Words(const Json& object, std::string_view key) {
  return EscapeForMarkdown(TextOf(object, key));
}

// " [low–high]" in the form of `format`, or "" where no interval is known.
std::string Interval(const Json& object, std::string_view low, std::string_view high, auto format) {
  const std::optional<double> a = NumberOf(object, low);
  const std::optional<double> b = NumberOf(object, high);
  return a && b ? fmt::format(" [{}–{}]", format(*a), format(*b)) : "";
}

std::string StepInterval(const Json& object) {
  const std::optional<double> low = NumberOf(object, "step_time_low_s");
  const std::optional<double> high = NumberOf(object, "step_time_high_s");
  const std::optional<double> near = NumberOf(object, "step_time_s");
  return low && high && near ? SecondsIntervalText(*low, *high, *near) : "";
}

// Code may contain backticks: the fence is one longer than the longest run of them.
std::string Code(std::string_view text) {
  std::string line;
  std::size_t longest = 0;
  std::size_t run = 0;
  for (const char c : text) {
    line += c == '\n' || c == '\r' ? ' ' : c;
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string fence(longest + 1, '`');
  const std::string space = longest > 0 ? " " : "";
  return fence + space + line + space + fence;
}

// Inside a table a bar ends the cell even in code.
std::string CodeCell(std::string_view text) {
  std::string out;
  for (const char c : Code(text)) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

class Document {
 public:
  void Heading(int level, std::string_view text) {
    text_ += fmt::format("{} {}\n\n", std::string(static_cast<std::size_t>(level), '#'), text);
  }
  void Paragraph(std::string_view text) {
    if (!text.empty()) text_ += fmt::format("{}\n\n", text);
  }
  // A column whose head begins with '>' is aligned to the right. No rows, no table.
  void Table(const std::vector<std::string>& heads,
             const std::vector<std::vector<std::string>>& rows) {
    if (rows.empty()) return;
    std::string rule = "|";
    text_ += "|";
    for (const std::string& head : heads) {
      const bool right = head.starts_with('>');
      text_ += fmt::format(" {} |", right ? head.substr(1) : head);
      rule += right ? " --: |" : " --- |";
    }
    text_ += "\n" + rule + "\n";
    for (const std::vector<std::string>& row : rows) {
      assert(row.size() == heads.size());
      text_ += "|";
      for (const std::string& cell : row) text_ += fmt::format(" {} |", cell);
      text_ += "\n";
    }
    text_ += "\n";
  }
  void Item(std::string_view text) { text_ += fmt::format("- {}\n", text); }
  void EndList() { text_ += "\n"; }
  std::string Take() {
    while (text_.ends_with("\n\n")) text_.pop_back();
    return std::move(text_);
  }

 private:
  std::string text_;
};

const auto kOneDecimal = [](double v) { return FixedText(v, 1); };

void WriteVerdict(const Json& island, Document* out) {
  const Json& v = ObjectOf(island, "verdict");
  if (v.members().empty()) return;
  out->Heading(2, "Verdict");
  const double peak = NumberOf(v, "peak_gib").value_or(0);
  const double usable = NumberOf(v, "device_usable_gib").value_or(0);
  const bool fits = BoolOf(v, "fits");
  const std::string verdict = TextOf(v, "verdict");
  const bool risk = verdict.empty() ? fits && NumberOf(v, "peak_high_gib").value_or(peak) > usable
                                    : verdict == "at risk";
  std::vector<std::vector<std::string>> rows;
  rows.push_back({"Memory", !fits ? "**✗ does not fit**" : risk ? "**! at risk**" : "**✓ fits**"});
  rows.push_back(
      {"Peak memory", fmt::format("{}{} of {} usable, on {}", Gib(v, "peak_gib"),
                                  Interval(v, "peak_low_gib", "peak_high_gib", kOneDecimal),
                                  Gib(v, "device_usable_gib"), Words(v, "heaviest_rank"))});
  rows.push_back({fits ? "Step time" : "Step time, if it fitted",
                  Seconds(v, "step_time_s") + StepInterval(v)});
  rows.push_back(
      {"Throughput",
       fmt::format("{} tokens/s, {} tokens/s per GPU, {} samples/s", Plain(v, "tokens_per_s", 4),
                   Plain(v, "tokens_per_s_per_gpu", 4), Plain(v, "samples_per_s"))});
  rows.push_back({"MFU", Percent(v, "mfu")});
  rows.push_back({"Limited by", fmt::format("**{}**. {}", Words(v, "limiting_resource"),
                                            Words(v, "limiting_detail"))});
  out->Table({"Figure", "Value"}, rows);

  const Json& time = ObjectOf(island, "time");
  const double step = NumberOf(v, "step_time_s").value_or(0);
  rows.clear();
  for (const auto& [key, name] : kParts) {
    const std::optional<double> part = NumberOf(time, key);
    if (part && *part > 0 && step > 0)
      rows.push_back({name, SecondsText(*part), PercentText(*part / step)});
  }
  out->Table({"Part of the step", ">Time", ">Share"}, rows);
  if (const std::optional<double> confidence = NumberOf(island, "confidence")) {
    out->Paragraph(fmt::format("Square brackets are {} intervals.", PercentText(*confidence, 0)));
  }
}

void WritePlans(const Json& island, Document* out) {
  const Json& plans = ObjectOf(island, "plans");
  if (plans.members().empty()) return;
  out->Heading(2, "Plans compared");
  out->Paragraph(Words(ObjectOf(island, "findings"), "plans"));
  const std::string baseline = TextOf(plans, "baseline");
  const std::string chosen = TextOf(plans, "chosen");
  const std::vector<Json>& rows = ArrayOf(plans, "rows").items();
  const std::string reference = baseline.empty() ? chosen : baseline;
  double base = 0;
  for (const Json& row : rows) {
    if (TextOf(row, "id") == reference) base = NumberOf(row, "step_time_s").value_or(0);
  }
  std::vector<const Json*> order;
  for (const Json& row : rows) order.push_back(&row);
  std::stable_sort(order.begin(), order.end(), [](const Json* a, const Json* b) {
    return NumberOf(*a, "step_time_s").value_or(0) < NumberOf(*b, "step_time_s").value_or(0);
  });
  std::vector<std::vector<std::string>> cells;
  for (const Json* row : order) {
    const std::string id = TextOf(*row, "id");
    const double step = NumberOf(*row, "step_time_s").value_or(0);
    cells.push_back(
        {Words(*row, "name") + (id == chosen ? " **best**" : "") +
             (id == baseline ? " (baseline)" : ""),
         Seconds(*row, "step_time_s") + StepInterval(*row),
         base > 0 ? SignedPercentText(step / base - 1, 0) : std::string(kUnknown),
         Gib(*row, "peak_gib") + Interval(*row, "peak_low_gib", "peak_high_gib", kOneDecimal),
         Plain(*row, "tokens_per_s_per_gpu", 4), Percent(*row, "mfu"), Words(*row, "provenance"),
         Words(*row, "cause")});
  }
  out->Table(
      {"Plan", ">Step", ">Δ", ">Peak", ">Tokens/s per GPU", ">MFU", "Provenance", "Why it differs"},
      cells);
  cells.clear();
  for (const Json& row : ArrayOf(plans, "rejected").items()) {
    cells.push_back(
        {Words(row, "name"), Gib(row, "peak_gib"), Words(row, "code"), Words(row, "reason")});
  }
  if (!cells.empty()) {
    out->Paragraph(fmt::format("{} of {} candidates kept; examples of the rejected:", rows.size(),
                               Count(plans, "considered")));
    out->Table({"Rejected candidate", ">Peak", "Code", "Reason"}, cells);
  }
}

// Seconds of the compute lane per rank class and kind of operation, in the order in which the kinds
// first come.
void WriteTimeline(const Json& island, Document* out) {
  const Json& timeline = ObjectOf(island, "timeline");
  if (timeline.members().empty()) return;
  out->Heading(2, "One step, op by op");
  out->Paragraph(Words(ObjectOf(island, "findings"), "timeline"));
  const std::vector<Json>& classes = ArrayOf(timeline, "classes").items();
  const double step = NumberOf(timeline, "step_time_s").value_or(0);
  std::vector<std::pair<std::string, std::vector<double>>> kinds;
  // Exact sums where the document has them; else what is drawn.
  for (std::size_t c = 0; c < classes.size(); ++c) {
    for (const auto& [kind, seconds] : ObjectOf(classes[c], "main_s").members()) {
      const auto at =
          std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) { return k.first == kind; });
      auto& sums =
          at != kinds.end() ? *at : kinds.emplace_back(kind, std::vector<double>(classes.size()));
      sums.second[c] = seconds.AsNumber();
    }
  }
  const bool exact = !kinds.empty();
  for (const Json& event : ArrayOf(timeline, "events").items()) {
    if (exact) break;
    if (!event.IsArray() || event.items().size() < 5) continue;
    const std::vector<Json>& e = event.items();
    if (!e[0].IsInteger() || !e[1].IsString() || e[1].AsString() != "main" || !e[2].IsString())
      continue;
    const auto at = std::find_if(kinds.begin(), kinds.end(),
                                 [&](const auto& k) { return k.first == e[2].AsString(); });
    auto& sums = at != kinds.end()
                     ? *at
                     : kinds.emplace_back(e[2].AsString(), std::vector<double>(classes.size()));
    const auto rank_class = static_cast<std::size_t>(e[0].AsInteger());
    if (rank_class < classes.size()) sums.second[rank_class] += e[4].AsNumber() - e[3].AsNumber();
  }
  std::vector<std::string> heads = {"Compute lane"};
  for (const Json& one : classes) heads.push_back(">" + Words(one, "name"));
  std::vector<std::vector<std::string>> cells;
  for (const auto& [kind, sums] : kinds) {
    std::string name = kind;
    std::replace(name.begin(), name.end(), '_', ' ');
    std::vector<std::string> row = {EscapeForMarkdown(name)};
    for (const double sum : sums)
      row.push_back(sum > 0 && step > 0 ? PercentText(sum / step) : std::string(kUnknown));
    cells.push_back(std::move(row));
  }
  out->Table(heads, cells);
  if (step > 0)
    out->Paragraph(fmt::format("Shares of the step of {}. Bubbles are idle time by cause.",
                               SecondsText(step)));
}

void WriteMemory(const Json& island, Document* out) {
  const Json& memory = ObjectOf(island, "memory");
  if (memory.members().empty()) return;
  out->Heading(2, "Memory of the heaviest rank");
  out->Paragraph(Words(ObjectOf(island, "findings"), "memory"));
  const Json& peak = ObjectOf(memory, "peak");
  const double when = NumberOf(peak, "t_s").value_or(0);
  const double size = NumberOf(peak, "gib").value_or(0);
  // A value holds until the next instant: the peak lies in the last interval that has begun.
  std::size_t index = 0;
  const std::vector<Json>& instants = ArrayOf(memory, "t_s").items();
  for (std::size_t n = 0; n < instants.size(); ++n) {
    if (instants[n].IsNumber() && instants[n].AsNumber() <= when) index = n;
  }
  std::vector<std::pair<double, std::string>> parts;
  for (const Json& component : ArrayOf(memory, "components").items()) {
    const std::vector<Json>& gib = ArrayOf(component, "gib").items();
    if (index < gib.size() && gib[index].IsNumber())
      parts.emplace_back(gib[index].AsNumber(), Words(component, "name"));
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::vector<std::string>> cells;
  for (const auto& [gib, name] : parts) {
    cells.push_back(
        {name, FixedText(gib, 2), size > 0 ? PercentText(gib / size) : std::string(kUnknown)});
  }
  cells.push_back({"**peak**",
                   fmt::format("**{}**{}", FixedText(size, 2),
                               Interval(peak, "low_gib", "high_gib", kOneDecimal)),
                   "100.0 %"});
  out->Table({"Component at the peak", ">GiB", ">Share"}, cells);
  out->Paragraph(fmt::format("On {}, at: {}. Usable are {} of {}.", Words(memory, "rank"),
                             Words(peak, "at"), Gib(memory, "usable_gib"),
                             Gib(memory, "device_gib")));
  cells.clear();
  for (const Json& tensor : ArrayOf(memory, "tensors").items()) {
    const std::string module = Words(tensor, "module");
    cells.push_back({Words(tensor, "name"),
                     (module.empty() ? "" : module + ", ") + Words(tensor, "unit"),
                     Plain(tensor, "count"), Gib(tensor, "gib")});
  }
  if (!cells.empty()) out->Table({"Tensor at the peak", "Of", ">Count", ">Size"}, cells);
  cells.clear();
  for (const Json& fix : ArrayOf(memory, "fixes").items()) {
    const std::string set = TextOf(fix, "set");
    cells.push_back({Words(fix, "fix"), Gib(fix, "saves_gib"), Change(fix, "step_time_delta_s"),
                     set.empty() ? std::string(kUnknown) : CodeCell("--set " + set),
                     Words(fix, "note")});
  }
  out->Table({"Fix", ">Saves", ">Step time", "Apply with", "Note"}, cells);
}

std::string ReferenceText(const Json& entry) {
  const Json& r = ObjectOf(entry, "reference");
  return fmt::format("{} GFLOP/token, {} GB/s, AlignRatio {}", Setting(r, "flops"),
                     Setting(r, "bw"), Setting(r, "mar"));
}

void WriteSweep(const Json& island, Document* out) {
  const Json& sweep = ObjectOf(island, "sweep");
  if (sweep.members().empty()) return;
  const Json& findings = ObjectOf(island, "findings");
  const Json& limits = ArrayOf(sweep, "limits");
  const Json& reasons = ArrayOf(sweep, "reasons");
  const double tolerance = NumberOf(sweep, "tolerance").value_or(0);
  out->Heading(2, "Golden-formula sweep");
  out->Paragraph(Words(findings, "sweep"));
  const Json& fit = ObjectOf(sweep, "fit");
  const std::string combine = TextOf(fit, "combine");
  const auto plain = [](double v) { return NumberText(v); };
  out->Paragraph(fmt::format("T = {}ₖ [ Fₖ/Bₖ + Gₖ/Cₖ + α·Comm(k) ] + β·P",
                             combine.empty() ? "max" : EscapeForMarkdown(combine)));
  if (!fit.members().empty()) {
    out->Paragraph(fmt::format("Fitted over {} points: α {}{}, β {}{}, R² {}.",
                               Count(fit, "points"), Plain(fit, "alpha"),
                               Interval(fit, "alpha_low", "alpha_high", plain), Plain(fit, "beta"),
                               Interval(fit, "beta_low", "beta_high", plain), Plain(fit, "r2", 4)));
  }
  std::vector<std::vector<std::string>> combined;
  for (const Json& one : ArrayOf(sweep, "fits").items()) {
    combined.push_back({EscapeForMarkdown(TextOf(one, "combine")),
                        Plain(one, "alpha") + Interval(one, "alpha_low", "alpha_high", plain),
                        Plain(one, "beta") + Interval(one, "beta_low", "beta_high", plain),
                        Plain(one, "r2", 4), Percent(one, "inside_share"),
                        EscapeForMarkdown(TextOf(one, "fails_mostly"))});
  }
  if (!combined.empty()) {
    out->Table({"Combined as", ">α", ">β", ">R²", ">Within tolerance", "Fails mostly because"},
               combined);
  }
  std::vector<std::vector<std::string>> summary;
  std::vector<std::vector<std::string>> coverage;
  std::vector<std::vector<std::string>> terms;
  std::vector<std::string> sentences;
  bool approximate = false;
  for (const Json& entry : ArrayOf(sweep, "models").items()) {
    const SweepGrid grid(sweep, entry);
    const SweepPoint p = grid.AtReference();
    const std::string model = EscapeForMarkdown(grid.name);
    const std::string cluster = EscapeForMarkdown(grid.cluster);
    const std::optional<double> gap = p.Gap();
    approximate = approximate || !grid.ReferenceIsExact();
    summary.push_back({model, cluster, ReferenceText(entry) + (grid.ReferenceIsExact() ? "" : " ≈"),
                       p.simulated_step_time_s ? SecondsText(*p.simulated_step_time_s) : "failed",
                       SecondsText(p.formula_step_time_s),
                       gap ? (std::abs(*gap) <= tolerance ? "✓ " : "✗ ") + SignedPercentText(*gap)
                           : std::string(kUnknown),
                       SecondsText(p.f_over_b_s), SecondsText(p.g_over_c_s),
                       SecondsText(p.alpha_comm_s), SecondsText(p.beta_p_align_s),
                       fmt::format("**{}**", EscapeForMarkdown(NameAt(limits, p.limit)))});
    if (const std::string said = TextOf(entry, "sentence"); !said.empty())
      sentences.push_back(EscapeForMarkdown(grid.name + " on " + grid.cluster + ": " + said));
    const std::vector<std::size_t> counts = grid.CountLimits(limits.items().size());
    std::size_t alive = 0;
    for (const std::size_t count : counts) alive += count;
    std::string shares;
    for (std::size_t n = 0; n < counts.size(); ++n) {
      if (counts[n] == 0) continue;
      const double share = static_cast<double>(counts[n]) / static_cast<double>(alive);
      shares +=
          fmt::format("{}{} {}", shares.empty() ? "" : ", ", EscapeForMarkdown(NameAt(limits, n)),
                      share < 0.005 ? "&lt;1 %" : PercentText(share, 0));
    }
    const GridShape shape = grid.Shape();
    coverage.push_back({model, cluster, fmt::format("{} × {} × {}", shape[0], shape[1], shape[2]),
                        Percent(entry, "inside_share"), Percent(entry, "median_gap"),
                        Percent(entry, "p90_gap"), shares});
    // Under another rule than max no modality stands alone, and the table above has the terms of
    // the longest.
    if (!grid.modalities.empty()) {
      const std::string reason = gap && std::abs(*gap) > tolerance
                                     ? EscapeForMarkdown(NameAt(reasons, p.reason))
                                     : "inside";
      terms.push_back({model, cluster, EscapeForMarkdown(grid.modalities[p.modality]),
                       Setting(entry, "own_gflop_per_token"), reason});
    }
  }
  out->Heading(3, "Each model at its own operating point");
  out->Table({"Model", "Cluster", "Operating point", ">Simulated", ">Formula", ">Gap", ">F/B",
              ">G/C", ">α·Comm", ">β·P", "Limited by"},
             summary);
  if (approximate)
    out->Paragraph("≈: the figures are those of the grid point nearest to the operating point.");
  out->Paragraph(Words(findings, "terms"));
  out->Table({"Model", "Cluster", "Longest modality", ">Own GFLOP/token",
              "Formula and simulation differ because"},
             terms);
  out->Heading(3, "Over the whole grid");
  out->Table({"Model", "Cluster", ">Points", fmt::format(">Within ±{}", PercentText(tolerance, 0)),
              ">Median gap", ">90th percentile", "Limited by"},
             coverage);
  for (const std::string& sentence : sentences) out->Paragraph(sentence);
}

void WriteSensitivities(const Json& island, Document* out) {
  const std::vector<Json>& list = ArrayOf(island, "sensitivities").items();
  if (list.empty()) return;
  out->Heading(2, "What 10 % more would buy");
  out->Paragraph(Words(ObjectOf(island, "findings"), "sensitivity"));
  std::vector<std::vector<std::string>> cells;
  for (const Json& one : list) {
    cells.push_back({Words(one, "resource"), Plain(one, "value") + " " + Words(one, "unit"),
                     Change(one, "step_time_delta_up_s"), Change(one, "step_time_delta_down_s"),
                     Seconds(one, "half_width_s"), Words(one, "provenance"), Words(one, "note")});
  }
  out->Table({"Resource", ">Now", ">10 % more", ">10 % less", ">±", "Provenance", "Why"}, cells);
}

void WriteValidation(const Json& island, Document* out) {
  const Json& validation = ObjectOf(island, "validation");
  if (validation.members().empty()) return;
  out->Heading(2, "Predicted against measured");
  out->Paragraph(Words(ObjectOf(island, "findings"), "validation"));
  std::vector<std::vector<std::string>> cells;
  for (const auto& [metric, score] : ObjectOf(validation, "metrics").members()) {
    cells.push_back({EscapeForMarkdown(metric), Count(score, "n"), Count(score, "skipped"),
                     Percent(score, "median_ape"), Percent(score, "mape"),
                     Percent(score, "p90_ape"), Percent(score, "bias"),
                     Plain(score, "kendall_tau")});
  }
  out->Table({"Metric", ">Rows", ">Skipped", ">Median error", ">Mean error", ">90th percentile",
              ">Bias", ">Kendall τ"},
             cells);
  std::vector<const Json*> rows;
  for (const Json& row : ArrayOf(validation, "rows").items()) rows.push_back(&row);
  const auto size = [](const Json* row) {
    return std::abs(NumberOf(*row, "relative_error").value_or(0));
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const Json* a, const Json* b) { return size(a) > size(b); });
  if (rows.size() > 16) rows.resize(16);
  cells.clear();
  for (const Json* row : rows) {
    cells.push_back(
        {Words(*row, "id"), Words(*row, "what"), Words(*row, "source"), Words(*row, "metric"),
         Plain(*row, "measured"), Plain(*row, "predicted"),
         Cell(NumberOf(*row, "relative_error"), [](double v) { return SignedPercentText(v); }),
         Words(*row, "likely_cause")});
  }
  if (!cells.empty()) out->Paragraph("The worst rows:");
  out->Table(
      {"Row", "What", "Source", "Metric", ">Measured", ">Predicted", ">Error", "Likely cause"},
      cells);
}

void WriteNotes(const Json& island, Document* out) {
  const std::vector<Json>& warnings = ArrayOf(island, "warnings").items();
  const std::vector<Json>& assumptions = ArrayOf(island, "assumptions").items();
  if (warnings.empty() && assumptions.empty()) return;
  out->Heading(2, "Warnings and assumptions");
  out->Paragraph(Words(ObjectOf(island, "findings"), "notes"));
  for (const Json& one : warnings) {
    const std::string where = Words(one, "where");
    out->Item(fmt::format("**{}** {}{}", Words(one, "code"), Words(one, "text"),
                          where.empty() ? "" : " (" + where + ")"));
  }
  if (!warnings.empty()) out->EndList();
  std::vector<std::vector<std::string>> cells;
  for (const Json& one : assumptions) {
    cells.push_back({Words(one, "what"), Words(one, "value"), Words(one, "provenance"),
                     Percent(one, "effect_on_step")});
  }
  out->Table({"Assumption", "Value", "Provenance", ">Effect on the step, ±"}, cells);
}

}  // namespace

std::string EscapeForMarkdown(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c == '\n' || c == '\r' || c == '\t') {
      out += ' ';
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      if (std::string_view("\\`*_[]|#~$").find(c) != std::string_view::npos) out += '\\';
      out += c;
    }
  }
  return out;
}

std::string MarkdownReport(const Json& island) {
  Document out;
  out.Heading(1, Words(island, "question"));
  out.Paragraph(fmt::format("*{}*{}", Words(island, "title"),
                            BoolOf(island, "synthetic") ? " — **synthetic sample data**" : ""));
  out.Paragraph(Words(island, "answer"));
  WriteVerdict(island, &out);
  WritePlans(island, &out);
  WriteTimeline(island, &out);
  WriteMemory(island, &out);
  WriteSweep(island, &out);
  WriteSensitivities(island, &out);
  WriteValidation(island, &out);
  WriteNotes(island, &out);

  out.Heading(2, "Provenance");
  out.Paragraph(Words(island, "hardware"));
  out.Paragraph(Code(TextOf(island, "command")));
  std::vector<std::vector<std::string>> facts;
  for (const Json& fact : ArrayOf(island, "facts").items()) {
    facts.push_back({EscapeForMarkdown(NameAt(fact, 0)), EscapeForMarkdown(NameAt(fact, 1))});
  }
  out.Table({"What", "Which"}, facts);
  out.Paragraph(fmt::format("{}, run {}, {}", Words(island, "tool_version"),
                            Words(island, "run_id"), Words(island, "generated_at")));
  return out.Take();
}

}  // namespace aurum
