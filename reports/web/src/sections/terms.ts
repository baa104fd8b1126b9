// The formula's terms of every modality at each model's operating point, one cluster at a time, on one shared axis.

import type { Report } from "../schema";
import { chart, niceScale, rows, tooltip } from "../charts";
import { figure, h, legend, section, segmented } from "../dom";
import { number, percent, seconds, setting, tick, timeUnit } from "../format";
import { dominant, gridOf, operatingPoint } from "../grid";
import { TERMS } from "./point";

interface Line { name: string; values: number[]; total: number; simulated: number; kind: "" | "max" | "T" }

export function termsSection(report: Report) {
  const sweep = report.sweep!, clusters = [...new Set(sweep.models.map((m) => m.cluster))];
  let cluster = clusters[0];

  const groups = sweep.models.map((entry) => {
    const p = operatingPoint(gridOf(sweep, entry)), top = dominant(p), sum = (x: number[]) => x.reduce((a, b) => a + b, 0);
    const per = entry.modalities.map((_, k) => [p.terms.f_over_b_s[k], p.terms.g_over_c_s[k], p.terms.alpha_comm_s[k], 0]);
    const lines: Line[] = per.map((values, k) => ({ name: entry.modalities[k], values, total: sum(values), simulated: 0, kind: k === top ? "max" : "" }));
    // T is the formula's own figure: under `max` it is the longest sum and β·P, under other combinations it is not.
    lines.push({ name: "T", values: [...per[top].slice(0, 3), p.beta_p_align_s], total: p.formula_step_time_s, simulated: p.simulated_step_time_s ?? 0, kind: "T" });
    return { entry, lines };
  });
  const here = () => groups.filter((g) => g.entry.cluster === cluster);
  const slots = Math.max(...clusters.map((c) => groups.filter((g) => g.entry.cluster === c).length));

  // One chart for each place in the column; which model stands there follows the cluster.
  const plots = Array.from({ length: slots }, (_, n) => {
    const title = h("h3");
    const own = () => here()[n], last = () => n === here().length - 1;
    const c = chart("Formula terms per modality; the figures are in the table below", () => (own()?.lines.length ?? 0) * 30 + (last() ? 46 : 8), (t) => {
      const lines = own()?.lines ?? [], longest = Math.max(...here().flatMap((g) => g.lines.map((l) => Math.max(l.total, l.simulated)))), [unit, factor] = timeUnit(longest);
      const [end, gap] = niceScale(longest * factor * 1.02, true);
      return {
        grid: { left: 118, right: t.width < 800 ? 96 : 190, outerBoundsMode: "none" as const, top: 4, bottom: last() ? 42 : 4 },
        tooltip: { trigger: "axis", axisPointer: { type: "none" }, ...tooltip(t, (ps: any[]) => {
          const l = lines[ps[0].dataIndex];
          return rows(`${own().entry.name}: ${l.kind === "T" ? "step time by the formula" : l.name}`, [...TERMS.map(([label], i) => [label, seconds(l.values[i])] as [string, string]).filter((_, i) => l.values[i] > 0), ["sum", seconds(l.total)], ...(l.simulated ? [["simulated", seconds(l.simulated)] as [string, string]] : [])]);
        }) },
        xAxis: { type: "value", min: 0, max: end, interval: gap, ...t.axis, name: last() ? `${unit} per step` : "", nameGap: 26, axisLabel: { ...t.text, show: last(), formatter: (x: number) => tick(x) }, axisLine: { show: false }, axisTick: { show: false } } as any,
        yAxis: { type: "category", inverse: true, data: lines.map((l) => l.name), ...t.axis, axisTick: { show: false }, axisLine: { show: false },
          axisLabel: { ...t.text, width: 108, overflow: "truncate", formatter: (x: string, i: number) => (lines[i].kind === "max" ? `{b|${x}}` : lines[i].kind === "T" ? "{b|step time T}" : x), rich: { b: { fontWeight: "bold", color: t.color("ink"), fontFamily: (t.text as any).fontFamily, fontSize: 12 } } } } as any,
        series: [
          ...TERMS.map(([label, color], i) => ({ name: label, type: "bar" as const, stack: "t", barWidth: 15, cursor: "default",
            data: lines.map((l) => ({ value: factor * l.values[i], itemStyle: { color: t.color(color), opacity: l.kind ? 1 : 0.75, borderColor: t.color("page"), borderWidth: 1 } })),
          })),
          { type: "scatter" as const, symbolSize: 0.1, silent: true, z: 6, itemStyle: { opacity: 1 }, data: lines.map((l, i) => [factor * Math.max(l.total, l.simulated), i]),
            label: { show: true, position: "right" as const, distance: 6, color: t.color("ink"), fontSize: 12, formatter: (p: any) => { const l = lines[p.dataIndex]; return l.simulated ? seconds(l.total) + (t.width < 800 ? "" : `, simulated ${seconds(l.simulated)}`) + ` (${percent(l.total / l.simulated - 1, 0)})` : seconds(l.total); } } },
          { type: "scatter" as const, symbol: "rect", symbolSize: [2.5, 21], data: lines.flatMap((l, i) => (l.simulated ? [[factor * l.simulated, i]] : [])), itemStyle: { color: t.color("ink"), opacity: 1 }, silent: true, z: 5 },
        ],
      };
    });
    return { title, chart: c, host: h("div", { class: "small-multiple" }, title, c.host), own };
  });

  const body = h("tbody");
  const fill = () => {
    for (const p of plots) {
      const g = p.own();
      p.host.hidden = !g;
      if (!g) continue;
      const r = g.entry.reference;
      p.title.replaceChildren(g.entry.name, h("small", null, ` at ${setting(r.flops)} GFLOP/token, ${setting(r.bw)} GB/s, AlignRatio ${setting(r.mar)}`));
      if (p.chart.chart()) p.chart.redraw();
    }
    body.replaceChildren(...here().flatMap((g) => g.lines.map((l) => h("tr", { class: l.kind === "T" ? "chosen" : null }, h("th", { scope: "row" }, g.entry.name), h("td", null, l.name), ...[...l.values, l.total, l.simulated].map((x) => h("td", { class: "num" }, x ? number(1e3 * x) : "–"))))));
  };
  fill();
  return section("terms", "Formula terms per modality", report.findings.terms,
    clusters.length > 1 && h("div", { class: "controls" }, segmented("Cluster", clusters.map((c) => [c, c]), cluster, (c) => { cluster = c; fill(); })),
    figure("Every bar is one modality’s sum inside the max; the longest one (bold) plus β·P_align is the step time T. The upright tick is the simulated step.",
      legend([["compute", "F/B compute"], ["gradient", "G/C gradient exchange"], ["comm", "α·Comm exposed communication"], ["align", "β·P_align alignment"], ["ink", "simulated", "tick"]]), ...plots.map((p) => p.host)),
    h("details", null, h("summary", null, "The same as a table"), h("div", { class: "table-scroll" }, h("table", null,
      h("thead", null, h("tr", null, h("th", { scope: "col" }, "model"), h("th", { scope: "col" }, "k"), ...[...TERMS.map((x) => x[0]), "sum", "simulated"].map((x) => h("th", { scope: "col", class: "num" }, x, h("span", { class: "unit" }, " ms"))))), body))));
}
