import type { Report, Score, SourceScore, ValidationRow, WorstRow } from "../schema";
import { chart, rows as tipRows, tooltip } from "../charts";
import { figure, h, legend, section, segmented, table } from "../dom";
import { count, delta, fixed, number, percent, range, seconds, tick } from "../format";

const KNOWN: Record<string, [name: string, unit: string]> = { iteration_s: ["step time", "s"], step_time_s: ["step time", "s"], peak_memory_gib: ["peak memory", "GiB"], peak_gib: ["peak memory", "GiB"] };
// A metric without a name of its own is called by its key; the key's end is its unit.
const nameOf = (metric: string): [name: string, unit: string] => KNOWN[metric] ?? [metric.replace(/_(s|gib)$/, "").replace(/_/g, " "), metric.endsWith("_gib") ? "GiB" : metric.endsWith("_s") ? "s" : ""];
const SYMBOLS = ["circle", "triangle", "rect", "diamond", "roundRect"], PALETTE = ["compute", "comm", "vision", "align", "head"];
/** Symbol and colour of the k-th source: 25 that differ. */
const mark = (k: number): [symbol: string, color: string] => [SYMBOLS[k % 5], PALETTE[(k + Math.floor(k / 5)) % 5]];
const FARTHEST = 100; // percent: errors beyond are drawn at the edge

/** Above: predicted against measured, both logarithmic. Below: the relative error, where the bands can be read. */
function scatter(rowsOf: () => ValidationRow[], metricOf: () => string, sources: string[]) {
  return chart("Predicted against measured on logarithmic axes, and the relative error below, with bands of 5 and 10 percent", (t) => Math.min(400, t.width * 0.8) + 250, (t) => {
    const list = rowsOf(), [name, unit] = nameOf(metricOf()), all = list.flatMap((r) => [r.measured, r.predicted]), log = Math.log10;
    const lo = Math.min(...all) / 1.2, hi = Math.max(...all) * 1.2, upper = Math.min(400, t.width * 0.8) - 20;
    const ticks = [-3, -2, -1, 0, 1, 2, 3, 4].flatMap((e) => (hi / lo > 2000 ? [1] : [1, 2, 5]).map((x) => x * 10 ** e)).filter((x) => x >= lo && x <= hi).map(log);
    const most = Math.min(FARTHEST, Math.ceil(Math.max(...list.map((r) => Math.abs(r.relative_error))) * 10) * 10);
    const axis = { type: "value", min: log(lo), max: log(hi), ...t.axis, axisLine: { onZero: false, lineStyle: { color: t.color("axis") } }, splitLine: { show: false }, axisTick: { customValues: ticks, lineStyle: { color: t.color("axis") }, length: 4 }, axisLabel: { ...t.text, customValues: ticks, formatter: (x: number) => tick(10 ** x) } };
    const polygon = (grid: number, color: string, corners: number[][]) => ({ type: "custom", silent: true, z: 0, clip: true, xAxisIndex: grid, yAxisIndex: grid, data: [[log(lo), grid ? 0 : log(lo)]], renderItem: (_: any, api: any) => ({ type: "polygon", shape: { points: corners.map((q) => api.coord(q)) }, style: { fill: t.color(color) } }) });
    const bands = ([[0.1, "band-10"], [0.05, "band-5"]] as [number, string][]).flatMap(([s, color]) => [
      polygon(0, color, [[log(lo), log(lo * (1 - s))], [log(hi), log(hi * (1 - s))], [log(hi), log(hi * (1 + s))], [log(lo), log(lo * (1 + s))]]),
      polygon(1, color, [[log(lo), -100 * s], [log(hi), -100 * s], [log(hi), 100 * s], [log(lo), 100 * s]])]);
    const line = (grid: number, from: number[], to: number[]) => ({ type: "line", xAxisIndex: grid, yAxisIndex: grid, data: [from, to], symbol: "none", silent: true, lineStyle: { color: t.color("axis"), width: 1 }, z: 1 });
    return {
      grid: [{ left: 52, right: 14, top: 10, height: upper, outerBoundsMode: "none" }, { left: 52, right: 14, top: upper + 48, bottom: 46, outerBoundsMode: "none" }],
      tooltip: { trigger: "item", ...tooltip(t, (p: any) => { const r = p.data.row as ValidationRow; return tipRows(`${r.id}, ${r.source}`, [["what", r.what], ["measured", `${number(r.measured)} ${unit}`], ["predicted", `${number(r.predicted)} ${unit}${band(r)}`], ["error", delta(percent(r.relative_error))], ...(r.likely_cause ? [["likely cause", r.likely_cause] as [string, string]] : [])]); }) },
      xAxis: [{ ...axis, gridIndex: 0 }, { ...axis, gridIndex: 1, name: `measured ${name}, ${unit}`, nameGap: 28 }],
      yAxis: [{ ...axis, gridIndex: 0, name: `predicted ${name}, ${unit}`, nameGap: 36 }, { type: "value", gridIndex: 1, min: -most, max: most, interval: most / 3 === Math.round(most / 3) && most > 20 ? most / 3 : most / 2, ...t.axis, name: "error, %", nameGap: 36, splitLine: { show: false }, axisLine: { onZero: false, lineStyle: { color: t.color("axis") } }, axisLabel: { ...t.text, formatter: (x: number) => delta(tick(x)).replace(/^\+0$/, "0") } }],
      series: [...bands, line(0, [log(lo), log(lo)], [log(hi), log(hi)]), line(1, [log(lo), 0], [log(hi), 0]),
        ...[0, 1].flatMap((grid) => sources.map((s, k) => ({ name: s, type: "scatter", xAxisIndex: grid, yAxisIndex: grid, symbol: mark(k)[0], symbolSize: 7.5, z: 3, itemStyle: { color: t.color(mark(k)[1]), opacity: 0.85, borderColor: t.color("page"), borderWidth: 0.6 }, data: list.filter((r) => r.source === s).map((r) => ({ value: [log(r.measured), grid ? Math.max(-most, Math.min(most, 100 * r.relative_error)) : log(r.predicted)], row: r })) })))],
    } as any;
  });
}

/** " [low–high]" of the interval, with as many digits as the prediction. */
function band(r: ValidationRow): string {
  if (r.band_low === undefined || r.band_high === undefined) return "";
  return ` [${range(r.band_low, r.band_high, Math.max(0, 2 - Math.floor(Math.log10(r.predicted))))}]`;
}

const key = (sources: string[], all: string[]) => h("ul", { class: "legend" }, ...sources.map((s) => {
  const [symbol, color] = mark(all.indexOf(s));
  return h("li", null, h("span", { class: `swatch mark ${symbol}`, style: `--c:var(--${color})` }), s);
}));

function scores(m: Score) {
  return h("dl", { class: "scores" }, ...([["rows", count(m.n), `${count(m.skipped)} skipped, each with a reason`], ...(typeof m.clusters === "number" ? [["clusters", count(m.clusters), "of near copies"]] : []), ["median error", percent(m.median_ape), "absolute"], ["mean error", percent(m.mape), "absolute"], ["90th percentile", percent(m.p90_ape), "absolute"], ...(typeof m.cluster_mape === "number" ? [["mean of clusters", percent(m.cluster_mape), "near copies count once"]] : []), ["bias", delta(percent(m.bias)), "signed mean"], ...(typeof m.kendall_tau === "number" ? [["Kendall τ", fixed(m.kendall_tau, 2), "order within a source"]] : []), ...(typeof m.coverage_90 === "number" ? [["90\u202f% interval", percent(m.coverage_90), "of rows inside"]] : [])] as [string, string, string][])
    .map(([k, x, note]) => h("div", null, h("dt", null, k), h("dd", null, x, h("small", null, note)))));
}

export function validationSection(report: Report) {
  return report.validation!.by_source ? publishedSection(report) : plainSection(report);
}

function plainSection(report: Report) {
  const v = report.validation!;
  const metrics = Object.keys(v.metrics).filter((m) => v.rows.some((r) => r.metric === m));
  let metric = metrics[0];
  const rowsOf = () => v.rows.filter((r) => r.metric === metric);
  const sources = [...new Set(v.rows.map((r) => r.source))].sort();
  const plot = scatter(rowsOf, () => metric, sources);

  const right = h("div");
  const fill = () => {
    const [name, unit] = nameOf(metric);
    const worst = [...rowsOf()].sort((a, b) => Math.abs(b.relative_error) - Math.abs(a.relative_error)).slice(0, 8);
    right.replaceChildren(
      scores(v.metrics[metric]),
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
      figure("Inner band ±5 %, outer ±10 %. Nothing measured enters a prediction.", key(sources, sources), plot.host), right));
}

const share = (x: number | null, sign = false) => (x === null ? "–" : sign ? delta(fixed(100 * x, 1)) : fixed(100 * x, 1));

/** Published measurements, whole: a figure and a table per metric, the worst rows by their terms, and what is not compared. */
function publishedSection(report: Report) {
  const v = report.validation!, sources = [...new Set(v.rows.map((r) => r.source))].sort();
  const metrics = ["iteration_s", "peak_memory_gib"].filter((m) => v.by_source!.some((s) => s.metric === m));
  const capital = (text: string) => text[0].toUpperCase() + text.slice(1);
  return section("validation", "Predicted against measured", report.findings.validation,
    ...metrics.flatMap((metric) => {
      const [name] = nameOf(metric), list = v.rows.filter((r) => r.metric === metric), here = sources.filter((s) => list.some((r) => r.source === s));
      return [
        h("h3", null, capital(name)),
        v.metrics[metric] && scores(v.metrics[metric]),
        list.length > 0 && figure(`A point is one row. Inner band ±5 %, outer ±10 %; the line is equality. Below, errors beyond ±${FARTHEST} % stand at the edge.`, key(here, sources), scatter(() => list, () => metric, sources).host),
        sourceTable(name, v.by_source!.filter((s) => s.metric === metric)),
      ];
    }),
    v.worst!.length > 0 && worstRows(v.worst!),
    ...choice(report),
    v.fits && h("h3", null, "Did it fit?"),
    v.fits && table("Did it fit?", [
      { head: "Reported", header: true, cell: (r) => r.reported },
      { head: "predicted out of memory", numeric: true, cell: (r) => count(r.predicted_oom) }, { head: "at risk", numeric: true, cell: (r) => count(r.predicted_at_risk) }, { head: "fits", numeric: true, cell: (r) => count(r.predicted_fits) },
    ], v.fits),
    v.skipped!.length > 0 && h("h3", null, "Rows that are not compared, and why"),
    v.skipped!.length > 0 && table("Rows that are not compared, and why", [
      { head: "Reason", header: true, cell: (r) => r.reason },
      { head: "Rows", numeric: true, sort: (r) => -r.rows, cell: (r) => count(r.rows) },
      { head: "Records", cell: (r) => (r.ids.length === 1 ? h("span", { class: "ids" }, r.ids[0]) : h("details", { class: "ids" }, h("summary", null, `${r.ids[0]} and ${r.ids.length - 1} more`), h("p", null, r.ids.join(", ")))) },
    ], v.skipped!, { sorted: 1 }));
}

function sourceTable(name: string, list: SourceScore[]) {
  const column = (head: string, unit: string | undefined, of: (s: SourceScore["score"]) => number | null, text: (x: number | null) => string, title?: string) =>
    ({ head, unit, title, numeric: true, sort: (r: SourceScore) => of(r.score) ?? Infinity, cell: (r: SourceScore) => text(of(r.score)) });
  return h("div", { class: "source-table" }, table<SourceScore>(`${name} by source`, [
    { head: "Source", header: true, sort: (r) => r.source, cell: (r) => r.source },
    column("Rows", undefined, (s) => s.n, (x) => count(x!)), column("Skipped", undefined, (s) => s.skipped, (x) => count(x!)), column("Clusters", undefined, (s) => s.clusters, (x) => count(x!), "groups of near copies"),
    column("Mean", "%", (s) => s.mape, share), column("Median", "%", (s) => s.median_ape, share), column("p90", "%", (s) => s.p90_ape, share), column("Bias", "%", (s) => s.bias, (x) => share(x, true), "mean of the signed error"),
    column("τ", undefined, (s) => s.kendall_tau, (x) => (x === null ? "–" : fixed(x, 2)), "Kendall's tau-b over pairs of the source"),
    column("Mean of clusters", "%", (s) => s.cluster_mape, share, "near copies count once"), column("In the interval", "%", (s) => s.coverage_90, share, "measurements inside of the 90 % interval"),
  ], list, { sorted: 0, rowClass: (r) => (r.score.n === 0 ? "quiet" : "") }));
}

const KINDS: [kind: string, label: string][] = [["compute", "compute"], ["comm", "exposed exchange"], ["gradient", "gathers and reductions"], ["pp", "pipeline transfers"], ["bubble", "bubbles and waits"], ["align", "alignment wait"], ["data", "host and data"], ["optimizer", "optimizer"]];

/** The predicted step by its terms; full width is the longer of predicted and measured, and the upright tick is measured. */
function termsBar(r: WorstRow) {
  const scale = Math.max(r.predicted, r.measured), text = `${r.terms!.map((t) => `${t.name} ${seconds(t.s)}`).join(", ")}; measured ${seconds(r.measured)}`;
  return h("div", { class: "stack beside", role: "img", "aria-label": text, title: text },
    ...r.terms!.map((t) => h("span", { class: t.kind, style: `width:${((100 * t.s) / scale).toFixed(2)}%;--c:var(--${t.kind})` })),
    h("i", { style: `left:${((100 * r.measured) / scale).toFixed(2)}%` }));
}

function worstRows(list: WorstRow[]) {
  const used = KINDS.filter(([kind]) => list.some((r) => r.terms?.some((t) => t.kind === kind)));
  return h("div", { class: "worst-table" },
    h("h3", null, `The ${list.length} rows furthest off, by their terms`),
    used.length > 0 && legend([...used.map(([kind, label]) => [kind, label, kind === "bubble" ? "bubble" : ""] as [string, string, string]), ["ink", "measured", "tick"]]),
    table<WorstRow>("Rows furthest off", [
      { head: "Row", header: true, cell: (r) => [h("span", { class: "row-id" }, r.id), h("small", { class: "remark" }, r.what), h("small", { class: "remark" }, r.source)] },
      { head: "Figure", cell: (r) => nameOf(r.metric)[0] },
      { head: "Predicted", numeric: true, cell: (r) => [h("b", null, number(r.predicted)), " " + nameOf(r.metric)[1], h("small", { class: "remark" }, band(r).trim())] },
      { head: "Measured", numeric: true, cell: (r) => [h("b", null, number(r.measured)), " " + nameOf(r.metric)[1]] },
      { head: "Error", unit: "%", numeric: true, sort: (r) => -Math.abs(Math.log(r.predicted / r.measured)), cell: (r) => delta(fixed(100 * r.relative_error, 1)) },
      { head: "Where the prediction goes", cell: (r) => h("div", { class: "explained" }, r.terms && termsBar(r), h("p", null, r.explanation), h("p", null, r.bounds),
        r.assumed.length > 0 && h("details", { class: "facts" }, h("summary", null, `${r.assumed.length} assumed for what is not told`), h("ul", null, ...r.assumed.map((a) => h("li", null, a))))) },
    ], list, { sorted: 4 }));
}

function choice(report: Report) {
  const { plan_choice: c, ranking } = report.validation!;
  const order = (plans: { id: string; measured_s: number; predicted_s: number }[], by: "measured_s" | "predicted_s") => [...plans].sort((a, b) => a[by] - b[by]).map((p) => p.id.slice(p.id.lastIndexOf("/") + 1)).join(", ");
  return [
    (c || ranking) && h("h3", null, "Choice of a plan"),
    c && h("p", null, `In ${count(c.groups)} groups of plans of one model, GPU and sequence length, the plan predicted to be best is ${c.regret_mean === null ? "–" : percent(c.regret_mean)} slower than the best measured in the mean, ${c.regret_worst === null ? "–" : percent(c.regret_worst)} at worst.`,
      c.kendall_tau_10_percent !== null && ` Over pairs that were measured at least 10 % apart, Kendall’s τ is ${fixed(c.kendall_tau_10_percent, 2)}.`),
    ranking && table("Plans measured against each other", [
      { head: "Comparison", header: true, cell: (r) => r.set }, { head: "Plans", numeric: true, cell: (r) => count(r.plans.length) },
      { head: "τ", numeric: true, cell: (r) => (r.kendall_tau === null ? "–" : fixed(r.kendall_tau, 2)) },
      { head: "Fastest first, predicted", cell: (r) => order(r.plans, "predicted_s") }, { head: "Fastest first, measured", cell: (r) => order(r.plans, "measured_s") },
    ], ranking),
  ];
}
