// The sweep in one table: every model on every cluster at its own operating point, and where along the axes the limit changes.

import type { Sweep, SweepModel } from "../schema";
import { h, table } from "../dom";
import { delta, fixed, number, percent, setting, timeUnit } from "../format";
import { gridOf, operatingPoint, type Grid } from "../grid";
import { limitLook, limitTag } from "../limits";
import { gapOf, pieces, TERMS } from "./point";

/** "network ≤ 12.5 < compute" along one axis through the operating point; null where one thing limits all of it. */
function turns(sweep: Sweep, values: number[], at: (n: number) => number | null): string | null {
  const runs: { name: string; last: number }[] = [];
  values.forEach((v, n) => {
    const limit = at(n);
    if (limit === null) return;
    const name = sweep.limits[limit], tail = runs[runs.length - 1];
    if (tail?.name === name) tail.last = v; else runs.push({ name, last: v });
  });
  if (runs.length < 2) return null;
  return runs.map((r, n) => (n === runs.length - 1 ? r.name : `${r.name} ≤ ${setting(r.last)}`)).join(" < ");
}

function allTurns(sweep: Sweep, g: Grid): [string, string][] {
  const { i, j, k } = g.home, along = (a: number, b: number, c: number) => (g.simulated(a, b, c) === null ? null : g.limit(a, b, c));
  return ([["GB/s", turns(sweep, g.bw, (n) => along(i, n, k))], ["GFLOP/token", turns(sweep, g.flops, (n) => along(n, j, k))], ["AlignRatio", turns(sweep, g.mar, (n) => along(i, j, n))]] as [string, string | null][])
    .filter((x): x is [string, string] => x[1] !== null);
}

/** Shares of the grid by what limits there, as a bar with its numbers. */
export function limitShares(sweep: Sweep, g: Grid) {
  const parts = sweep.limits.map((name, n) => [name, g.limitShare[n]] as [string, number]).filter((x) => x[1] > 0), text = parts.map(([name, x]) => `${name} ${x < 0.005 ? "<" + percent(0.01, 0) : percent(x, 0)}`).join(", ");
  return h("div", { class: "shares" }, h("div", { class: "stack", role: "img", "aria-label": text }, ...parts.map(([name, x]) => h("span", { style: `width:${(100 * x).toFixed(2)}%;--c:var(--${limitLook(name).color})` }))), h("small", null, text));
}

export function summaryTable(sweep: Sweep, choose: (entry: SweepModel) => void) {
  const lines = sweep.models.map((entry) => { const grid = gridOf(sweep, entry), p = operatingPoint(grid); return { entry, grid, p, parts: pieces(sweep, p), gap: gapOf(p) }; });
  type Line = typeof lines[number];
  const most = Math.max(...lines.map((l) => Math.max(l.p.formula_step_time_s, l.p.simulated_step_time_s ?? 0))), [unit, factor] = timeUnit(most);
  const time = (x: number) => number(x * factor);
  const approximate = lines.some((l) => !l.entry.at_reference && !l.grid.onGrid);
  const clusters = new Set(sweep.models.map((m) => m.cluster)).size > 1;
  const list = table<Line>("Every model at its own operating point", [
    { head: clusters ? "Model and cluster" : "Model", header: true, cell: (l) => [h("button", { type: "button", class: "link", title: "show this grid below", onclick: () => choose(l.entry) }, l.entry.name), clusters && h("span", { class: "cluster" }, l.entry.cluster),
      h("small", { class: "where-at" }, `${setting(l.entry.reference.flops)} GFLOP/token, ${setting(l.entry.reference.bw)} GB/s, AlignRatio ${setting(l.entry.reference.mar)}${!l.entry.at_reference && !l.grid.onGrid ? " ≈" : ""}`)] },
    { head: "Limited by", sort: (l) => l.p.limit, cell: (l) => limitTag(sweep.limits[l.p.limit]) },
    { head: "Simulated", unit, numeric: true, sort: (l) => l.p.simulated_step_time_s ?? Infinity, cell: (l) => (l.p.simulated_step_time_s === null ? "failed" : h("b", null, time(l.p.simulated_step_time_s))) },
    { head: "Formula", unit, numeric: true, sort: (l) => l.p.formula_step_time_s, cell: (l) => time(l.p.formula_step_time_s) },
    { head: "Gap", unit: "%", numeric: true, sort: (l) => Math.abs(l.gap), cell: (l) => (Number.isNaN(l.gap) ? "–" : h("span", { class: Math.abs(l.gap) <= sweep.tolerance ? "good" : "bad" }, `${Math.abs(l.gap) <= sweep.tolerance ? "✓" : "✗"} ${delta(fixed(100 * l.gap, 1))}`)) },
    ...TERMS.map(([head], n) => ({ head, unit, numeric: true, sort: (l: Line) => -l.parts[n], cell: (l: Line) => time(l.parts[n]) })),
    { head: "Where the limit changes", title: "along each axis through the operating point; the number is the last simulated value before the change", cell: (l) => { const t = allTurns(sweep, l.grid); return t.length ? t.map(([axis, text]) => h("span", { class: "turn" }, h("b", null, axis), " ", text)) : h("span", { class: "turn" }, "nowhere along the axes"); } },
    { head: "Over the whole grid", cell: (l) => [limitShares(sweep, l.grid), h("small", null, `formula within ±${percent(sweep.tolerance, 0)} on ${percent(l.entry.inside_share, 0)}`)] },
  ], lines);
  return h("div", { class: "summary-table" }, list,
    h("p", { class: "note" }, "Each row stands at the operating point written under its name. F/B, G/C and α·Comm are those of the modality that is longest there; with β·P they add up to the formula’s step. Where the limit changes is read along each axis through that point: “network ≤ 10 < compute” says that the network limits up to the simulated value 10, compute above.",
      approximate ? " ≈ marks a row that shows the grid point nearest to it." : ""));
}
