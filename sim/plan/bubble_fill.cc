#include "sim/plan/bubble_fill.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace aurum {

// Filling bubbles
// ===============
//
// Insight (Optimus, Feng et al., USENIX ATC 2025): the encoder of a multimodal model depends on the backbone in two points
// only. Its output enters at position 0, and its gradients leave there. So an encoder that every stage holds can run
// wherever a stage idles, one micro-batch here and the next one there, and the bubbles of the pipeline pay for it.
//
// 1F1B, p = 2, m = 4, with an encoder as large as a stage ("~" its forward, "%" its backward, "-" and "#" those of the
// backbone): 19 s, where the backbone alone takes 15 and the encoder on stage 0 would make it 25.
//
//   0 |1~0-3~1-..0###2-1###3-1%%%2###3###3%%%|
//   1 |0~2~0-0###1-1###2-2###3-3###0%%%2%%%..|
//
// What stays outside: the first encoder forward, because nothing else can run before it, and the last backward.
//
// The passes and what they wait for are a graph without cycles, the order of a list being arcs too. With the earliest end of
// every pass ("head") and the longest way from its start to the end of the step ("tail"), the step that results from
// one more pass is known without trying it. Between `a` and `b` of a list, needed by `f`, an encoder forward of E seconds gives
//
//     max(step now, head(a) + E + max(tail(b), tail(f))),
//
// exactly, since all new ways lead through the new pass. Where this is the step as it is, the gap fits and nobody is
// delayed. The descendants of `f` are the end of every list, so the places that make no cycle are a beginning of it;
// for the backward they are an end in the same way. The micro-batches are taken in the order in which position 0 needs
// them (earliest deadline first). Each goes to the stage whose best places lengthen the step least, and of equals to
// the one with the least encoder work (or where it could start first: both ways are tried, because neither wins always).
// The best of these lists and of "all on the stage of position 0" is the answer.
//
// Optimus itself partitions micro-batches over encoder pipelines of one parallel layout and moves kernels into bubbles
// one stage after the other; this is the same idea with the micro-batch as the unit, and every stage an encoder pipeline
// of its own. Optimus also fills bubbles of collectives, which lists of passes do not show.
//
// Cost: two evaluations of the graph a micro-batch, O(p v m) each, so O(p v m²) in all, twice (once where that is a lot).

namespace {

constexpr double kTie = 1e-12;  // relative: what rounding may do to equal sums
constexpr std::size_t kNone = static_cast<std::size_t>(-1);
// Visits of passes beyond which only one of the two ways is tried.
constexpr double kMuchWork = 2e7;

enum class Preference { kLeastLoad, kEarliestStart, kFirstStage };

// Passes that wait for one pass, or that it waits for: at most one of each half of a pair, and an encoder pass of each.
class Arcs {
 public:
  void Add(std::size_t node) {
    assert(count_ < nodes_.size());
    nodes_[count_++] = static_cast<std::uint32_t>(node);
  }
  std::size_t size() const { return count_; }
  const std::uint32_t* begin() const { return nodes_.data(); }
  const std::uint32_t* end() const { return nodes_.data() + count_; }

 private:
  // 32 bits: the graph is read over and over, and has to stay small.
  std::array<std::uint32_t, 4> nodes_{};
  std::uint32_t count_ = 0;
};

// One pass, or an overlapped pair as one.
struct Node {
  double seconds = 0;
  Arcs before{}, after{};  // the neighbours in the list come on top
};

// The graph of a step in which every stage runs its list in order.
class Timetable {
 public:
  explicit Timetable(const BubbleFillInput& input) : shape_(input.shape) {
    const auto schedule = MakeSchedule(shape_);
    lists_.resize(schedule.size());
    for (std::size_t stage = 0; stage < schedule.size(); ++stage) {
      for (std::size_t k = 0; k < schedule[stage].size(); ++k) {
        const std::size_t id = nodes_.size();
        Node node;
        const auto add = [&](const Pass& pass) {
          node.seconds += Seconds(input.seconds[stage][static_cast<std::size_t>(pass.chunk)], pass);
          if (pass.kind != PassKind::kWeightGradient) ids_[Key(static_cast<int>(stage), pass)] = id;
        };
        Passes passes{schedule[stage][k], std::nullopt};
        add(passes.first);
        if (passes.first.with_next) add(passes.second.emplace(schedule[stage][++k]));
        passes_.push_back(passes);
        lists_[stage].push_back(id);
        nodes_.push_back(std::move(node));
      }
    }
    for (std::size_t stage = 0; stage < lists_.size(); ++stage) {
      for (const std::size_t id : lists_[stage]) {
        LinkPass(static_cast<int>(stage), passes_[id].first, id);
        if (passes_[id].second) LinkPass(static_cast<int>(stage), *passes_[id].second, id);
      }
    }
    Evaluate();
  }

  double span() const { return span_; }
  // Where a micro-batch enters and leaves the backbone.
  struct Place {
    std::size_t stage = 0, node = 0;
  };
  Place Entry(int micro_batch) const { return entries_.at(micro_batch); }
  Place Exit(int micro_batch) const { return exits_.at(micro_batch); }
  double StartOf(std::size_t node) const { return start_[node]; }

  // A place in a list (before its index-th node), and the longest way through a pass that is put there.
  struct Slot {
    std::size_t index = kNone;
    double start = 0, way = 0;
    bool BetterThan(const Slot& other, double span) const {
      if (other.index == kNone) return true;
      const double mine = std::max(way, span), its = std::max(other.way, span);
      if (mine < its * (1 - kTie)) return true;
      return mine <= its * (1 + kTie) && start < other.start;
    }
  };
  // Best places, by stage, for a pass of so many seconds that `node` waits for, or that waits for `node`.
  // The former no earlier than `not_before` where there is such a place.
  std::vector<Slot> SlotsBefore(std::size_t node, double seconds, double not_before) const {
    const std::vector<bool> blocked = Reach(node, &Node::after, 1);
    std::vector<Slot> best(lists_.size());
    for (std::size_t stage = 0; stage < lists_.size(); ++stage) {
      const auto& list = lists_[stage];
      for (std::size_t k = 0; k <= list.size(); ++k) {
        if (k > 0 && blocked[list[k - 1]]) break;
        const double start = k == 0 ? 0 : End(list[k - 1]);
        const double tail = std::max(k < list.size() ? tail_[list[k]] : 0, tail_[node]);
        const Slot slot{k, start, start + seconds + tail};
        const bool too_early = best[stage].index != kNone && best[stage].start < not_before;
        if (too_early || slot.BetterThan(best[stage], span_)) best[stage] = slot;
      }
    }
    return best;
  }
  std::vector<Slot> SlotsAfter(std::size_t node, double seconds) const {
    const std::vector<bool> blocked = Reach(node, &Node::before, -1);
    std::vector<Slot> best(lists_.size());
    for (std::size_t stage = 0; stage < lists_.size(); ++stage) {
      const auto& list = lists_[stage];
      for (std::size_t k = list.size() + 1; k-- > 0;) {
        if (k < list.size() && blocked[list[k]]) break;
        const double start = std::max(k == 0 ? 0 : End(list[k - 1]), End(node));
        const double tail = k < list.size() ? tail_[list[k]] : 0;
        const Slot slot{k, start, start + seconds + tail};
        if (slot.BetterThan(best[stage], span_)) best[stage] = slot;
      }
    }
    return best;
  }
  std::size_t IndexOf(const Place& place) const {
    const auto& list = lists_[place.stage];
    return static_cast<std::size_t>(std::find(list.begin(), list.end(), place.node) - list.begin());
  }

  // What was known of starts and ways is of before, until Evaluate.
  void Insert(std::size_t stage, std::size_t index, const Pass& pass, double seconds,
              std::optional<std::size_t> before, std::optional<std::size_t> after) {
    const std::size_t id = nodes_.size();
    nodes_.push_back({seconds});
    passes_.push_back({pass, std::nullopt});
    if (before) Link(*before, id);
    if (after) Link(id, *after);
    lists_[stage].insert(lists_[stage].begin() + static_cast<std::ptrdiff_t>(index), id);
  }

  // Starts, tails and the span, in topological order.
  void Evaluate() {
    const std::size_t count = nodes_.size();
    next_.assign(count, kNone);
    previous_.assign(count, kNone);
    for (const auto& list : lists_) {
      for (std::size_t k = 1; k < list.size(); ++k) {
        next_[list[k - 1]] = list[k];
        previous_[list[k]] = list[k - 1];
      }
    }
    start_.assign(count, 0);
    tail_.assign(count, 0);
    waits_.resize(count);
    order_.clear();
    for (std::size_t id = 0; id < count; ++id) {
      waits_[id] = nodes_[id].before.size() + (previous_[id] != kNone);
      if (waits_[id] == 0) order_.push_back(id);
    }
    span_ = 0;
    for (std::size_t k = 0; k < order_.size(); ++k) {
      const std::size_t id = order_[k];
      const double end = End(id);
      span_ = std::max(span_, end);
      const auto release = [&](std::size_t other) {
        start_[other] = std::max(start_[other], end);
        if (--waits_[other] == 0) order_.push_back(other);
      };
      if (next_[id] != kNone) release(next_[id]);
      for (const std::size_t other : nodes_[id].after) release(other);
    }
    assert(order_.size() == count);  // no cycle
    for (std::size_t k = order_.size(); k-- > 0;) {
      const std::size_t id = order_[k];
      double tail = next_[id] != kNone ? tail_[next_[id]] : 0;
      for (const std::size_t other : nodes_[id].after) tail = std::max(tail, tail_[other]);
      tail_[id] = tail + nodes_[id].seconds;
    }
  }

  std::vector<std::vector<Pass>> Lists() const {
    std::vector<std::vector<Pass>> lists(lists_.size());
    for (std::size_t stage = 0; stage < lists.size(); ++stage) {
      for (const std::size_t id : lists_[stage]) {
        lists[stage].push_back(passes_[id].first);
        if (passes_[id].second) lists[stage].push_back(*passes_[id].second);
      }
    }
    return lists;
  }
  std::size_t size() const { return nodes_.size(); }

 private:
  struct Passes {
    Pass first{};
    std::optional<Pass> second{};  // of an overlapped pair
  };
  static bool IsForward(const Pass& pass) { return pass.kind == PassKind::kForward; }
  static std::tuple<bool, int, int, int> Key(int stage, const Pass& pass) {
    return {IsForward(pass), stage, pass.chunk, pass.micro_batch};
  }
  static double Seconds(const ChunkSeconds& seconds, const Pass& pass) {
    switch (pass.kind) {
      case PassKind::kForward:
        return seconds.forward_s;
      case PassKind::kInputGradient:
        return seconds.input_gradient_s;
      case PassKind::kWeightGradient:
        return seconds.weight_gradient_s;
      default:
        return seconds.input_gradient_s + seconds.weight_gradient_s;
    }
  }
  void Link(std::size_t from, std::size_t to) {
    nodes_[from].after.Add(to);
    nodes_[to].before.Add(from);
  }
  // What a pass of the backbone waits for on other stages.
  void LinkPass(int stage, const Pass& pass, std::size_t id) {
    if (pass.kind == PassKind::kWeightGradient) return;  // after its input gradients in the list
    const auto from =
        IsForward(pass) ? PreviousOf(shape_, stage, pass.chunk) : NextOf(shape_, stage, pass.chunk);
    if (from) {
      Pass needed = pass;
      needed.chunk = from->chunk;
      Link(ids_.at(Key(from->stage, needed)), id);
    }
    if (PositionOf(shape_, stage, pass.chunk) == 0) {
      (IsForward(pass) ? entries_ : exits_)[pass.micro_batch] = {static_cast<std::size_t>(stage),
                                                                 id};
    }
  }
  double End(std::size_t node) const { return start_[node] + nodes_[node].seconds; }

  // All that the node leads to (direction 1, `after`) or comes from (-1, `before`), itself included.
  std::vector<bool> Reach(std::size_t node, Arcs Node::*arcs, int direction) const {
    std::vector<bool> reached(nodes_.size(), false);
    std::vector<std::size_t> open{node};
    reached[node] = true;
    const auto visit = [&](std::size_t id) {
      if (id == kNone || reached[id]) return;
      reached[id] = true;
      open.push_back(id);
    };
    while (!open.empty()) {
      const std::size_t id = open.back();
      open.pop_back();
      visit(direction > 0 ? next_[id] : previous_[id]);
      for (const std::size_t other : nodes_[id].*arcs) visit(other);
    }
    return reached;
  }

  PipelineShape shape_;
  std::vector<Node> nodes_;
  std::vector<Passes> passes_;  // by node
  std::vector<std::vector<std::size_t>> lists_;
  std::map<std::tuple<bool, int, int, int>, std::size_t> ids_;
  std::map<int, Place> entries_, exits_;
  std::vector<std::size_t> next_, previous_, waits_, order_;
  std::vector<double> start_, tail_;
  double span_ = 0;
};

BubbleFill Fill(const BubbleFillInput& input, Timetable table, Preference preference) {
  using Slot = Timetable::Slot;
  BubbleFill fill;
  fill.backbone_span_s = table.span();
  fill.encoder_stage.assign(static_cast<std::size_t>(input.shape.micro_batches), 0);
  std::vector<int> order;
  for (int m = 0; m < input.shape.micro_batches; ++m) order.push_back(m);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return table.StartOf(table.Entry(a).node) < table.StartOf(table.Entry(b).node);
  });
  const bool trained = input.encoder_backward_s > 0;
  std::vector<int> load(input.seconds.size(), 0);  // micro-batches
  for (std::size_t turn = 0; turn < order.size(); ++turn) {
    const int m = order[turn];
    const auto entry = table.Entry(m), exit = table.Exit(m);
    std::size_t stage = entry.stage;
    Slot forward{table.IndexOf(entry)};
    if (preference != Preference::kFirstStage) {
      const auto ahead = static_cast<std::size_t>(input.most_ahead);
      const double not_before =
          ahead > 0 && turn >= ahead ? table.StartOf(table.Entry(order[turn - ahead]).node) : 0;
      const auto forwards = table.SlotsBefore(entry.node, input.encoder_forward_s, not_before);
      const auto backwards = trained ? table.SlotsAfter(exit.node, input.encoder_backward_s)
                                     : std::vector<Slot>(forwards.size());
      // The excesses add up: a delay by the forward moves the backward too.
      const auto step = [&](std::size_t s) {
        return table.span() + std::max(0.0, forwards[s].way - table.span()) +
               std::max(0.0, backwards[s].way - table.span());
      };
      stage = 0;
      for (std::size_t s = 1; s < forwards.size(); ++s) {
        if (step(s) > step(stage) * (1 + kTie)) continue;
        const bool preferred = preference == Preference::kLeastLoad
                                   ? load[s] < load[stage]
                                   : forwards[s].start < forwards[stage].start;
        if (step(s) < step(stage) * (1 - kTie) || preferred) stage = s;
      }
      forward = forwards[stage];
    }
    table.Insert(stage, forward.index, {PassKind::kEncoderForward, 0, m}, input.encoder_forward_s,
                 std::nullopt, entry.node);
    const bool first = preference == Preference::kFirstStage;  // needs no times
    if (!first) table.Evaluate();
    if (trained) {
      const std::size_t index =
          preference == Preference::kFirstStage
              ? table.IndexOf(exit) + 1
              : table.SlotsAfter(exit.node, input.encoder_backward_s)[stage].index;
      table.Insert(stage, index, {PassKind::kEncoderBackward, 0, m}, input.encoder_backward_s,
                   exit.node, std::nullopt);
    }
    if (trained && !first) table.Evaluate();
    ++load[stage];
    fill.encoder_stage[static_cast<std::size_t>(m)] = static_cast<int>(stage);
  }
  table.Evaluate();
  fill.stages = table.Lists();
  fill.span_s = table.span();
  return fill;
}

}  // namespace

BubbleFill FillBubbles(const BubbleFillInput& input) {
  assert(CheckPipeline(input.shape).message.empty());
  assert(input.seconds.size() == static_cast<std::size_t>(input.shape.stages));
  assert(input.encoder_forward_s >= 0 && input.encoder_backward_s >= 0);
  const Timetable table(input);
  BubbleFill best = Fill(input, table, Preference::kLeastLoad);
  std::vector<Preference> others{Preference::kFirstStage};
  const double visits = static_cast<double>(table.size()) * input.shape.micro_batches;
  if (visits < kMuchWork) others.push_back(Preference::kEarliestStart);
  for (const Preference preference : others) {
    BubbleFill fill = Fill(input, table, preference);
    if (fill.span_s < best.span_s * (1 - kTie)) best = std::move(fill);
  }
  return best;
}

}  // namespace aurum
