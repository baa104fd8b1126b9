#include "tests/network/scenario.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <utility>

namespace aurum {

namespace {

constexpr long double kNever = std::numeric_limits<long double>::infinity();

// Raises the level of all flows together until a limit is met, again and again.
std::vector<long double> Fill(const std::vector<long double>& capacity,
                              const std::vector<const Flow*>& flows) {
  std::vector<long double> rates(flows.size(), 0);
  std::vector<bool> fixed(flows.size(), false);
  const auto cap_level = [&](std::size_t f) {
    const Flow& flow = *flows[f];
    return flow.cap_bytes_per_s > 0 ? static_cast<long double>(flow.cap_bytes_per_s) / flow.weight
                                    : kNever;
  };
  for (std::size_t done = 0; done < flows.size();) {
    std::vector<long double> spare = capacity, weight(capacity.size(), 0);
    for (std::size_t f = 0; f < flows.size(); ++f) {
      for (const std::uint32_t link : flows[f]->links) {
        if (fixed[f]) {
          spare[link] -= rates[f];
        } else {
          weight[link] += flows[f]->weight;
        }
      }
    }
    long double level = kNever;
    std::vector<long double> share(capacity.size(), kNever);
    for (std::size_t link = 0; link < capacity.size(); ++link) {
      if (weight[link] <= 0) continue;
      share[link] = std::max(0.0L, spare[link]) / weight[link];
      level = std::min(level, share[link]);
    }
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (!fixed[f]) level = std::min(level, cap_level(f));
    }
    std::vector<std::size_t> met;
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (fixed[f]) continue;
      const auto limits = [&](std::uint32_t link) { return share[link] <= level * (1 + 1e-15L); };
      if (cap_level(f) <= level * (1 + 1e-15L) ||
          std::any_of(flows[f]->links.begin(), flows[f]->links.end(), limits)) {
        met.push_back(f);
      }
    }
    for (const std::size_t f : met) {
      fixed[f] = true;
      rates[f] = level * flows[f]->weight;
      ++done;
    }
  }
  return rates;
}

bool CanSend(const Flow& flow) {
  return flow.bytes > 0 && (!flow.links.empty() || flow.cap_bytes_per_s > 0);
}

long double AloneReference(const std::vector<double>& capacity, const std::vector<Flow>& all) {
  const std::vector<long double> wide(capacity.begin(), capacity.end());
  std::vector<const Flow*> flows;
  std::vector<long double> left;
  for (const Flow& flow : all) {
    if (!CanSend(flow)) continue;
    flows.push_back(&flow);
    left.push_back(flow.bytes);
  }
  long double now = 0;
  while (!flows.empty()) {
    const std::vector<long double> rates = Fill(wide, flows);
    long double step = kNever;
    for (std::size_t i = 0; i < flows.size(); ++i) step = std::min(step, left[i] / rates[i]);
    now += step;
    std::vector<const Flow*> still;
    std::vector<long double> still_left;
    for (std::size_t i = 0; i < flows.size(); ++i) {
      left[i] -= rates[i] * step;
      if (left[i] <= 1e-12L * flows[i]->bytes) continue;
      still.push_back(flows[i]);
      still_left.push_back(left[i]);
    }
    flows = std::move(still);
    left = std::move(still_left);
  }
  return now;
}

}  // namespace

double AloneSecondsByReference(const std::vector<double>& capacity,
                               const std::vector<Flow>& flows) {
  return static_cast<double>(AloneReference(capacity, flows));
}

Scenario RandomScenario(Random& random, const ScenarioShape& shape) {
  Scenario made;
  made.capacity.resize(1 + random() % shape.most_links);
  // Few different numbers, so that levels and times tie.
  for (double& c : made.capacity) c = 1e9 * (1 + random() % 5);
  const auto links = static_cast<std::uint32_t>(made.capacity.size());
  made.streams = 1 + random() % 8;
  const std::uint32_t count = 1 + random() % shape.most_ops;
  for (std::uint32_t i = 0; i < count; ++i) {
    ScenarioOp op{.stream = random() % made.streams};
    if (random() % 4 == 0) {
      op.duration_ps = static_cast<std::int64_t>(random() % 1000) * 1'000'000'000;
    } else {
      op.latency_ps = random() % 2 == 0 ? 0 : static_cast<std::int64_t>(random() % 100) * 1'000'000;
      for (std::uint32_t f = 1 + random() % shape.most_flows; f > 0; --f) {
        Flow flow;
        for (std::uint32_t hop = 1 + random() % 3; hop > 0; --hop) {
          const std::uint32_t link = random() % links;
          if (std::find(flow.links.begin(), flow.links.end(), link) == flow.links.end())
            flow.links.push_back(link);
        }
        flow.bytes = shape.bytes / 16 * (1 + random() % 16);
        if (random() % 4 == 0) flow.bytes *= 0.1 + random() % 1000 / 1000.0;
        if (random() % 3 == 0) flow.weight = 1 + random() % 3;
        if (random() % 4 == 0) flow.cap_bytes_per_s = 1e9 * (1 + random() % 8) / 4;
        op.flows.push_back(flow);
      }
      op.duration_ps = -1;
      if (random() % 5 == 0) {  // the caller's own: a straggler, or a factor below 1
        const double alone = AloneSecondsByReference(made.capacity, op.flows);
        op.duration_ps = op.latency_ps + TimeFromSeconds(alone * (1 + random() % 3) / 2).ps;
      }
    }
    for (std::uint32_t e = random() % 3; e > 0 && i > 0; --e) op.after.push_back(random() % i);
    made.ops.push_back(op);
  }
  if (!shape.changes) return made;
  for (std::uint32_t c = 1 + random() % 6; c > 0; --c) {
    const double factors[] = {0, 0, 0.25, 0.5, 1, 1.5};
    const std::uint32_t link = random() % links;
    const Time at{static_cast<std::int64_t>(random() % 3000) * 1'000'000'000};
    made.changes.push_back({at, link, factors[random() % 6]});
    made.changes.push_back(
        {at + Time{static_cast<std::int64_t>(1 + random() % 2000) * 1'000'000'000}, link,
         factors[2 + random() % 4]});
  }
  return made;
}

OpGraph BuildGraph(const Scenario& scenario) {
  OpGraph graph;
  for (std::uint32_t s = 0; s < scenario.streams; ++s) graph.AddStream();
  for (std::size_t i = 0; i < scenario.ops.size(); ++i) {
    const ScenarioOp& op = scenario.ops[i];
    if (op.flows.empty()) {
      graph.AddOp(op.stream, {op.duration_ps});
    } else {
      Time duration{op.duration_ps};
      if (op.duration_ps < 0) {
        duration = Time{op.latency_ps} +
                   TimeFromSeconds(AloneSecondsByReference(scenario.capacity, op.flows));
      }
      graph.AddTransfer(op.stream, duration, {op.latency_ps}, graph.AddPattern({op.flows}));
    }
    for (const std::uint32_t before : op.after) graph.AddDependency(before, static_cast<OpId>(i));
  }
  graph.Finish();
  return graph;
}

std::vector<long double> ReferenceEnds(const Scenario& scenario) {
  struct Run {
    const Flow* flow;
    std::size_t op;
    long double left;
  };
  const std::size_t n = scenario.ops.size();
  const OpGraph graph = BuildGraph(scenario);  // for durations and predecessors alone
  std::vector<LinkChange> changes = scenario.changes;
  std::stable_sort(changes.begin(), changes.end(),
                   [](const LinkChange& a, const LinkChange& b) { return a.at < b.at; });
  std::vector<long double> capacity(scenario.capacity.begin(), scenario.capacity.end());
  std::vector<long double> end(n, kNever), nominal(n, kNever), flows_start(n, kNever);
  std::vector<int> open(n, 0);
  std::vector<bool> started(n, false), ended(n, false), launched(n, false);
  std::vector<Run> runs;
  std::size_t next_change = 0;
  long double now = 0;
  const auto seconds = [](Time t) { return static_cast<long double>(t.ps) / 1e12L; };
  constexpr long double kSame = 1e-13L;  // times closer than this are one
  for (;;) {
    while (next_change < changes.size() && seconds(changes[next_change].at) <= now + kSame) {
      const LinkChange& change = changes[next_change++];
      capacity[change.link] =
          static_cast<long double>(scenario.capacity[change.link]) * change.factor;
    }
    for (bool again = true; again;) {
      again = false;
      for (std::size_t i = 0; i < n; ++i) {
        if (started[i]) continue;
        const auto before = graph.predecessors(static_cast<OpId>(i));
        if (!std::all_of(before.begin(), before.end(), [&](OpId b) { return ended[b]; })) continue;
        started[i] = true;
        nominal[i] = now + seconds(graph.duration(static_cast<OpId>(i)));
        const bool travels =
            graph.duration(static_cast<OpId>(i)) > graph.latency(static_cast<OpId>(i)) &&
            std::any_of(scenario.ops[i].flows.begin(), scenario.ops[i].flows.end(), CanSend);
        flows_start[i] = travels ? now + seconds(graph.latency(static_cast<OpId>(i))) : kNever;
        launched[i] = !travels;
        again = true;
      }
      for (std::size_t i = 0; i < n; ++i) {
        if (!started[i] || launched[i] || flows_start[i] > now + kSame) continue;
        launched[i] = true;
        const ScenarioOp& op = scenario.ops[i];
        const long double alone = AloneReference(scenario.capacity, op.flows);
        const long double wanted =
            seconds(graph.duration(static_cast<OpId>(i)) - graph.latency(static_cast<OpId>(i)));
        const long double stretch = std::fabs(wanted - alone) <= 1e-12L ? 1 : wanted / alone;
        for (const Flow& flow : op.flows) {
          if (!CanSend(flow)) continue;
          runs.push_back({&flow, i, flow.bytes * stretch});
          ++open[i];
        }
      }
      for (std::size_t i = 0; i < n; ++i) {
        if (!started[i] || ended[i] || !launched[i] || open[i] > 0) continue;
        if (nominal[i] > now + kSame) continue;
        ended[i] = true;
        end[i] = now;
        again = true;
      }
    }
    std::vector<const Flow*> flows;
    for (const Run& run : runs) flows.push_back(run.flow);
    const std::vector<long double> rates = Fill(capacity, flows);
    long double next = kNever;
    for (std::size_t r = 0; r < runs.size(); ++r) {
      if (rates[r] > 0) next = std::min(next, now + runs[r].left / rates[r]);
    }
    for (std::size_t i = 0; i < n; ++i) {
      if (!started[i] || ended[i]) continue;
      if (!launched[i]) next = std::min(next, flows_start[i]);
      if (nominal[i] > now) next = std::min(next, nominal[i]);
    }
    const bool all = std::all_of(ended.begin(), ended.end(), [](bool e) { return e; });
    if (!all && next_change < changes.size())
      next = std::min(next, seconds(changes[next_change].at));
    if (next == kNever) return end;
    std::vector<Run> still;
    for (std::size_t r = 0; r < runs.size(); ++r) {
      Run run = runs[r];
      run.left -= rates[r] * (next - now);
      if (run.left <= rates[r] * kSame) {
        --open[run.op];
      } else {
        still.push_back(run);
      }
    }
    runs = std::move(still);
    now = next;
  }
}

namespace {

// The scenario without op `gone`; what waited for it waits for what it waited for.
Scenario WithoutOp(const Scenario& scenario, std::size_t gone) {
  Scenario smaller = scenario;
  const std::vector<std::uint32_t> inherited = scenario.ops[gone].after;
  smaller.ops.erase(smaller.ops.begin() + static_cast<std::ptrdiff_t>(gone));
  for (ScenarioOp& op : smaller.ops) {
    std::vector<std::uint32_t> after;
    for (const std::uint32_t before : op.after) {
      if (before == gone) {
        after.insert(after.end(), inherited.begin(), inherited.end());
      } else {
        after.push_back(before > gone ? before - 1 : before);
      }
    }
    op.after = after;
  }
  return smaller;
}

std::vector<Scenario> Smaller(const Scenario& scenario) {
  std::vector<Scenario> smaller;
  for (std::size_t i = scenario.ops.size(); i-- > 0;) smaller.push_back(WithoutOp(scenario, i));
  const auto with = [&](const auto& edit) {
    Scenario edited = scenario;
    edit(edited);
    smaller.push_back(std::move(edited));
  };
  for (std::size_t c = 0; c < scenario.changes.size(); ++c) {
    with([&](Scenario& s) { s.changes.erase(s.changes.begin() + static_cast<std::ptrdiff_t>(c)); });
  }
  for (std::size_t i = 0; i < scenario.ops.size(); ++i) {
    const ScenarioOp& op = scenario.ops[i];
    for (std::size_t e = 0; e < op.after.size(); ++e) {
      with([&](Scenario& s) {
        s.ops[i].after.erase(s.ops[i].after.begin() + static_cast<std::ptrdiff_t>(e));
      });
    }
    if (op.latency_ps > 0) with([&](Scenario& s) { s.ops[i].latency_ps = 0; });
    if (!op.flows.empty() && op.duration_ps >= 0) {
      with([&](Scenario& s) { s.ops[i].duration_ps = -1; });
    }
    for (std::size_t f = 0; f < op.flows.size(); ++f) {
      if (op.flows.size() > 1) {
        with([&](Scenario& s) {
          s.ops[i].flows.erase(s.ops[i].flows.begin() + static_cast<std::ptrdiff_t>(f));
        });
      }
      const Flow& flow = op.flows[f];
      for (std::size_t hop = 0; flow.links.size() > 1 && hop < flow.links.size(); ++hop) {
        with([&](Scenario& s) {
          std::vector<std::uint32_t>& links = s.ops[i].flows[f].links;
          links.erase(links.begin() + static_cast<std::ptrdiff_t>(hop));
        });
      }
      if (flow.weight != 1) with([&](Scenario& s) { s.ops[i].flows[f].weight = 1; });
      if (flow.cap_bytes_per_s != 0)
        with([&](Scenario& s) { s.ops[i].flows[f].cap_bytes_per_s = 0; });
    }
  }
  return smaller;
}

}  // namespace

Scenario Shrink(Scenario scenario, const std::function<bool(const Scenario&)>& fails) {
  for (;;) {
    bool shrunk = false;
    for (Scenario& smaller : Smaller(scenario)) {
      if (!fails(smaller)) continue;
      scenario = std::move(smaller);
      shrunk = true;
      break;
    }
    if (!shrunk) return scenario;
  }
}

std::string Print(const Scenario& scenario) {
  std::ostringstream out;
  out.precision(17);
  out << "capacity:";
  for (const double c : scenario.capacity) out << ' ' << c;
  out << '\n';
  for (const LinkChange& change : scenario.changes) {
    out << "at " << change.at.ps << " ps link " << change.link << " factor " << change.factor
        << '\n';
  }
  for (std::size_t i = 0; i < scenario.ops.size(); ++i) {
    const ScenarioOp& op = scenario.ops[i];
    out << "op " << i << " stream " << op.stream << " duration " << op.duration_ps << " latency "
        << op.latency_ps << " after";
    for (const std::uint32_t before : op.after) out << ' ' << before;
    out << '\n';
    for (const Flow& flow : op.flows) {
      out << "  flow of " << flow.bytes << " bytes, weight " << flow.weight << ", cap "
          << flow.cap_bytes_per_s << ", links";
      for (const std::uint32_t link : flow.links) out << ' ' << link;
      out << '\n';
    }
  }
  return out.str();
}

}  // namespace aurum
