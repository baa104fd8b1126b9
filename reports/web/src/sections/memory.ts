import type { Report } from "../schema";
import { chart, niceScale, rows, tooltip } from "../charts";
import { figure, h, legend, section, table } from "../dom";
import { delta, fixed, gib, gibRange, percent, tick, timeUnit } from "../format";

const COLOR: Record<string, string> = { weights: "mem-weights", gradients: "mem-gradients", optimizer: "mem-optimizer", activations: "mem-activations", logits: "mem-logits", communication: "mem-communication", workspace: "mem-workspace", kv_cache: "mem-kv-cache", runtime: "mem-runtime" };

export function memorySection(report: Report) {
  const m = { ...report.memory! }, step = report.verdict!.step_time_s, n = m.t_s.length, [unit, factor] = timeUnit(step);
  // What does not change lies at the bottom, what moves on top.
  const sway = (c: { gib: number[] }) => Math.max(...c.gib) - Math.min(...c.gib);
  m.components = [...m.components].sort((a, b) => sway(a) - sway(b));
  const total = m.t_s.map((_, i) => m.components.reduce((a, c) => a + c.gib[i], 0));
  // A value holds until the next instant, so the peak lies in the last interval that has begun.
  const peakAt = Math.max(0, m.t_s.filter((t) => t <= m.peak.t_s).length - 1);
  const low = m.peak.low_gib ?? m.peak.gib, high = m.peak.high_gib ?? m.peak.gib, [top, gap] = niceScale(Math.max(m.device_gib, high) * 1.04, true);
  const plot = chart(`Memory of ${m.rank} over the step by component; peak ${gib(m.peak.gib)} of ${gib(m.usable_gib)}`, (t) => (t.narrow ? 300 : 340), (t) => ({
    grid: { left: 40, right: 16, top: 16, bottom: 44, outerBoundsMode: "none" },
    tooltip: { trigger: "axis", axisPointer: { type: "line", lineStyle: { color: t.color("muted") } }, ...tooltip(t, (ps: any[]) => {
      const i = ps[0].dataIndex;
      return rows(`${fixed(factor * m.t_s[i], unit === "s" ? 3 : 1)} ${unit}: ${gib(total[i])}`, [...m.components].reverse().map((c) => [c.name, gib(c.gib[i], 2)]));
    }) },
    xAxis: { type: "value", min: 0, max: step, ...t.axis, name: `${unit} since the step began`, nameGap: 28, splitLine: { show: false }, axisLabel: { ...t.text, formatter: (x: number) => tick(Number((factor * x).toPrecision(3))), showMaxLabel: false, hideOverlap: true } } as any,
    yAxis: { type: "value", min: 0, max: top, interval: gap, ...t.axis, axisLine: { show: false }, axisTick: { show: false }, axisLabel: { ...t.text, showMaxLabel: false } } as any,
    series: [
      ...m.components.map((c, k) => ({
        name: c.name, type: "line" as const, stack: "m", step: "end" as const, symbol: "none", data: m.t_s.map((x, i) => [x, c.gib[i]]), lineStyle: { width: 0.8, color: t.color("page") }, areaStyle: { color: t.color(COLOR[c.name] ?? "muted"), opacity: 1 }, emphasis: { disabled: true }, silent: true,
        ...(k === 0 ? { markLine: { symbol: "none", silent: true, data: [{ yAxis: m.usable_gib, lineStyle: { color: t.color("bad"), type: "dashed" as const, width: 1.2 }, label: { formatter: `device limit ${gib(m.usable_gib)}`, position: "insideStartTop" as const, color: t.color("bad"), fontSize: 12 } }] } } : {}),
      })),
      { type: "custom", z: 6, silent: true, data: [[m.peak.t_s, m.peak.gib]], renderItem: (_: any, api: any) => {
        const at = api.coord([m.peak.t_s, m.peak.gib]), lo = api.coord([m.peak.t_s, low]), hi = api.coord([m.peak.t_s, high]), right = at[0] > t.width * 0.62;
        const ink = { stroke: t.color("ink"), lineWidth: 1.5 };
        return { type: "group", children: [
          { type: "line", shape: { x1: at[0], y1: lo[1], x2: at[0], y2: hi[1] }, style: ink },
          ...(hi[1] < lo[1] ? [lo, hi] : []).map((q) => ({ type: "line", shape: { x1: at[0] - 4, y1: q[1], x2: at[0] + 4, y2: q[1] }, style: ink })),
          { type: "circle", shape: { cx: at[0], cy: at[1], r: 3.5 }, style: { fill: t.color("ink") } },
          { type: "text", style: { text: `peak ${gib(m.peak.gib)}`, x: at[0] + (right ? -9 : 9), y: hi[1] - 4, align: right ? "right" : "left", verticalAlign: "bottom", fill: t.color("ink"), fontSize: 12, fontWeight: "bold", fontFamily: (t.text as any).fontFamily } },
        ] };
      } },
    ],
  } as any));
  const headroom = m.usable_gib - m.peak.gib;
  return section("memory", "Memory of the heaviest rank", report.findings.memory,
    h("div", { class: "split" },
      figure(`Stacked by component on ${m.rank}. ${high > low ? `The bar at the peak is its interval,${gibRange(low, high)} GiB. ` : ""}The peak comes at: ${m.peak.at}.`,
        legend([...m.components].map((c) => [COLOR[c.name] ?? "muted", c.name])), plot.host),
      h("div", null, h("h3", null, "At the peak"),
        table("Memory at the peak by component", [
          { head: "Component", header: true, cell: (c) => c.name },
          { head: "Size", unit: "GiB", numeric: true, cell: (c) => fixed(c.gib, 2) },
          { head: "Share", unit: "%", numeric: true, cell: (c) => (c.name === "free" ? "" : fixed((100 * c.gib) / m.peak.gib, 1)) },
        ], [...m.components.map((c) => ({ name: c.name, gib: c.gib[Math.min(n - 1, peakAt)] })).sort((a, b) => b.gib - a.gib), { name: "peak", gib: m.peak.gib }, { name: "free", gib: headroom }], { rowClass: (c) => (c.name === "peak" ? "sum" : c.name === "free" ? "quiet" : "") }))),
    m.tensors !== undefined && m.tensors.length > 0 && h("h3", null, "The largest tensors at the peak, of what comes and goes"),
    m.tensors !== undefined && m.tensors.length > 0 && table("The largest tensors at the peak", [
      { head: "Tensor", header: true, cell: (x) => x.name },
      { head: "Of", cell: (x) => (x.module === "" ? x.unit : `${x.module}, ${x.unit}`) },
      { head: "Count", numeric: true, cell: (x) => tick(x.count) },
      { head: "Size", unit: "GiB", numeric: true, cell: (x) => fixed(x.gib, 2) },
    ], m.tensors),
    m.fixes.length > 0 && h("h3", null, "If it had to be smaller: fixes, cheapest first"),
    m.fixes.length > 0 && table("Fixes ranked by what they cost per GiB", [
      { head: "Fix", header: true, sort: (f) => f.fix, cell: (f) => f.fix },
      { head: "Saves", unit: "GiB", numeric: true, sort: (f) => -f.saves_gib, cell: (f) => fixed(f.saves_gib, 1) },
      { head: "New peak", unit: "GiB", numeric: true, sort: (f) => -f.saves_gib, cell: (f) => fixed(m.peak.gib - f.saves_gib, 1) },
      { head: "Step time", unit: "%", numeric: true, sort: (f) => f.step_time_delta_s, cell: (f) => delta(fixed((100 * f.step_time_delta_s) / step, 1)) },
      { head: "Cost", unit: "ms/GiB", numeric: true, sort: (f) => f.step_time_delta_s / f.saves_gib, cell: (f) => delta(fixed((1e3 * f.step_time_delta_s) / f.saves_gib, 1)) },
      { head: "Apply with", cell: (f) => f.set ? h("code", null, "--set " + f.set) : "–" },
      { head: "Note", cell: (f) => h("span", { class: "remark" }, f.note) },
    ], m.fixes, { sorted: 4 }),
    h("p", { class: "note" }, `Usable is what the driver leaves of ${m.device_gib} GiB. Headroom now ${gib(headroom)}, ${percent(headroom / m.usable_gib)}.`));
}
