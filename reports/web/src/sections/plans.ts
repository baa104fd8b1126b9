import type { PlanRow, Report } from "../schema";
import { chart, niceScale, rows, tooltip } from "../charts";
import { figure, h, legend, section, svg, table } from "../dom";
import { delta, fixed, gib, gibRange, number, seconds, secondsRange, timeUnit } from "../format";
import { BREAKDOWN, breakdownBar, part } from "./header";

/** Memory over the step as a line against the device limit (the upper edge). */
function sparkline(values: number[], limit: number) {
  const w = 74, height = 20, x = (i: number) => (i / (values.length - 1)) * w, y = (v: number) => height - 1 - (v / limit) * (height - 2);
  const line = values.map((v, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(v).toFixed(1)}`).join("");
  return svg("svg", { class: "spark", viewBox: `0 0 ${w} ${height}`, width: w, height, role: "img", "aria-label": `memory over the step, peak ${gib(Math.max(...values))}` },
    svg("path", { d: `${line}L${w} ${height}L0 ${height}Z`, class: "area" }), svg("path", { d: line, class: "line" }), svg("path", { d: `M0 .5H${w}`, class: "limit" }));
}

/** The two largest changes against the baseline, by component. */
function changes(row: PlanRow, base: PlanRow) {
  return BREAKDOWN.map(([key, name]) => [name, part(row.time, key) - part(base.time, key)] as [string, number]).filter(([, d]) => Math.abs(d) > 0.005 * base.step_time_s)
    .sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, 2).map(([name, d]) => `${name.replace("exposed ", "").replace("pipeline ", "")} ${delta(seconds(d))}`).join(", ");
}

export function plansSection(report: Report) {
  const plans = report.plans!, limit = report.verdict!.device_usable_gib;
  // Without a baseline, the differences are against the plan chosen.
  const base = plans.rows.find((r) => r.id === (plans.baseline ?? plans.chosen)) ?? plans.rows[0], against = base.id === plans.chosen ? "the best" : "the baseline";
  const [unit, factor] = timeUnit(Math.max(...plans.rows.map((r) => r.step_time_s)));
  const lowS = (r: PlanRow) => r.step_time_low_s ?? r.step_time_s, highS = (r: PlanRow) => r.step_time_high_s ?? r.step_time_s, lowG = (r: PlanRow) => r.peak_low_gib ?? r.peak_gib, highG = (r: PlanRow) => r.peak_high_gib ?? r.peak_gib;
  const memoryEnd = niceScale(1.05 * Math.max(limit, ...plans.rows.map(highG)), true), timeEnd = niceScale(1.05 * factor * Math.max(...plans.rows.map(highS)), true);
  const slowest = Math.max(...plans.rows.map((r) => r.step_time_s));
  const front = plans.rows.filter((r) => !plans.rows.some((o) => o !== r && o.step_time_s <= r.step_time_s && o.peak_gib <= r.peak_gib)).sort((a, b) => a.peak_gib - b.peak_gib);
  const rank = new Map([...plans.rows].sort((a, b) => a.step_time_s - b.step_time_s).map((r, i) => [r, i + 1] as [PlanRow, number]));
  const lines = new Map<string, HTMLElement>();
  const mark = (id: string | null) => lines.forEach((tr, key) => tr.classList.toggle("marked", key === id));

  const pareto = chart("Step time against peak memory of every plan, with the Pareto front", (t) => (t.narrow ? 320 : 330), (t) => ({
    grid: { left: 46, right: 24, top: 14, bottom: 44, outerBoundsMode: "none" },
    tooltip: { trigger: "item", ...tooltip(t, (p: any) => {
      const r = plans.rows.find((x) => x.id === p.name)!;
      return rows(`${rank.get(r)}  ${r.name}`, [["step", seconds(r.step_time_s) + secondsRange(r.step_time_low_s, r.step_time_high_s, r.step_time_s)], ["peak", gib(r.peak_gib) + gibRange(r.peak_low_gib, r.peak_high_gib)], ["against " + against, changes(r, base) || "–"]]);
    }) },
    xAxis: { type: "value", min: 0, max: memoryEnd[0], interval: memoryEnd[1], name: "peak memory of the heaviest rank, GiB", nameGap: 28, ...t.axis, splitLine: { show: false } } as any,
    yAxis: { type: "value", min: 0, max: timeEnd[0], interval: timeEnd[1], name: `step time, ${unit}`, nameGap: 30, ...t.axis, axisLine: { show: false }, axisTick: { show: false } } as any,
    series: [
      { type: "line", data: front.map((r) => [r.peak_gib, factor * r.step_time_s]), step: "end", symbol: "none", silent: true, lineStyle: { color: t.color("compute"), width: 1.5 }, z: 1,
        markLine: { symbol: "none", silent: true, lineStyle: { color: t.color("bad"), type: "dashed", width: 1 }, label: { formatter: `${fixed(limit, 1)} usable`, position: "insideEndTop", color: t.color("bad"), fontSize: 11 }, data: [{ xAxis: limit }] } },
      { type: "custom", silent: true, z: 1, data: plans.rows.map((r) => [r.peak_gib, factor * r.step_time_s, factor * lowS(r), factor * highS(r), lowG(r), highG(r)]), encode: { x: 0, y: 1 },
        renderItem: (_: any, api: any) => {
          const lo = api.coord([api.value(0), api.value(2)]), hi = api.coord([api.value(0), api.value(3)]), a = api.coord([api.value(4), api.value(1)]), b = api.coord([api.value(5), api.value(1)]);
          const style = { stroke: t.color("axis"), lineWidth: 1 };
          return { type: "group", children: [{ type: "line", shape: { x1: lo[0], y1: lo[1], x2: hi[0], y2: hi[1] }, style }, { type: "line", shape: { x1: a[0], y1: a[1], x2: b[0], y2: b[1] }, style }] };
        } },
      { type: "scatter", z: 3, data: plans.rows.map((r) => {
        const on = front.includes(r);
        return { name: r.id, value: [r.peak_gib, factor * r.step_time_s], symbolSize: 16, symbol: "circle",
          itemStyle: { opacity: 1, color: on ? t.color("compute") : t.color("page"), borderColor: on ? t.color("compute") : t.color("muted"), borderWidth: 1.5 },
          label: { show: true, position: "inside", formatter: String(rank.get(r)), color: t.color(on ? "on-solid" : "ink"), fontSize: 10.5, fontWeight: "bold" }};
      }) },
      { type: "scatter", silent: true, symbolSize: 17, z: 4, itemStyle: { color: "transparent" }, data: plans.rows.filter((r) => r.id === plans.chosen || r.id === plans.baseline).map((r) => ({ value: [r.peak_gib, factor * r.step_time_s],
        label: { show: true, position: r.id === plans.chosen ? "bottom" : "top", distance: 5, color: t.color("ink"), fontSize: 11.5, formatter: r.id === plans.chosen ? `best: ${r.name}` : "baseline" } })) },
    ],
  } as any), (c) => { c.on("mouseover", (p: any) => mark(p.name)); c.on("mouseout", () => mark(null)); c.on("click", (p: any) => lines.get(p.name)?.scrollIntoView({ block: "center" })); });

  const list = table<PlanRow>("Plans, sortable", [
    { head: "#", numeric: true, title: "rank by step time; the number in the figure", cell: (r) => h("span", { class: front.includes(r) ? "rank on" : "rank" }, String(rank.get(r))) },
    { head: "Plan", header: true, sort: (r) => r.name, cell: (r) => [h("span", { class: "plan-name" }, r.name), r.id === plans.chosen && h("span", { class: "tag" }, "best"), r.id === plans.baseline && h("span", { class: "tag quiet" }, "baseline")] },
    { head: "Step", unit, numeric: true, sort: (r) => r.step_time_s, cell: (r) => [h("b", null, number(factor * r.step_time_s)), h("small", null, secondsRange(r.step_time_low_s, r.step_time_high_s, r.step_time_s, factor))] },
    { head: "Δ", unit: "%", numeric: true, title: "against " + against, sort: (r) => r.step_time_s, cell: (r) => (r === base ? "0" : delta(fixed(100 * (r.step_time_s / base.step_time_s - 1), 0))) },
    { head: "Where the time goes", cell: (r) => breakdownBar(r.time, slowest) },
    { head: "Peak", unit: "GiB", numeric: true, sort: (r) => r.peak_gib, cell: (r) => [h("b", null, fixed(r.peak_gib, 1)), highG(r) > lowG(r) && h("small", null, ` ±${fixed((highG(r) - lowG(r)) / 2, 1)}`)] },
    ...(plans.rows.some((r) => r.memory_trace_gib) ? [{ head: "Memory", cell: (r: PlanRow) => (r.memory_trace_gib ? sparkline(r.memory_trace_gib, limit) : "–") }] : []),
    { head: "Tokens/s", unit: "per GPU", numeric: true, hide: "narrow", sort: (r) => -r.tokens_per_s_per_gpu, cell: (r) => number(r.tokens_per_s_per_gpu, 4) },
    { head: "MFU", unit: "%", numeric: true, hide: "narrow", sort: (r) => -r.mfu, cell: (r) => fixed(100 * r.mfu, 1) },
    { head: "Why it differs from " + against, cell: (r) => h("span", { class: "cause" }, r !== base && h("b", null, changes(r, base), h("br")), r.cause) },
  ], plans.rows, { sorted: 2, rowClass: (r) => (r.id === plans.chosen ? "chosen" : ""), onRow: (r, tr) => lines.set(r.id, tr) });

  return section("plans", "Plans compared", report.findings.plans,
    h("div", { class: "split even" },
      figure("Down and left is better. Numbers are ranks in the table below, crosses intervals (where wider than the point); filled points lie on the Pareto front.", pareto.host),
      plans.rejected.length > 0 && h("div", null, h("h3", null, `${plans.rows.length} of ${plans.considered} candidates kept; examples of the rejected`),
        table("Rejected candidates", [
          { head: "Candidate", header: true, cell: (r) => r.name },
          { head: "Peak", unit: "GiB", numeric: true, cell: (r) => (r.peak_gib === null ? "–" : fixed(r.peak_gib, 1)) },
          { head: "Reason", cell: (r) => [h("code", null, r.code), " " + r.reason] },
        ], plans.rejected))),
    h("div", { class: "plan-table" }, h("h3", null, "Every plan kept, fastest first"), legend(BREAKDOWN.filter(([key]) => plans.rows.some((r) => part(r.time, key) > 0)).map(([, name, color]) => [color, name, color === "bubble" ? "bubble" : ""] as [string, string, string])), list),
    h("p", { class: "note" }, `Δ is against ${base.name}. Bars and memory lines each share one scale. The upper edge of a memory line is ${gib(limit)}. MFU counts model FLOPs only, not recompute.`));
}
