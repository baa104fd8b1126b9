#include "calibrate/fit_profile.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "calibrate/fit_attention.h"
#include "calibrate/fit_collective.h"
#include "calibrate/fit_gemm.h"
#include "calibrate/least_squares.h"
#include "sim/core/hash.h"
#include "sim/core/units.h"
#include "sim/cost/exact.h"
#include "sim/cost/kernel_io.h"

// From samples to a profile
// =========================
//
// A row is its median: a sample that was preempted and not noticed moves it by a rank, not by its
// length. Then, part by part:
//
//   products     every candidate form of fit_gemm.cc on all shapes and layouts of a type, chosen by
//                five-fold cross-validation. How a backward product's layout fares is a factor a
//                role: the median of measured over modelled, over the forward's. It is kept if it
//                lowers the hold-out error by a tenth of itself and 0.2 points.
//   attention    the forward model of fit_attention.cc; backward is 2.5 times the FLOPs at a rate
//                whose factor is the median of measured over modelled.
//   memory       t0 + bytes/bandwidth by relative error, five folds too.
//   collectives  fit_collective.cc's envelopes, one a kind and group size.
//   sustained    the burn: the last product over the first.
//   exact        kernels of the plans that the profile is made for, as they are. No model follows a
//                library that chooses badly for one shape; a lookup does. They carry their spread.
//
// The error band. Errors inside of a part may all have one sign, and which part a step consists of is
// not known here. If E is the largest hold-out error of the parts that steps consist of (training
// sizes where told; products, attention, memory-bound kernels, the mean over collectives), a step
// errs by E at most on average, whatever the shares. A mean absolute error E of a normal error is a
// standard deviation of E·√(π/2), and 90 % lie within 1.645 of them: band = 2.06·E.
//
// What a base adds is named in the source of every part; the profile's own provenance is the weakest
// of its parts'.

namespace aurum {
namespace {

constexpr double kBandOfError = 1.645 * 1.2533141373155001;  // √(π/2)
constexpr std::size_t kFolds = 5;
constexpr double kLeastRoleEffect = 0.005;  // below, no hold-out error tells the difference
constexpr std::size_t kLeastProducts = 10;
constexpr std::size_t kLeastMemorySizes = 4;

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

std::string Number(double value) { return Json(value).Dump(); }

// Three digits, for people.
std::string Short(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.12g", RoundSignificant(value, 3));
  return text;
}

std::string Range(const char* what, const SizeRange& range) {
  return std::string(what) + " " + Short(range.low) + "…" + Short(range.high);
}

class Fitter {
 public:
  Fitter(const Measurements& measurements, const FitProfileOptions& options)
      : in_(measurements),
        base_(options.base),
        cpu_(measurements.device.facts.compute_capability <= 0 &&
             measurements.device.backend != "import") {
    fit_.profile.name = options.name;
  }

  ProfileFit Run() {
    CheckSamples();
    Facts();
    Memory();
    Products();
    Attention();
    Decode();
    Sustained();
    Launches();
    Collectives();
    Exact();
    Overlaps();
    Conclude();
    return std::move(fit_);
  }

 private:
  Profile& out() { return fit_.profile; }

  void Remark(std::string text) { fit_.remarks.push_back(std::move(text)); }

  void CheckSamples() const {
    std::int64_t clean = 0, disturbed = 0;
    for (const MeasuredRow& row : in_.rows) {
      clean += static_cast<std::int64_t>(row.samples.seconds.size());
      disturbed += row.samples.disturbed;
    }
    if (disturbed > clean && disturbed > 0) {
      ThrowInput(834,
                 "of " + std::to_string(clean + disturbed) + " samples " +
                     std::to_string(disturbed) + " were disturbed by something else on the machine",
                 "end what else runs on it and measure again");
    }
  }

  // Where rows of a part are from.
  std::string Source(const std::vector<const MeasuredRow*>& rows) const {
    std::set<std::string> files;
    bool here = false;
    for (const MeasuredRow* row : rows) {
      if (row->source.empty()) here = true;
      if (!row->source.empty()) files.insert(row->source);
    }
    std::string text;
    if (here) {
      text = "measured on " + in_.device.facts.name + " (" + in_.device.backend;
      for (const auto& [what, version] : in_.device.versions) text += ", " + what + " " + version;
      text += ")";
    }
    for (const std::string& file : files) text += (text.empty() ? "" : ", ") + file;
    return text;
  }

  std::vector<const MeasuredRow*> Rows(KernelKind kind) const {
    std::vector<const MeasuredRow*> rows;
    for (const MeasuredRow& row : in_.rows) {
      if (row.item.kind == MeasuredKind::kKernel && row.item.kernel.kind == kind)
        rows.push_back(&row);
    }
    return rows;
  }

  std::string FromBase(const std::string& source) const {
    return "profile " + base_->name + ": " + source;
  }
  void BasePart(const std::string& what, const FitQuality& quality) {
    fit_.parts.push_back({what, "from " + base_->name, quality.points, quality.holdout_mape,
                          quality.training_size_mape, "", quality.source});
  }

  // The machine's own where it tells them, the base's otherwise.
  void Facts() {
    DeviceFacts& facts = out().device;
    facts = in_.device.facts;
    if (base_ != nullptr) {
      const DeviceFacts& known = base_->device;
      bool lent = false;
      const auto lend = [&](auto* mine, const auto& theirs) {
        if (*mine > 0) return;
        *mine = theirs;
        lent = true;
      };
      lend(&facts.memory_bytes, known.memory_bytes);
      lend(&facts.memory_bandwidth_bytes_per_s, known.memory_bandwidth_bytes_per_s);
      lend(&facts.sm_count, known.sm_count);
      if (!cpu_) {
        lend(&facts.peak_bf16_flops, known.peak_bf16_flops);
        lend(&facts.peak_fp8_flops, known.peak_fp8_flops);
        lend(&facts.compute_capability, known.compute_capability);
      }
      if (facts.name.empty()) facts.name = known.name;
      if (lent || facts.source.empty()) {
        facts.source += (facts.source.empty() ? "" : "; ") + FromBase(known.source);
      }
    }
    if (facts.sm_count == 0) facts.sm_count = 1;
  }

  GemmFitOptions GemmOptions(DType dtype) const {
    GemmFitOptions options;
    options.input_bytes = BytesOf(dtype);
    options.output_bytes = GemmOutputBytes(dtype);
    options.polish = true;
    if (cpu_) {
      options.least_size = 8;
      options.training_low = 0;
      options.training_high = std::numeric_limits<double>::infinity();
      options.tiles = false;
    }
    return options;
  }

  void Products() {
    std::map<DType, std::vector<const MeasuredRow*>> by_type;
    for (const MeasuredRow* row : Rows(KernelKind::kGemm)) {
      if (!row->item.kernel.grouped) by_type[row->item.kernel.dtype].push_back(row);
    }
    for (const auto& [dtype, rows] : by_type) {
      GemmFitOptions options = GemmOptions(dtype);
      std::vector<GemmRow> shapes;
      std::vector<GemmRole> roles;
      const auto take = [&] {
        shapes.clear();
        roles.clear();
        for (const MeasuredRow* row : rows) {
          const Kernel& k = row->item.kernel;
          const GemmRow shape{k.m, k.n, k.k, TypicalSeconds(*row)};
          if (!IsFitSize(shape, options)) continue;
          shapes.push_back(shape);
          roles.push_back(k.role);
        }
      };
      take();
      if (shapes.size() < kLeastProducts) {
        options.least_size = 16;
        take();
      }
      if (shapes.size() < kLeastProducts) {
        Remark("products in " + DTypeName(dtype) + ": " + std::to_string(shapes.size()) +
               " shapes are too few for a model (" + std::to_string(kLeastProducts) + ")");
        continue;
      }
      GemmModel model = ChooseGemm(shapes, out().device.sm_count, Source(rows), options);
      TryRoles(shapes, roles, options, Source(rows), &model);
      model.quality.provenance = Provenance::kCalibrated;
      fit_.parts.push_back(
          {"gemm " + DTypeName(dtype), model.quality.method, model.quality.points,
           model.quality.holdout_mape, model.quality.training_size_mape,
           Range("m", model.m) + ", " + Range("n", model.n) + ", " + Range("k", model.k),
           model.quality.source});
      out().gemm[dtype] = std::move(model);
    }
    if (base_ != nullptr) {
      for (const auto& [dtype, model] : base_->gemm) {
        if (out().Supports(dtype)) continue;
        GemmModel lent = model;
        lent.quality.source = FromBase(model.quality.source);
        BasePart("gemm " + DTypeName(dtype), lent.quality);
        out().gemm[dtype] = std::move(lent);
      }
      out().unaligned_factor = by_type.empty() ? base_->unaligned_factor : 1;
      out().alignment = base_->alignment;
      out().unaligned_source = FromBase(base_->unaligned_source);
    }
    if (out().gemm.empty()) {
      ThrowInput(833,
                 "nothing here says how long matrix products take: fewer than " +
                     std::to_string(kLeastProducts) + " shapes of any type were measured",
                 "--base PROFILE names the profile that has the rest, or measure more shapes");
    }
    if (out().device.peak_bf16_flops <= 0) PeakOfMeasured();
  }

  // Of a device without a datasheet's peak: the fastest product's rate, so that utilisation is one of
  // what the device was seen to do.
  void PeakOfMeasured() {
    double peak = 0;
    for (const MeasuredRow* row : Rows(KernelKind::kGemm)) {
      peak = std::max(peak, KernelFlops(row->item.kernel) / TypicalSeconds(*row));
    }
    for (const auto& [dtype, model] : out().gemm) {
      if (peak == 0) peak = model.rate_flops;
    }
    out().device.peak_bf16_flops = RoundSignificant(peak);
    out().device.source += (out().device.source.empty() ? "" : "; ") +
                           std::string("peak rate: the fastest product that was measured");
  }

  void TryRoles(const std::vector<GemmRow>& shapes, const std::vector<GemmRole>& roles,
                const GemmFitOptions& options, const std::string& source, GemmModel* model) {
    std::map<GemmRole, std::vector<double>> ratios;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const GemmRow& s = shapes[i];
      ratios[roles[i]].push_back(s.seconds / GemmBurstSeconds(*model, out().device.sm_count,
                                                              options.input_bytes,
                                                              options.output_bytes, s.m, s.n, s.k));
    }
    if (ratios.size() < 3) return;
    std::map<GemmRole, double> factor;
    for (const auto& [role, of_role] : ratios) {
      if (of_role.size() < kLeastProducts) return;
      factor[role] = Median(of_role);
    }
    const double forward = factor[GemmRole::kForward];
    double most = 0;
    for (auto& [role, value] : factor) {
      value = RoundSignificant(value / forward);
      most = std::max(most, std::abs(value - 1));
    }
    if (most < kLeastRoleEffect) return;
    std::vector<GemmRow> alike = shapes;
    for (std::size_t i = 0; i < alike.size(); ++i) alike[i].seconds /= factor[roles[i]];
    GemmModel with = ChooseGemm(alike, out().device.sm_count, source, options);
    const auto error = [](const GemmModel& m) {
      return std::isnan(m.quality.training_size_mape) ? m.quality.holdout_mape
                                                      : m.quality.training_size_mape;
    };
    if (error(with) > 0.9 * error(*model) || error(with) > error(*model) - 0.002) return;
    with.input_gradient_factor = factor[GemmRole::kInputGradient];
    with.weight_gradient_factor = factor[GemmRole::kWeightGradient];
    *model = std::move(with);
  }

  static AttentionRow RowOf(const MeasuredRow& row) {
    const Kernel& k = row.item.kernel;
    AttentionRow out;
    out.batch = k.sequences;
    out.heads = k.heads;
    out.kv_heads = k.kv_heads;
    out.head_dim = k.head_dim;
    out.causal = k.causal;
    out.seconds = TypicalSeconds(row);
    if (k.kind == KernelKind::kDecodeAttention) {
      out.seq_len = 1;
      out.past_len = k.kv_len - 1;
    } else {
      out.seq_len = k.q_len;
    }
    return out;
  }

  void Attention() {
    AttentionFitOptions options;
    options.cache_write = false;
    if (cpu_) {
      options.least_length = 1;
      options.least_calls = 1;
      options.least_head_dim = 1;
      options.training_length = 0;
      options.training_calls = 0;
    }
    std::vector<const MeasuredRow*> forward, backward;
    std::vector<AttentionRow> rows;
    std::map<int, int> count;
    for (const MeasuredRow* row : Rows(KernelKind::kAttentionForward)) {
      if (row->item.kernel.q_len != row->item.kernel.kv_len) continue;  // cross-attention
      forward.push_back(row);
      rows.push_back(RowOf(*row));
      if (IsForwardFitSize(rows.back(), options)) ++count[rows.back().head_dim];
    }
    for (const MeasuredRow* row : Rows(KernelKind::kAttentionBackward)) {
      if (row->item.kernel.q_len == row->item.kernel.kv_len) backward.push_back(row);
    }
    const bool enough = std::any_of(count.begin(), count.end(), [&](const auto& of_dim) {
      return of_dim.second >= options.least_rows;
    });
    AttentionModel& model = out().attention;
    if (!enough) {
      if (!forward.empty()) {
        Remark("attention: no head dimension has " + std::to_string(options.least_rows) +
               " shapes, too few for a model");
      }
      if (base_ != nullptr && !base_->attention.per_head_dim.empty()) {
        model = base_->attention;
        model.quality.source = FromBase(model.quality.source);
        BasePart("attention", model.quality);
      } else {
        Remark("attention: not measured, and the profile does not have it");
      }
      return;
    }
    model = FitAttention(rows, out().device.sm_count, Source(forward), options);
    fit_.parts.push_back({"attention forward", model.quality.method, model.quality.points,
                          model.quality.holdout_mape, model.quality.training_size_mape,
                          Range("tokens", model.length) + ", " + Range("calls", model.calls),
                          model.quality.source});
    Backward(backward);
  }

  void Backward(const std::vector<const MeasuredRow*>& rows) {
    AttentionModel& model = out().attention;
    constexpr std::size_t kLeast = 5;
    if (rows.size() < kLeast) {
      if (base_ != nullptr && !base_->attention.per_head_dim.empty()) {
        model.backward_flops_ratio = base_->attention.backward_flops_ratio;
        model.backward_time_factor = base_->attention.backward_time_factor;
        model.quality.source += "; backward: " + FromBase("its factor");
      } else {
        model.quality.source += "; backward assumed: 2.5 times the FLOPs at 1/1.1 of the rate";
        Remark("attention backward: not measured; 2.5 × 1.1 times the forward is assumed");
      }
      return;
    }
    std::vector<double> ratios;
    std::vector<std::size_t> folds;
    for (const MeasuredRow* row : rows) {
      const AttentionRow r = RowOf(*row);
      const double forward =
          AttentionBurstSeconds(model, out().device.sm_count, r.batch, r.heads, r.kv_heads,
                                r.seq_len, r.seq_len, r.head_dim, r.causal);
      ratios.push_back(r.seconds / (model.backward_flops_ratio * forward));
      folds.push_back(FoldOf(row->item.kernel));
    }
    double error = 0;
    int held = 0;
    for (std::size_t fold = 0; fold < kFolds; ++fold) {
      std::vector<double> kept;
      for (std::size_t i = 0; i < ratios.size(); ++i) {
        if (folds[i] != fold) kept.push_back(ratios[i]);
      }
      if (kept.empty()) continue;
      const double factor = Median(kept);
      for (std::size_t i = 0; i < ratios.size(); ++i) {
        if (folds[i] != fold) continue;
        error += std::abs(factor / ratios[i] - 1);
        ++held;
      }
    }
    model.backward_time_factor = RoundSignificant(Median(ratios));
    const double mape = RoundSignificant(error / std::max(held, 1), 4);
    model.quality.source +=
        "; backward: " + std::to_string(ratios.size()) + " shapes, hold-out error " + Number(mape);
    fit_.parts.push_back(
        {"attention backward",
         "forward × " + Short(model.backward_flops_ratio * model.backward_time_factor),
         static_cast<int>(ratios.size()), mape, kUnknownError, "", Source(rows)});
    backward_error_ = mape;
  }

  static std::size_t FoldOf(const Kernel& kernel) {
    return HashText(aurum::Describe(kernel)).low % kFolds;
  }

  void Decode() {
    std::vector<const MeasuredRow*> rows = Rows(KernelKind::kDecodeAttention);
    if (rows.size() < 2 * kFolds) {
      if (base_ == nullptr || base_->decode.bandwidth_bytes_per_s <= 0) return;
      out().decode = base_->decode;
      out().decode.quality.source = FromBase(out().decode.quality.source);
      BasePart("decode", out().decode.quality);
      return;
    }
    std::vector<AttentionRow> fitted;
    fitted.reserve(rows.size());
    for (const MeasuredRow* row : rows) fitted.push_back(RowOf(*row));
    DecodeModel& model = out().decode;
    model = FitDecode(fitted, Source(rows));
    fit_.parts.push_back({"decode", model.quality.method, model.quality.points,
                          model.quality.holdout_mape, kUnknownError,
                          Range("tokens", model.length) + ", " + Range("calls", model.calls),
                          model.quality.source});
  }

  struct Line {
    double t0 = 0, seconds_per_byte = 0;
  };
  static Line FitMemory(const std::vector<const MeasuredRow*>& rows) {
    DesignMatrix design(2);
    std::vector<double> measured;
    for (const MeasuredRow* row : rows) {
      double* line = design.AddRow();
      line[0] = 1;
      line[1] = row->item.kernel.bytes;
      measured.push_back(TypicalSeconds(*row));
    }
    const std::vector<double> x = FitRelative(design, measured);
    return {x[0], x[1]};
  }

  void Memory() {
    std::vector<const MeasuredRow*> rows = Rows(KernelKind::kMemory);
    std::erase_if(rows, [](const MeasuredRow* row) { return row->item.kernel.bytes <= 0; });
    std::set<double> sizes;
    for (const MeasuredRow* row : rows) sizes.insert(row->item.kernel.bytes);
    if (sizes.size() < kLeastMemorySizes) {
      if (base_ == nullptr) {
        ThrowInput(833,
                   "nothing here says how fast memory is: memory-bound kernels of " +
                       std::to_string(sizes.size()) + " sizes, and " +
                       std::to_string(kLeastMemorySizes) + " are needed",
                   "--base PROFILE names the profile that has the rest, or measure more sizes");
      }
      out().memory_bound_t0_s = base_->memory_bound_t0_s;
      out().memory_bound_efficiency = base_->memory_bound_efficiency;
      out().memory_bound_source = FromBase(base_->memory_bound_source);
      fit_.parts.push_back({"memory-bound", "from " + base_->name, 0, kUnknownError, kUnknownError,
                            "", out().memory_bound_source});
      return;
    }
    double error = 0;
    int held = 0;
    SizeRange range;
    std::map<double, std::size_t> fold_of;
    for (const double bytes : sizes) {
      const std::size_t fold = fold_of.size() % kFolds;
      fold_of[bytes] = fold;
      range.Add(bytes);
    }
    for (std::size_t fold = 0; fold < kFolds; ++fold) {
      std::vector<const MeasuredRow*> kept;
      for (const MeasuredRow* row : rows) {
        if (fold_of[row->item.kernel.bytes] != fold) kept.push_back(row);
      }
      if (kept.size() < 2 || kept.size() == rows.size()) continue;
      const Line line = FitMemory(kept);
      for (const MeasuredRow* row : rows) {
        const double bytes = row->item.kernel.bytes;
        if (fold_of[bytes] != fold) continue;
        error += std::abs((line.t0 + bytes * line.seconds_per_byte) / TypicalSeconds(*row) - 1);
        ++held;
      }
    }
    const Line line = FitMemory(rows);
    if (line.seconds_per_byte <= 0) {
      ThrowInput(825, "memory-bound kernels take no longer for more bytes", "measure larger ones");
    }
    const double bandwidth = RoundSignificant(1 / line.seconds_per_byte);
    DeviceFacts& facts = out().device;
    if (facts.memory_bandwidth_bytes_per_s < bandwidth) {
      facts.source += (facts.source.empty() ? "" : "; ") +
                      std::string("memory bandwidth: as measured with memory-bound kernels");
      facts.memory_bandwidth_bytes_per_s = bandwidth;
    }
    memory_error_ = RoundSignificant(error / std::max(held, 1), 4);
    out().memory_bound_t0_s = RoundSignificant(line.t0);
    out().memory_bound_efficiency =
        RoundSignificant(bandwidth / facts.memory_bandwidth_bytes_per_s);
    out().memory_bound_source = std::to_string(rows.size()) + " calls of " + Short(range.low) +
                                "…" + Short(range.high) + " bytes, hold-out error " +
                                Number(memory_error_) + "; " + Source(rows);
    fit_.parts.push_back({"memory-bound", "t0 + bytes/bandwidth", static_cast<int>(rows.size()),
                          memory_error_, kUnknownError, Range("bytes", range), Source(rows)});
  }

  void Sustained() {
    std::vector<double> wide, narrow;
    std::vector<const MeasuredRow*> rows;
    for (const MeasuredRow& row : in_.rows) {
      if (row.item.kind != MeasuredKind::kBurn) continue;
      rows.push_back(&row);
      (IsNarrow(row.item.kernel.dtype) ? narrow : wide)
          .push_back(row.burn.last_s / row.burn.first_s);
    }
    if (base_ != nullptr) {
      out().power_limit_w = base_->power_limit_w;
      out().idle_power_w = base_->idle_power_w;
      out().power_source = base_->power_source;
    }
    const double limit = in_.device.power_limit_w;
    if (limit > 0 && limit != out().power_limit_w) {
      out().power_limit_w = limit;
      if (out().idle_power_w <= 0 || out().idle_power_w >= limit) {
        out().idle_power_w = RoundSignificant(limit / 10);
      }
      out().power_source = "limit: as the device reports it; idle: assumed to be a tenth of it";
    }
    if (wide.empty()) {
      if (base_ == nullptr) {
        out().sustained_source = "not measured: no burn; bursts are taken to last";
        Remark("sustained clock: not measured; 1 is assumed");
        return;
      }
      out().sustained_factor = base_->sustained_factor;
      out().sustained_fp8_factor = base_->sustained_fp8_factor;
      out().sustained_source = FromBase(base_->sustained_source);
      return;
    }
    // A clock that rises is a device that was asleep: a step runs at the clock of the end then, but
    // bursts were measured warmed up.
    out().sustained_factor = std::max(RoundSignificant(Median(wide)), 1.0);
    out().sustained_fp8_factor =
        narrow.empty() ? out().sustained_factor : std::max(RoundSignificant(Median(narrow)), 1.0);
    out().sustained_source = "burn of " + Short(rows.front()->item.burn_s) +
                             " s: the last products over the first; " + Source(rows);
    fit_.parts.push_back({"sustained", "× " + Short(out().sustained_factor),
                          static_cast<int>(rows.size()), kUnknownError, kUnknownError, "",
                          Source(rows)});
  }

  void Launches() {
    std::vector<const MeasuredRow*> stream, graph;
    std::vector<double> gaps, graph_gaps;
    for (const MeasuredRow& row : in_.rows) {
      if (row.item.kind != MeasuredKind::kLaunchGap) continue;
      (row.item.graph ? graph : stream).push_back(&row);
      (row.item.graph ? graph_gaps : gaps).push_back(TypicalSeconds(row));
    }
    if (gaps.empty()) {
      out().launch_gap_s = base_ == nullptr ? 0 : base_->launch_gap_s;
      out().launch_gap_source = base_ == nullptr ? "not measured: every kernel's t0 has it inside"
                                                 : FromBase(base_->launch_gap_source);
      return;
    }
    out().launch_gap_s = RoundSignificant(Median(gaps));
    out().launch_gap_source = "between empty kernels of a stream; " + Source(stream);
    if (!graph_gaps.empty()) {
      out().launch_gap_source +=
          "; of a captured graph: " + Number(RoundSignificant(Median(graph_gaps))) + " s";
    }
    fit_.parts.push_back({"launch gap", Short(out().launch_gap_s * 1e6) + " µs",
                          static_cast<int>(gaps.size() + graph_gaps.size()), kUnknownError,
                          kUnknownError, "", Source(stream)});
  }

  void Collectives() {
    std::map<std::pair<CollectiveKind, int>, std::vector<const MeasuredRow*>> by_key;
    for (const MeasuredRow& row : in_.rows) {
      if (row.item.kind != MeasuredKind::kCollective) continue;
      by_key[{row.item.collective, row.item.gpus}].push_back(&row);
    }
    double sum = 0;
    int fitted = 0;
    for (const auto& [key, rows] : by_key) {
      // One time a size: what was measured twice is its median.
      std::map<double, std::vector<double>> by_size;
      for (const MeasuredRow* row : rows) by_size[row->item.bytes].push_back(TypicalSeconds(*row));
      std::vector<CollectiveRow> curve;
      for (const auto& [bytes, seconds] : by_size) {
        curve.push_back({key.first, key.second, bytes, Median(seconds)});
      }
      const std::string what = CollectiveName(key.first) + " on " + std::to_string(key.second);
      const auto envelopes = FitCollectives(curve, Source(rows));
      if (envelopes.empty()) {
        Remark(what + ": " + std::to_string(curve.size()) + " sizes are too few for a curve");
        continue;
      }
      const CollectiveEnvelope& envelope = envelopes.begin()->second;
      sum += envelope.quality.holdout_mape;
      ++fitted;
      fit_.parts.push_back({what, std::to_string(envelope.lines.size()) + " lines",
                            envelope.quality.points, envelope.quality.holdout_mape, kUnknownError,
                            Range("bytes", envelope.bytes), envelope.quality.source});
      out().collectives[key] = envelope;
      out().collectives[key].own_links = true;
    }
    if (fitted > 0) collective_error_ = sum / fitted;
    if (base_ == nullptr) return;
    int lent = 0;
    for (const auto& [key, envelope] : base_->collectives) {
      if (out().collectives.contains(key)) continue;
      CollectiveEnvelope copy = envelope;
      copy.quality.source = FromBase(envelope.quality.source);
      out().collectives[key] = std::move(copy);
      ++lent;
    }
    if (lent > 0) {
      fit_.parts.push_back({std::to_string(lent) + " other collectives", "from " + base_->name, 0,
                            kUnknownError, kUnknownError, "", "profile " + base_->name});
    }
  }

  void Exact() {
    std::map<std::string, std::vector<const MeasuredRow*>> by_kernel;
    std::vector<const MeasuredRow*> all;
    for (const MeasuredRow& row : in_.rows) {
      if (row.item.kind != MeasuredKind::kKernel || !row.item.exact) continue;
      by_kernel[WriteKernel(ExactKey(row.item.kernel)).Dump()].push_back(&row);
      all.push_back(&row);
    }
    if (all.empty()) return;
    std::vector<ExactKernels::Entry> entries;
    double spread = 0;
    for (const auto& [name, rows] : by_kernel) {
      MeasuredRow joined = *rows.front();
      for (std::size_t i = 1; i < rows.size(); ++i) {
        joined.samples.seconds.insert(joined.samples.seconds.end(),
                                      rows[i]->samples.seconds.begin(),
                                      rows[i]->samples.seconds.end());
      }
      ExactKernels::Entry entry;
      entry.kernel = ExactKey(joined.item.kernel);
      entry.seconds = RoundSignificant(TypicalSeconds(joined), 7);
      entry.spread = RoundSignificant(SpreadOf(joined), 3);
      entry.samples = static_cast<int>(joined.samples.seconds.size());
      spread += entry.spread;
      entries.push_back(entry);
    }
    const int count = static_cast<int>(entries.size());
    out().exact = std::make_shared<const ExactKernels>(std::move(entries), Provenance::kMeasured,
                                                       Source(all));
    fit_.parts.push_back({"exact kernels", "looked up", count, kUnknownError, kUnknownError,
                          "spread " + Short(100 * spread / count) + " %", Source(all)});
  }

  void Overlaps() {
    for (std::size_t i = 1; i < in_.rows.size(); ++i) {
      const MeasuredRow& row = in_.rows[i];
      if (row.item.kind != MeasuredKind::kBeside) continue;
      // The same kernel alone: the nearest before.
      for (std::size_t j = i; j-- > 0;) {
        const MeasuredRow& alone = in_.rows[j];
        if (alone.item.kind != MeasuredKind::kKernel || alone.item.kernel != row.item.kernel)
          continue;
        fit_.overlaps.push_back({row.item.kernel, row.item.collective, row.item.bytes,
                                 TypicalSeconds(row) / TypicalSeconds(alone)});
        break;
      }
    }
  }

  void Conclude() {
    Profile& p = out();
    // The largest error of the parts, and whose.
    double worst = 0;
    std::string whose;
    const auto consider = [&](const std::string& what, double error) {
      if (std::isnan(error) || error <= worst) return;
      worst = error;
      whose = what;
    };
    const auto of = [](const FitQuality& q) {
      return std::isnan(q.training_size_mape) ? q.holdout_mape : q.training_size_mape;
    };
    p.provenance = Provenance::kCalibrated;
    for (const auto& [dtype, model] : p.gemm) {
      p.provenance = Weakest(p.provenance, model.quality.provenance);
      consider("gemm " + DTypeName(dtype), of(model.quality));
    }
    if (!p.attention.per_head_dim.empty()) {
      p.provenance = Weakest(p.provenance, p.attention.quality.provenance);
      consider("attention", of(p.attention.quality));
      consider("attention backward", backward_error_);
    }
    consider("memory-bound kernels", memory_error_);
    consider("collectives", collective_error_);
    double band = kBandOfError * worst;
    std::string inherited;
    if (base_ != nullptr && base_->error_band > band) {
      band = base_->error_band;
      inherited = "profile " + base_->name + ", whose parts are in it: " + base_->error_band_source;
    }
    p.error_band = std::min(RoundSignificant(band, 3), 1.0);
    p.error_band_source =
        !inherited.empty() ? inherited
        : whose.empty()    ? "no part was held out"
                        : "2.06 × the largest hold-out error of the parts that steps consist of (" +
                              whose + ", " + Number(RoundSignificant(worst, 3)) +
                              "): 90 % of a normal error of that mean, whatever the parts' shares";
    p.description = std::to_string(in_.rows.size()) + " measurements";
    if (in_.device.backend != "import") {
      p.description += " of " + p.device.name + ", backend " + in_.device.backend + ", seed " +
                       std::to_string(in_.seed);
    }
    if (base_ != nullptr) p.description += "; the rest is profile " + base_->name + "'s";
    std::map<std::string, int> reasons;
    for (const Measurements::LeftOut& left : in_.left_out) ++reasons[left.reason];
    for (const auto& [reason, count] : reasons) {
      Remark(std::to_string(count) + " of the planned measurements left out: " + reason);
    }
    // What a plan runs and nobody measured is priced by models: worth its name.
    constexpr int kNamed = 8;
    int missing = 0;
    for (const Measurements::LeftOut& left : in_.left_out) {
      if (!left.item.exact) continue;
      if (++missing <= kNamed)
        Remark("of the plan itself, not measured (" + left.reason + "): " + Describe(left.item));
    }
    if (missing > kNamed)
      Remark("and " + std::to_string(missing - kNamed) + " more of the plan itself");
  }

  const Measurements& in_;
  const Profile* base_;
  const bool cpu_;
  ProfileFit fit_;
  double memory_error_ = kUnknownError, collective_error_ = kUnknownError,
         backward_error_ = kUnknownError;
};

}  // namespace

ProfileFit FitProfileWithReport(const Measurements& measurements,
                                const FitProfileOptions& options) {
  return Fitter(measurements, options).Run();
}

Profile FitProfile(const Measurements& measurements, const std::string& name) {
  FitProfileOptions options;
  options.name = name;
  return FitProfileWithReport(measurements, options).profile;
}

}  // namespace aurum
