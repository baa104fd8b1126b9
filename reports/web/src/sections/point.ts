// One point of the sweep: formula and simulation as bars, the terms of each modality, the gap in words.

import type { OperatingPoint, Sweep } from "../schema";
import { h } from "../dom";
import { number, percent, seconds, timeUnit } from "../format";
import { dominant } from "../grid";
import { limitTag } from "../limits";

export const TERMS: [label: string, color: string][] = [["F/B", "compute"], ["G/C", "gradient"], ["α·Comm", "comm"], ["β·P", "align"]];

/** What the formula's step is made of, in the order of TERMS: of the modality inside the max, or of all where they are summed. */
export function pieces(sweep: Sweep, p: OperatingPoint): number[] {
  const { f_over_b_s: fb, g_over_c_s: gc, alpha_comm_s: comm } = p.terms, top = dominant(p), sum = (x: number[]) => x.reduce((a, b) => a + b, 0);
  const one = (x: number[]) => ((sweep.fit?.combine ?? "max") === "max" ? x[top] : sum(x));
  return [one(fb), one(gc), one(comm), p.beta_p_align_s];
}

export const gapOf = (p: OperatingPoint) => (p.simulated_step_time_s === null ? NaN : p.formula_step_time_s / p.simulated_step_time_s - 1);

export function pointPanel(sweep: Sweep, title: string, modalities: string[], p: OperatingPoint): HTMLElement[] {
  const t = p.formula_step_time_s, sim = p.simulated_step_time_s, full = Math.max(t, sim ?? 0), top = dominant(p);
  const sums = modalities.map((_, k) => p.terms.f_over_b_s[k] + p.terms.g_over_c_s[k] + p.terms.alpha_comm_s[k]);
  const [unit, factor] = timeUnit(full), cell = (x: number) => h("td", { class: "num" }, number(x * factor));
  const bar = (name: string, total: number, parts: [number, string][]) => h("div", { class: "versus" }, h("span", null, name),
    h("div", { class: "stack" }, ...parts.map(([x, c]) => h("span", { style: `width:${((100 * x) / full).toFixed(2)}%;--c:var(--${c})` }))), h("b", null, seconds(total)));
  return [
    h("h3", null, title),
    bar("formula", t, pieces(sweep, p).map((x, n) => [x, TERMS[n][1]])),
    ...(sim === null ? [] : [bar("simulated", sim, [[sim, "simulated"]])]),
    h("table", { class: "small" }, h("caption", { class: "visually-hidden" }, "Formula terms at this point"),
      h("thead", null, h("tr", null, h("th", { scope: "col" }, "k"), ...["F/B", "G/C", "α·Comm", "sum"].map((x) => h("th", { scope: "col", class: "num" }, x, h("span", { class: "unit" }, " " + unit))))),
      h("tbody", null, ...modalities.map((name, k) => h("tr", { class: k === top ? "chosen" : null }, h("th", { scope: "row" }, name, k === top && h("span", { class: "tag" }, "max")),
        cell(p.terms.f_over_b_s[k]), cell(p.terms.g_over_c_s[k]), cell(p.terms.alpha_comm_s[k]), cell(sums[k]))),
        h("tr", null, h("th", { scope: "row" }, "β·P_align"), h("td"), h("td"), h("td"), cell(p.beta_p_align_s)))),
  ];
}

/** The gap in words, for a live region. */
export function pointStatus(sweep: Sweep, p: OperatingPoint): (Node | string)[] {
  const gap = gapOf(p);
  if (Number.isNaN(gap)) return ["This point failed in the simulation; the sweep went on without it."];
  const inside = Math.abs(gap) <= sweep.tolerance;
  return [h("b", { class: inside ? "good" : "bad" }, `${inside ? "✓" : "✗"} ${gap > 0 ? "+" : ""}${percent(gap)}`), " ",
    inside ? `inside the boundary of ±${percent(sweep.tolerance, 0)}.` : `outside the boundary of ±${percent(sweep.tolerance, 0)}: ${sweep.reasons[p.reason]}.`,
    " Limited by ", limitTag(sweep.limits[p.limit]), "."];
}
