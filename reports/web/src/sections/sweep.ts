// The golden-formula sweep: a table of every model on every cluster, then one grid at a time to explore.

import type { Report, SweepModel } from "../schema";
import { chart, niceScale, type Theme } from "../charts";
import { figure, h, section, segmented } from "../dom";
import { count, number, percent, setting, tick, timeUnit } from "../format";
import { at, gridOf } from "../grid";
import { heatMap, type View } from "./heat";
import { pointPanel, pointStatus } from "./point";
import { limitShares, summaryTable } from "./summary";

const FORMULA: Record<string, string> = { max: "max", sum: "Σ", critical_path: "path" };
const NAMES: Record<string, string> = { max: "maximum", sum: "sum", critical_path: "critical path" };

export function sweepSection(report: Report) {
  const sweep = report.sweep!;
  let entry = sweep.models[0], combine = sweep.fit?.combine ?? "max";
  const own = combine, variants = new Map<string, SweepModel>();
  // The entry as another way to combine the modalities sees it; one object each, as its grid is decoded once.
  const variant = (e: SweepModel) => {
    const other = e.combines?.[combine], key = `${e.id} ${combine}`;
    if (!other) return e;
    if (!variants.has(key)) variants.set(key, { ...e, ...other });
    return variants.get(key)!;
  };
  let grid = gridOf(sweep, entry), view: View = "time", point = { ...grid.home };
  const names = [...new Set(sweep.models.map((m) => m.name))], clusters = [...new Set(sweep.models.map((m) => m.cluster))];

  const slider = h("input", { type: "range", id: "mar", min: 0, step: 1, oninput: () => { point.k = Number(slider.value); update(); } });
  const sliderValue = h("output", { for: "mar" });
  const coverage = h("div", { class: "coverage" }), panel = h("div"), status = h("p", { class: "gap", role: "status" });
  const map = heatMap(sweep, (i, j) => { point.i = i; point.j = j; update(); });

  const byModel = segmented("Model", names.map((n) => [n, n]), entry.name, (name) => choose(sweep.models.find((m) => m.name === name && m.cluster === entry.cluster) ?? sweep.models.find((m) => m.name === name)!));
  const byCluster = segmented("Cluster", clusters.map((c) => [c, c]), entry.cluster, (c) => choose(sweep.models.find((m) => m.cluster === c && m.name === entry.name)!));
  const check = (set: HTMLElement, value: string, enabled: (v: string) => boolean) => set.querySelectorAll("input").forEach((x) => { x.checked = x.value === value; x.disabled = !enabled(x.value); });

  function choose(next: SweepModel) {
    entry = next;
    grid = gridOf(sweep, variant(entry));
    point = { ...grid.home };
    check(byModel, entry.name, () => true);
    check(byCluster, entry.cluster, (c) => sweep.models.some((m) => m.name === entry.name && m.cluster === c));
    update();
  }

  // Three slices through the selected point: one axis moves, the other two stay.
  const slice = (axis: "i" | "j" | "k", name: string, values: () => number[]) => chart(`Formula and simulation along ${name}`, 165, (t: Theme) => {
    const v = values(), along = (n: number) => ({ ...point, [axis]: n }), every = Math.ceil(v.length / (t.width < 300 ? 5 : 8)), shown = v.filter((_, n) => n % every === 0);
    const [, factor] = timeUnit(grid.high);
    const line = (of: (i: number, j: number, k: number) => number | null) => v.map((x, n) => { const p = along(n), y = of(p.i, p.j, p.k); return [x, y === null ? null : y * factor]; });
    const sim = line(grid.simulated), formula = line(grid.formula), [top, gap] = niceScale(Math.max(...[...sim, ...formula].map((x) => x[1] ?? 0))), log = v[0] > 0 && v[v.length - 1] / v[0] > 4;
    return {
      grid: { left: 40, right: 12, top: 10, bottom: 38, outerBoundsMode: "none" },
      xAxis: { type: log ? "log" : "value", logBase: 2, min: v[0], max: v[v.length - 1], name, nameGap: 24, ...t.axis, splitLine: { show: false }, axisTick: { customValues: shown, lineStyle: { color: t.color("axis") }, length: 4 },
        axisLabel: { ...t.text, fontSize: 11, customValues: shown, formatter: (x: number) => setting(x), hideOverlap: true } },
      yAxis: { type: "value", min: 0, max: top, interval: gap, ...t.axis, axisLine: { show: false }, axisTick: { show: false }, axisLabel: { ...t.text, fontSize: 11, formatter: (x: number) => tick(x) } },
      series: [
        { type: "line", data: sim, symbol: "none", lineStyle: { color: t.color("simulated"), width: 2 }, silent: true },
        { type: "line", data: formula, symbol: "none", lineStyle: { color: t.color("compute"), width: 1.5, type: [5, 4] }, silent: true },
        { type: "scatter", data: sim[point[axis]][1] === null ? [] : [sim[point[axis]]], symbolSize: 9, itemStyle: { color: t.color("simulated"), opacity: 1 }, silent: true },
      ],
    } as any;
  });
  const slices = [slice("i", "GFLOP/token", () => grid.flops), slice("j", "GB/s", () => grid.bw), slice("k", "AlignRatio", () => grid.mar)];
  const sliceUnit = h("span");

  let later = 0;
  function update() {
    slider.max = String(grid.mar.length - 1);
    slider.value = String(point.k);
    const ratio = setting(grid.mar[point.k]);
    slider.setAttribute("aria-valuetext", `AlignRatio ${ratio}`);
    sliderValue.textContent = ratio;
    map.show(grid, view, point);
    const here = at(grid, point), place = clusters.length > 1 ? `${entry.name} on ${entry.cluster}` : entry.name;
    panel.replaceChildren(...pointPanel(sweep, `${place} at ${setting(grid.flops[point.i])} GFLOP/token, ${setting(grid.bw[point.j])} GB/s, AlignRatio ${ratio}`, grid.entry.modalities, here));
    status.replaceChildren(...pointStatus(sweep, here));
    coverage.replaceChildren(limitShares(sweep, grid),
      h("p", null, h("b", null, percent(grid.entry.inside_share, 0)), ` of the ${count(grid.points)} points of ${place} lie within ±${percent(sweep.tolerance, 0)}; median gap ${percent(grid.entry.median_gap)}, 90th percentile ${percent(grid.entry.p90_gap)}. The model’s own cost is ${setting(entry.own_gflop_per_token)} GFLOP/token.`),
      ...(entry.sentence ? [h("p", { class: "takeaway" }, entry.sentence)] : []));
    sliceUnit.textContent = timeUnit(grid.high)[0] === "ms" ? "milliseconds" : "seconds";
    // The slices come when the slider rests: the heat map answers first.
    clearTimeout(later);
    later = setTimeout(() => slices.forEach((s) => s.chart() && s.update()), 60) as unknown as number;
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", map.repaint);
  addEventListener("beforeprint", map.repaint);
  addEventListener("afterprint", map.repaint);
  choose(entry);

  const fits = sweep.fits ?? (sweep.fit ? [sweep.fit] : []), bounds = (low?: number, high?: number) => (low === undefined || high === undefined ? "" : ` [${number(low)}–${number(high)}]`);
  const formula = h("p", { class: "formula" });
  function showFormula() {
    const fit = fits.find((f) => f.combine === combine);
    formula.replaceChildren(
      h("span", null, `T = ${FORMULA[combine] ?? combine}`, h("sub", null, "k"), " [ F", h("sub", null, "k"), "/B", h("sub", null, "k"), " + G", h("sub", null, "k"), "/C", h("sub", null, "k"), " + α·Comm(k) ] + β·P", h("sub", null, "align")),
      ...(fit ? [h("small", null, `fitted over ${count(fit.points)} points: α ${number(fit.alpha)}${bounds(fit.alpha_low, fit.alpha_high)}, β ${number(fit.beta)}${bounds(fit.beta_low, fit.beta_high)}, R² ${number(fit.r2, 4)}`)] : []));
  }
  showFormula();
  const combines = h("table", { class: "combines" },
    h("thead", null, h("tr", null, ...["combined as", "α", "β", "R²", `within ±${percent(sweep.tolerance, 0)}`, "fails mostly because"].map((x) => h("th", { scope: "col" }, x)))),
    h("tbody", null, ...fits.map((f) => h("tr", null, h("th", { scope: "row" }, NAMES[f.combine] ?? f.combine), h("td", null, `${number(f.alpha)}${bounds(f.alpha_low, f.alpha_high)}`), h("td", null, `${number(f.beta)}${bounds(f.beta_low, f.beta_high)}`), h("td", null, number(f.r2, 4)),
      h("td", null, f.inside_share === undefined ? "" : percent(f.inside_share, 0)), h("td", null, f.fails_mostly ?? "–")))));
  const explorer = h("div", { class: "explorer" },
    h("h3", null, "Explore the grid"),
    h("div", { class: "controls" },
      names.length > 1 && byModel, clusters.length > 1 && byCluster,
      entry.combines && segmented("Formula", [own, ...Object.keys(entry.combines)].map((c) => [c, NAMES[c] ?? c]), combine, (c) => { combine = c; grid = gridOf(sweep, variant(entry)); showFormula(); update(); }),
      segmented("Show", [["time", "step time"], ["gap", "formula error"], ["limit", "what limits"]], view, (v) => { view = v as View; map.show(grid, view, point); }),
      h("label", { class: "slider", for: "mar" }, h("span", null, "AlignRatio"), slider, sliderValue)),
    h("div", { class: "split" },
      figure(["One cell is one simulated point", h("span", { class: "screen" }, "; click it or use the arrow keys"), `. `, h("span", { class: "home-key" }), "The ring is the grid point nearest to the operating point. ", h("span", { class: "outside-key" }), `Corner marks: formula and simulation differ by more than ${percent(sweep.tolerance, 0)}. The heavy line is that boundary, or where the limit changes.`], map.host, map.scale),
      h("div", null, h("div", { class: "panel" }, panel, status), coverage)),
    figure([h("span", { class: "key solid" }), "simulation  ", h("span", { class: "key dashed" }), "formula. Step time in ", sliceUnit, " along each axis through the selected point (dot)."],
      h("div", { class: "thirds" }, ...slices.map((s) => (s.host.dataset.share = "3", s.host)))));
  return section("sweep", "Golden-formula sweep", report.findings.sweep,
    formula,
    sweep.sentence && h("p", { class: "takeaway" }, sweep.sentence),
    fits.length > 1 && h("div", { class: "table-scroll" }, combines),
    h("h3", null, "Each model at its own operating point"),
    summaryTable(sweep, (next) => { choose(next); explorer.scrollIntoView({ block: "start" }); }),
    explorer);
}
