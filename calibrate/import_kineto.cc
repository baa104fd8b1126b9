#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "calibrate/import.h"
#include "sim/core/diagnostic.h"
#include "sim/core/text_file.h"

// Traces of PyTorch's profiler (Kineto), in Chrome's event format.
//
// A trace of a training step has millions of events and up to gigabytes of text, so it is never in
// memory: a SAX parser hands over one value at a time, an event is put together while it is open, and
// what is kept of it is a duration and a shape.
//
// Three kinds of events matter:
//
//   kernel    "dur" in µs; args "External id", the operator that launched it. NCCL's have "Collective
//             name", "In msg nelems", "dtype", "Group size".
//   cpu_op    name "aten::mm", …; args "External id", and with record_shapes "Input Dims", "Input
//             type", "Concrete Inputs".
//   runtime   cudaLaunchKernel: args "correlation" and "External id", for kernels without one.
//
// A NCCL kernel runs from the moment that its own rank has come, so its time holds the wait for the
// last rank; the last rank's does not. So call number i of a communicator is matched over all traces
// and the least is taken. Of one trace alone the least over equal calls stands.

namespace aurum {
namespace {

struct Event {
  std::string phase, category, name;
  double duration_us = -1, start_us = 0;
  std::int64_t external = -1, correlation = -1;
  std::string collective, dtype, group;
  double elements = 0, group_size = 0;
  std::vector<std::vector<double>> dims;
  std::vector<std::string> types, concrete;
};

// Puts events together and hands them over one by one.
template <typename OnEvent>
class TraceReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit TraceReader(OnEvent on_event) : on_event_(std::move(on_event)) {}
  std::size_t error_at() const { return error_at_; }

  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t value) override {
    return Number(static_cast<double>(value), value);
  }
  bool number_unsigned(number_unsigned_t value) override {
    return Number(static_cast<double>(value), static_cast<std::int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t& /*text*/) override {
    return Number(value, static_cast<std::int64_t>(std::clamp(value, -9e18, 9e18)));
  }
  bool string(string_t& value) override {
    if (InEvent()) {
      if (key_ == "ph") event_.phase = value;
      if (key_ == "cat") event_.category = value;
      if (key_ == "name") event_.name = value;
    } else if (InArguments()) {
      const std::string& key = key_;
      if (key == "Collective name") event_.collective = value;
      if (key == "dtype") event_.dtype = value;
      if (key == "Process Group Name") event_.group = value;
      if (key == "Group size") event_.group_size = std::atof(value.c_str());
      if (key == "In msg nelems") event_.elements = std::atof(value.c_str());
    } else if (depth_ == event_depth_ + 2 && list_ == "Input type") {
      event_.types.push_back(value);
    } else if (depth_ == event_depth_ + 2 && list_ == "Concrete Inputs") {
      event_.concrete.push_back(value);
    }
    return true;
  }
  bool binary(binary_t& /*value*/) override { return true; }
  bool key(string_t& value) override {
    key_ = value;
    return true;
  }
  bool start_object(std::size_t /*elements*/) override {
    ++depth_;
    if (depth_ == 1) event_depth_ = 3;  // {"traceEvents": [{…
    if (depth_ == event_depth_ && in_events_) event_ = {};
    if (depth_ == event_depth_ + 1) in_arguments_ = in_events_ && key_ == "args";
    return true;
  }
  bool end_object() override {
    if (depth_ == event_depth_ && in_events_) on_event_(event_);
    if (depth_ == event_depth_ + 1) in_arguments_ = false;
    --depth_;
    return true;
  }
  bool start_array(std::size_t /*elements*/) override {
    ++depth_;
    if (depth_ == 1) {
      event_depth_ = 2;  // [{…, as old traces are
      in_events_ = true;
    } else if (depth_ == 2 && event_depth_ == 3) {
      in_events_ = key_ == "traceEvents";
    } else if (in_arguments_ && depth_ == event_depth_ + 2) {
      list_ = key_;
    } else if (in_arguments_ && depth_ == event_depth_ + 3 && list_ == "Input Dims") {
      event_.dims.emplace_back();
    }
    return true;
  }
  bool end_array() override {
    if (depth_ == 2 && event_depth_ == 3) in_events_ = false;
    if (depth_ == event_depth_ + 2) list_.clear();
    --depth_;
    return true;
  }
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    error_at_ = std::max<std::size_t>(position, 1);
    return false;
  }

 private:
  bool InEvent() const { return in_events_ && depth_ == event_depth_; }
  bool InArguments() const { return in_arguments_ && depth_ == event_depth_ + 1; }

  bool Number(double value, std::int64_t whole) {
    if (InEvent()) {
      if (key_ == "dur") event_.duration_us = value;
      if (key_ == "ts") event_.start_us = value;
    } else if (InArguments()) {
      if (key_ == "External id") event_.external = whole;
      if (key_ == "correlation") event_.correlation = whole;
      if (key_ == "In msg nelems") event_.elements = value;
      if (key_ == "Group size") event_.group_size = value;
    } else if (in_arguments_ && depth_ == event_depth_ + 3 && list_ == "Input Dims" &&
               !event_.dims.empty()) {
      event_.dims.back().push_back(value);
    } else if (in_arguments_ && depth_ == event_depth_ + 2 && list_ == "Input Dims") {
      event_.dims.push_back({value});
    }
    return true;
  }

  OnEvent on_event_;
  int depth_ = 0, event_depth_ = 3;
  bool in_events_ = false, in_arguments_ = false;
  std::string key_, list_;
  Event event_;
  std::size_t error_at_ = 0;
};

// By the names of c10d's NCCL backend.
std::optional<CollectiveKind> KindOfName(const std::string& name) {
  const std::string n = LowerName(name);
  const auto has = [&](const char* part) { return n.find(part) != std::string::npos; };
  if (has("reduce_scatter") || has("reducescatter")) return CollectiveKind::kReduceScatter;
  if (has("allreduce") || has("all_reduce")) return CollectiveKind::kAllReduce;
  if (has("allgather") || has("all_gather")) return CollectiveKind::kAllGather;
  if (has("all_to_all") || has("alltoall")) return CollectiveKind::kAllToAll;
  if (has("broadcast")) return CollectiveKind::kBroadcast;
  if (n == "send" || n == "recv" || has("send_recv")) return CollectiveKind::kSendRecv;
  return std::nullopt;
}

double BytesOfType(const std::string& name) {
  const std::string n = LowerName(name);
  if (n.find("float8") != std::string::npos || n == "byte" || n == "char" || n == "bool") return 1;
  if (n == "bfloat16" || n == "half" || n == "short") return 2;
  if (n == "float" || n == "int") return 4;
  if (n == "double" || n == "long") return 8;
  return 0;
}

std::optional<DType> TypeOf(const std::string& name) {
  const std::string n = LowerName(name);
  if (n.find("float8") != std::string::npos) return DType::kFp8;
  if (n.find("bfloat16") != std::string::npos) return DType::kBf16;
  if (n.find("half") != std::string::npos) return DType::kFp16;
  if (n.find("float") != std::string::npos) return DType::kFp32;
  return std::nullopt;
}

// An operator with its shape as a kernel; nothing where it has none that is known.
std::optional<Kernel> KernelOf(const Event& op) {
  const std::string& name = op.name;
  const auto at = [&](std::size_t i) -> const std::vector<double>& {
    static const std::vector<double> none;
    return i < op.dims.size() ? op.dims[i] : none;
  };
  Kernel kernel;
  const auto product = [&](std::size_t a, std::size_t b) -> std::optional<Kernel> {
    if (at(a).size() != 2 || at(b).size() != 2 || at(a)[1] != at(b)[0]) return std::nullopt;
    const std::optional<DType> dtype = a < op.types.size() ? TypeOf(op.types[a]) : std::nullopt;
    if (!dtype) return std::nullopt;
    kernel.kind = KernelKind::kGemm;
    kernel.dtype = *dtype;
    kernel.m = at(a)[0];
    kernel.k = at(a)[1];
    kernel.n = at(b)[1];
    if (kernel.m < 1 || kernel.n < 1 || kernel.k < 1) return std::nullopt;
    return kernel;
  };
  if (name == "aten::mm" || name == "aten::_scaled_mm") return product(0, 1);
  if (name == "aten::addmm") return product(1, 2);
  struct AttentionOp {
    const char* name;
    bool backward;
    std::size_t query, causal;  // arguments
  };
  static constexpr std::array<AttentionOp, 6> kOps = {{
      {"aten::_scaled_dot_product_flash_attention", false, 0, 4},
      {"aten::_scaled_dot_product_flash_attention_backward", true, 1, 11},
      {"aten::_scaled_dot_product_efficient_attention", false, 0, 6},
      {"aten::_scaled_dot_product_efficient_attention_backward", true, 1, 11},
      {"aten::_scaled_dot_product_cudnn_attention", false, 0, 6},
      {"aten::_scaled_dot_product_cudnn_attention_backward", true, 1, 13},
  }};
  for (const AttentionOp& known : kOps) {
    if (name != known.name) continue;
    const std::vector<double>& q = at(known.query);
    const std::vector<double>& k = at(known.query + 1);
    if (q.size() != 4 || k.size() != 4 || known.causal >= op.concrete.size()) return std::nullopt;
    kernel.kind = known.backward ? KernelKind::kAttentionBackward : KernelKind::kAttentionForward;
    kernel.sequences = q[0];
    kernel.heads = q[1];
    kernel.q_len = q[2];
    kernel.head_dim = static_cast<int>(q[3]);
    kernel.kv_heads = k[1];
    kernel.kv_len = k[2];
    kernel.causal = op.concrete[known.causal] == "True";
    if (kernel.head_dim < 1 || kernel.q_len < 1 || kernel.kv_len < 1) return std::nullopt;
    return kernel;
  }
  return std::nullopt;
}

bool HasShape(const std::string& name) {
  return name == "aten::mm" || name == "aten::addmm" || name == "aten::_scaled_mm" ||
         name.starts_with("aten::_scaled_dot_product_");
}

// Of equal calls among equal ranks.
struct CallKey {
  CollectiveKind kind;
  int gpus;
  double bytes;
  std::string dtype, group;
  auto operator<=>(const CallKey&) const = default;
};

struct Trace {
  std::map<CallKey, std::vector<std::pair<double, double>>> collectives;  // start, duration; µs
  std::unordered_map<std::int64_t, Kernel> ops;                           // by external id
  std::unordered_map<std::int64_t, double> launched_us;                   // by external id
  std::unordered_map<std::int64_t, std::int64_t> external_of;             // by correlation
  std::vector<std::pair<std::int64_t, double>> orphans;  // kernels by correlation alone
  std::int64_t events = 0, shapeless = 0, nccl_without_size = 0;
};

class Collector {
 public:
  explicit Collector(Trace* trace) : trace_(trace) {}

  void operator()(const Event& event) {
    ++trace_->events;
    if (event.phase != "X" || event.duration_us < 0) return;
    const std::string category = LowerName(event.category);
    if (category == "kernel") {
      if (!event.collective.empty() || event.name.starts_with("nccl")) return Collective(event);
      if (event.external >= 0) {
        trace_->launched_us[event.external] += event.duration_us;
      } else if (event.correlation >= 0) {
        trace_->orphans.emplace_back(event.correlation, event.duration_us);
      }
    } else if (category == "cuda_runtime" || category == "cuda_driver" || category == "runtime") {
      if (event.correlation >= 0 && event.external >= 0)
        trace_->external_of[event.correlation] = event.external;
    } else if ((category == "cpu_op" || category == "operator") && HasShape(event.name) &&
               event.external >= 0) {
      const std::optional<Kernel> kernel = KernelOf(event);
      if (kernel) {
        trace_->ops[event.external] = *kernel;
      } else {
        ++trace_->shapeless;
      }
    }
  }

 private:
  void Collective(const Event& event) {
    const std::optional<CollectiveKind> kind = KindOfName(event.collective);
    double bytes = event.elements * BytesOfType(event.dtype);
    if (!kind || bytes <= 0 || event.group_size < 2) {
      ++trace_->nccl_without_size;
      return;
    }
    // "In" is a rank's own part of what is gathered; nccl-tests counts the whole.
    if (*kind == CollectiveKind::kAllGather) bytes *= event.group_size;
    const int gpus = *kind == CollectiveKind::kSendRecv ? 2 : static_cast<int>(event.group_size);
    trace_->collectives[{*kind, gpus, bytes, event.dtype, event.group}].emplace_back(
        event.start_us, event.duration_us);
  }

  Trace* trace_;
};

Trace ReadTrace(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) ReadTextFile(path);  // says why
  Trace trace;
  TraceReader reader{Collector(&trace)};
  if (!nlohmann::json::sax_parse(file, &reader)) {
    Diagnostic d;
    d.code = 837;
    d.message =
        "the trace is no JSON from byte " + std::to_string(reader.error_at()) + " on, or cut off";
    d.where.file = path;
    d.help = "the file as the profiler wrote it, whole: export_chrome_trace() must have returned";
    throw InputError(std::move(d));
  }
  for (const auto& [correlation, duration] : trace.orphans) {
    const auto found = trace.external_of.find(correlation);
    if (found != trace.external_of.end()) trace.launched_us[found->second] += duration;
  }
  for (auto& [key, calls] : trace.collectives) std::sort(calls.begin(), calls.end());
  return trace;
}

constexpr std::size_t kMostSamples = 1000;

// Samples of one kind of call, in one row.
MeasuredRow RowOfRepeats(std::vector<double> seconds, const std::string& source) {
  MeasuredRow row;
  if (seconds.size() > kMostSamples) seconds.resize(kMostSamples);
  row.item.samples = static_cast<int>(seconds.size());
  row.samples.seconds = std::move(seconds);
  row.source = source;
  return row;
}

auto OrderOf(const Kernel& k) {
  return std::make_tuple(k.kind, k.dtype, k.m, k.n, k.k, k.sequences, k.heads, k.kv_heads, k.q_len,
                         k.kv_len, k.head_dim, k.causal);
}
struct ByShape {
  bool operator()(const Kernel& a, const Kernel& b) const { return OrderOf(a) < OrderOf(b); }
};

}  // namespace

std::vector<MeasuredRow> RowsOfKineto(const std::vector<std::string>& paths,
                                      std::vector<std::string>* remarks) {
  std::map<Kernel, std::vector<double>, ByShape> kernels;
  // By call, by trace: the durations in order.
  std::map<CallKey, std::vector<std::vector<double>>> calls;
  std::int64_t shapeless = 0, unknown = 0;
  for (const std::string& path : paths) {
    const Trace trace = ReadTrace(path);
    shapeless += trace.shapeless;
    unknown += trace.nccl_without_size;
    // In order of the operators, so that the rows do not hang on a hash.
    std::map<std::int64_t, double> in_order(trace.launched_us.begin(), trace.launched_us.end());
    for (const auto& [external, microseconds] : in_order) {
      const auto op = trace.ops.find(external);
      if (op != trace.ops.end() && microseconds > 0)
        kernels[op->second].push_back(microseconds * 1e-6);
    }
    for (const auto& [key, found] : trace.collectives) {
      std::vector<double> durations;
      durations.reserve(found.size());
      for (const auto& [start, duration] : found) durations.push_back(duration * 1e-6);
      calls[key].push_back(std::move(durations));
    }
  }
  const std::string source =
      "PyTorch profiler: " + paths.front() +
      (paths.size() > 1 ? " and " + std::to_string(paths.size() - 1) + " more" : "");
  std::vector<MeasuredRow> rows;
  for (auto& [kernel, seconds] : kernels) {
    MeasuredRow row = RowOfRepeats(std::move(seconds), source);
    row.item.kernel = kernel;
    rows.push_back(std::move(row));
  }
  bool alone = false;
  for (const auto& [key, by_trace] : calls) {
    std::vector<double> seconds;
    std::size_t common = std::numeric_limits<std::size_t>::max();
    for (const auto& durations : by_trace) common = std::min(common, durations.size());
    const bool matched =
        by_trace.size() > 1 && std::all_of(by_trace.begin(), by_trace.end(),
                                           [&](const auto& one) { return one.size() == common; });
    if (matched) {
      for (std::size_t i = 0; i < common; ++i) {
        double least = by_trace.front()[i];
        for (const auto& durations : by_trace) least = std::min(least, durations[i]);
        seconds.push_back(least);
      }
    } else {
      alone = true;
      double least = std::numeric_limits<double>::infinity();
      for (const auto& durations : by_trace)
        least = std::min(least, *std::min_element(durations.begin(), durations.end()));
      seconds.push_back(least);
    }
    std::erase_if(seconds, [](double s) { return s <= 0; });
    if (seconds.empty()) continue;
    MeasuredRow row = RowOfRepeats(std::move(seconds), source);
    row.item.kind = MeasuredKind::kCollective;
    row.item.collective = key.kind;
    row.item.gpus = key.gpus;
    row.item.bytes = key.bytes;
    row.item.dtype = TypeOf(key.dtype).value_or(DType::kBf16);
    rows.push_back(std::move(row));
  }
  if (alone) {
    remarks->push_back(
        "collectives of one trace alone hold the wait for other ranks: the least of equal calls is "
        "taken; give the traces of all ranks");
  }
  if (unknown > 0) {
    remarks->push_back(std::to_string(unknown) +
                       " NCCL kernels without a size left out: PyTorch 2.3 or later records it");
  }
  if (shapeless > 0) {
    remarks->push_back(std::to_string(shapeless) +
                       " products and attention calls without a shape left out: profile with "
                       "record_shapes=True");
  }
  return rows;
}

}  // namespace aurum
