import type { Report, ValidationRow } from "../schema";
import { chart, rows as tipRows, tooltip } from "../charts";
import { figure, h, section, segmented, table } from "../dom";
import { delta, fixed, number, percent, tick } from "../format";

const KNOWN: Record<string, [name: string, unit: string]> = { iteration_s: ["step time", "s"], step_time_s: ["step time", "s"], peak_memory_gib: ["peak memory", "GiB"], peak_gib: ["peak memory", "GiB"] };
// A metric without a name of its own is called by its key; the key's end is its unit.
const nameOf = (metric: string): [name: string, unit: string] => KNOWN[metric] ?? [metric.replace(/_(s|gib)$/, "").replace(/_/g, " "), metric.endsWith("_gib") ? "GiB" : metric.endsWith("_s") ? "s" : ""];
const SYMBOLS = ["circle", "triangle", "rect", "diamond", "roundRect"];

export function validationSection(report: Report) {
  const v = report.validation!;
  const metrics = Object.keys(v.metrics).filter((m) => v.rows.some((r) => r.metric === m));
  let metric = metrics[0];
  const rowsOf = () => v.rows.filter((r) => r.metric === metric);
  const sources = [...new Set(v.rows.map((r) => r.source))].sort();
  const palette = ["compute", "comm", "vision", "align", "head"];

  // Above: predicted against measured, both logarithmic. Below: the relative error, where the bands can be read.
  const plot = chart("Predicted against measured on logarithmic axes, and the relative error below, with bands of 5 and 10 percent", (t) => Math.min(400, t.width * 0.8) + 250, (t) => {
    const list = rowsOf(), [name, unit] = nameOf(metric), all = list.flatMap((r) => [r.measured, r.predicted]), log = Math.log10;
    const lo = Math.min(...all) / 1.2, hi = Math.max(...all) * 1.2, upper = Math.min(400, t.width * 0.8) - 20;
    const ticks = [-3, -2, -1, 0, 1, 2, 3, 4].flatMap((e) => (hi / lo > 2000 ? [1] : [1, 2, 5]).map((x) => x * 10 ** e)).filter((x) => x >= lo && x <= hi).map(log);
    const most = Math.ceil(Math.max(...list.map((r) => Math.abs(r.relative_error))) * 10) * 10;
    const axis = { type: "value", min: log(lo), max: log(hi), ...t.axis, axisLine: { onZero: false, lineStyle: { color: t.color("axis") } }, splitLine: { show: false }, axisTick: { customValues: ticks, lineStyle: { color: t.color("axis") }, length: 4 }, axisLabel: { ...t.text, customValues: ticks, formatter: (x: number) => tick(10 ** x) } };
    const polygon = (grid: number, color: string, corners: number[][]) => ({ type: "custom", silent: true, z: 0, clip: true, xAxisIndex: grid, yAxisIndex: grid, data: [[log(lo), grid ? 0 : log(lo)]], renderItem: (_: any, api: any) => ({ type: "polygon", shape: { points: corners.map((q) => api.coord(q)) }, style: { fill: t.color(color) } }) });
    const bands = ([[0.1, "band-10"], [0.05, "band-5"]] as [number, string][]).flatMap(([s, color]) => [
      polygon(0, color, [[log(lo), log(lo * (1 - s))], [log(hi), log(hi * (1 - s))], [log(hi), log(hi * (1 + s))], [log(lo), log(lo * (1 + s))]]),
      polygon(1, color, [[log(lo), -100 * s], [log(hi), -100 * s], [log(hi), 100 * s], [log(lo), 100 * s]])]);
    const line = (grid: number, from: number[], to: number[]) => ({ type: "line", xAxisIndex: grid, yAxisIndex: grid, data: [from, to], symbol: "none", silent: true, lineStyle: { color: t.color("axis"), width: 1 }, z: 1 });
    return {
      grid: [{ left: 52, right: 14, top: 10, height: upper, outerBoundsMode: "none" }, { left: 52, right: 14, top: upper + 48, bottom: 46, outerBoundsMode: "none" }],
      tooltip: { trigger: "item", ...tooltip(t, (p: any) => { const r = p.data.row as ValidationRow; return tipRows(`${r.id}, ${r.source}`, [["what", r.what], ["measured", `${number(r.measured)} ${unit}`], ["predicted", `${number(r.predicted)} ${unit}`], ["error", delta(percent(r.relative_error))], ...(r.likely_cause ? [["likely cause", r.likely_cause] as [string, string]] : [])]); }) },
      xAxis: [{ ...axis, gridIndex: 0 }, { ...axis, gridIndex: 1, name: `measured ${name}, ${unit}`, nameGap: 28 }],
      yAxis: [{ ...axis, gridIndex: 0, name: `predicted ${name}, ${unit}`, nameGap: 36 }, { type: "value", gridIndex: 1, min: -most, max: most, interval: most / 3 === Math.round(most / 3) && most > 20 ? most / 3 : most / 2, ...t.axis, name: "error, %", nameGap: 36, splitLine: { show: false }, axisLine: { onZero: false, lineStyle: { color: t.color("axis") } }, axisLabel: { ...t.text, formatter: (x: number) => delta(tick(x)).replace(/^\+0$/, "0") } }],
      series: [...bands, line(0, [log(lo), log(lo)], [log(hi), log(hi)]), line(1, [log(lo), 0], [log(hi), 0]),
        ...[0, 1].flatMap((grid) => sources.map((s, k) => ({ name: s, type: "scatter", xAxisIndex: grid, yAxisIndex: grid, symbol: SYMBOLS[k % 5], symbolSize: 7.5, z: 3, itemStyle: { color: t.color(palette[k % 5]), opacity: 0.85, borderColor: t.color("page"), borderWidth: 0.6 }, data: list.filter((r) => r.source === s).map((r) => ({ value: [log(r.measured), grid ? 100 * r.relative_error : log(r.predicted)], row: r })) })))],
    } as any;
  });

  const right = h("div");
  const fill = () => {
    const m = v.metrics[metric], [name, unit] = nameOf(metric);
    const worst = [...rowsOf()].sort((a, b) => Math.abs(b.relative_error) - Math.abs(a.relative_error)).slice(0, 8);
    right.replaceChildren(
      h("dl", { class: "scores" }, ...([["rows", String(m.n), `${m.skipped} skipped, each with a reason`], ["median error", percent(m.median_ape), "absolute"], ["mean error", percent(m.mape), "absolute"], ["90th percentile", percent(m.p90_ape), "absolute"], ["bias", delta(percent(m.bias)), "signed mean"], ...(typeof m.kendall_tau === "number" ? [["Kendall τ", fixed(m.kendall_tau, 2), "order within a source"]] : []), ...(typeof m.coverage_90 === "number" ? [["90\u202f% interval", percent(m.coverage_90), "of rows inside"]] : [])] as [string, string, string][])
        .map(([k, x, note]) => h("div", null, h("dt", null, k), h("dd", null, x, h("small", null, note))))),
      h("h3", null, `Worst rows, ${name}`),
      table(`Worst rows, ${name}`, [
        { head: "Row", header: true, cell: (r) => r.id },
        { head: "What", cell: (r) => [r.what, h("small", null, ` ${r.source}`)] },
        { head: "Measured", unit, numeric: true, sort: (r) => r.measured, cell: (r) => number(r.measured) },
        { head: "Predicted", unit, numeric: true, sort: (r) => r.predicted, cell: (r) => number(r.predicted) },
        { head: "Error", unit: "%", numeric: true, sort: (r) => -Math.abs(r.relative_error), cell: (r) => delta(fixed(100 * r.relative_error, 1)) },
        { head: "Likely cause", cell: (r) => r.likely_cause ?? "–" },
      ], worst, { sorted: 4 }));
  };
  fill();
  return section("validation", "Predicted against measured", report.findings.validation,
    h("div", { class: "controls" }, metrics.length > 1 && segmented("Quantity", metrics.map((m) => [m, nameOf(m)[0]]), metric, (x) => { metric = x; fill(); plot.redraw(); })),
    h("div", { class: "split even" },
      figure("Inner band ±5 %, outer ±10 %. Nothing measured enters a prediction.",
        h("ul", { class: "legend" }, ...sources.map((s, k) => h("li", null, h("span", { class: `swatch mark ${SYMBOLS[k % 5]}`, style: `--c:var(--${palette[k % 5]})` }), s))), plot.host), right));
}
