// One execution beside its prediction: the figures, what makes the difference, the machine.

import type { Report, RunMetric } from "../schema";
import { h, section, table, type Column } from "../dom";
import { count, delta, fixed, gib, number, percent, seconds } from "../format";

const METRICS: Record<string, [name: string, show: (value: number) => string]> = {
  step_time_s: ["Step time", (x) => seconds(x, 4)], compute_s: ["Compute", (x) => seconds(x, 4)], tokens_per_s: ["Tokens per second", (x) => number(x, 4)], peak_memory_gib: ["Peak memory", (x) => gib(x, 2)],
};
const metric = (m: RunMetric) => METRICS[m.name] ?? [m.name, (x: number) => number(x, 4)];
const words = (name: string) => name.replace(/_/g, " ");

export function runSection(report: Report) {
  const run = report.run!, step = run.metrics[0], state = run.within_tolerance ? "good" : "bad", slowest = Math.max(step.predicted, step.measured);
  const gauge = (name: string, value: number) => h("div", null, h("h2", null, name), h("p", { class: "big" }, seconds(value, 4)),
    h("div", { class: "gauge", role: "img", "aria-label": `${name} ${seconds(value, 4)}` }, h("span", { class: "fill", style: `width:${((100 * value) / slowest).toFixed(2)}%` })));
  const rows: Column<RunMetric>[] = [
    { head: "Figure", header: true, cell: (m) => [metric(m)[0], m.of && h("small", null, ` ${m.of}`)] },
    { head: "Predicted", numeric: true, cell: (m) => metric(m)[1](m.predicted) }, { head: "Measured", numeric: true, cell: (m) => metric(m)[1](m.measured) },
    { head: "Error", unit: "%", numeric: true, cell: (m) => h("b", null, delta(fixed(100 * m.relative_error, 2))) },
  ];
  return section("run", "Predicted against measured", report.findings.run,
    h("div", { class: "verdict" },
      h("div", null, h("h2", null, "Step time"), h("p", { class: "big " + state }, run.within_tolerance ? "✓ within tolerance" : "✗ outside tolerance"),
        h("p", { class: "detail" }, "error ", h("b", null, delta(percent(step.relative_error, 2))), ` of ±${percent(run.tolerance)} allowed`)),
      gauge("Predicted", step.predicted), gauge("Measured", step.measured)),
    h("h3", null, "All figures"),
    table("Predicted and measured", rows, run.metrics),
    h("p", { class: "note" }, "Error: predicted / measured − 1. Measured is the median of the undisturbed whole steps, each as long as its slowest rank: ", run.steps_s.slice(0, 12).map((s) => seconds(s, 4)).join(", "), run.steps_s.length > 12 ? ", …" : "", ".",
      run.wall_step_time_s !== undefined && ` By wall clock, which other work on the machine lengthens: ${seconds(run.wall_step_time_s, 4)}.`,
      run.timed_step_time_s !== undefined && ` The step that was timed op by op: ${seconds(run.timed_step_time_s, 4)}.`));
}

type Part = NonNullable<Report["run"]>["parts"][number];
type Class = NonNullable<Report["run"]>["classes"][number];
const WHY: Record<string, string> = {
  gaps: "launches and queues: the op could have begun, and had not", waits: "on this path the prediction waits for something else: its critical path is another one",
  overlap: "ops that were to run at once ran one after another", timing: "timing op by op against whole steps",
};

export function differenceSection(report: Report) {
  const run = report.run!, most = Math.max(...run.parts.map((p) => Math.abs(p.difference_s)), 1e-12);
  const ratio = (p: { predicted_s?: number; measured_s?: number }) => (p.predicted_s ? fixed(p.measured_s! / p.predicted_s, 2) : "–");
  const bar = (p: Part) => h("span", { class: "diverging", role: "img", "aria-label": seconds(p.difference_s) }, h("span", { class: p.difference_s > 0 ? "more" : "less", style: `width:${((50 * Math.abs(p.difference_s)) / most).toFixed(1)}%` }));
  return section("difference", "What makes the difference", report.findings.difference,
    table("Parts of the difference", [
      { head: "Along the measured critical path", header: true, cell: (p: Part) => [p.name, p.mostly && h("small", null, ` mostly ${p.mostly}`), WHY[p.part] && h("small", { class: "cause" }, WHY[p.part])] },
      { head: "Ops", numeric: true, hide: "narrow", cell: (p: Part) => (p.count ? count(p.count) : "") },
      { head: "Predicted", numeric: true, hide: "narrow", cell: (p: Part) => (p.predicted_s === undefined ? "" : seconds(p.predicted_s)) },
      { head: "Measured", numeric: true, hide: "narrow", cell: (p: Part) => (p.measured_s === undefined ? "" : seconds(p.measured_s)) },
      { head: "× predicted", numeric: true, cell: (p: Part) => (p.predicted_s === undefined ? "" : ratio(p)) },
      { head: "Difference", numeric: true, sort: (p: Part) => -Math.abs(p.difference_s), cell: (p: Part) => delta(seconds(p.difference_s)) },
      { head: "", hide: "narrow", cell: bar },
      { head: "Of the error", unit: "%", numeric: true, cell: (p: Part) => (p.share_of_error === 0 ? "–" : fixed(100 * p.share_of_error, 0)) },
    ], run.parts),
    h("p", { class: "note" }, "The critical path runs from the step’s end back over what each op waited for last. The parts sum to measured − predicted; one below zero makes the error smaller."),
    h("h3", null, "All ops of a kind, of all ranks"),
    table("Time by kind of op", [
      { head: "Kind", header: true, cell: (c: Class) => [words(c.name), c.modelled && h("span", { class: "tag quiet" }, "modelled")] },
      { head: "Ops", numeric: true, hide: "narrow", cell: (c: Class) => count(c.count) },
      { head: "Predicted", numeric: true, sort: (c: Class) => -c.predicted_s, cell: (c: Class) => seconds(c.predicted_s) },
      { head: "Measured", numeric: true, sort: (c: Class) => -c.measured_s, cell: (c: Class) => seconds(c.measured_s) },
      { head: "× predicted", numeric: true, sort: (c: Class) => (c.predicted_s > 0 ? -c.measured_s / c.predicted_s : 0), cell: (c: Class) => ratio(c) },
      { head: "Waiting", numeric: true, hide: "narrow", cell: (c: Class) => (c.waiting_s > 0 ? seconds(c.waiting_s) : "–") },
      { head: `Rank ${run.busiest_rank}, predicted`, numeric: true, hide: "narrow", cell: (c: Class) => seconds(c.busiest_predicted_s) },
      { head: "measured", numeric: true, hide: "narrow", cell: (c: Class) => seconds(c.busiest_measured_s) },
    ], run.classes, { sorted: 3 }),
    h("p", { class: "note" }, `Rank ${run.busiest_rank} is the busiest. A collective’s time is that of the rank that came last; what the others waited for it stands under Waiting. Modelled: another rank’s part, which a rank alone does not measure.`));
}

export function machineSection(report: Report) {
  const run = report.run!, known = (pick: (r: (typeof run.ranks)[number]) => unknown) => run.ranks.some((r) => pick(r) !== undefined);
  type Rank = (typeof run.ranks)[number];
  const columns: Column<Rank>[] = [{ head: "Rank", header: true, sort: (r) => r.rank, cell: (r) => String(r.rank) }, { head: "Host", hide: "narrow", cell: (r) => r.host }, { head: "Device", cell: (r) => r.device }];
  if (known((r) => r.peak_gib)) columns.push({ head: "Peak memory", numeric: true, sort: (r) => -(r.peak_gib ?? 0), cell: (r) => (r.peak_gib === undefined ? "–" : gib(r.peak_gib, 2)) });
  if (known((r) => r.clock_before_mhz)) columns.push({ head: "Clock before", unit: "MHz", numeric: true, cell: (r) => (r.clock_before_mhz === undefined ? "–" : count(r.clock_before_mhz)) }, { head: "after", unit: "MHz", numeric: true, cell: (r) => (r.clock_after_mhz === undefined ? "–" : count(r.clock_after_mhz)) });
  if (run.ranks.some((r) => r.throttled_share > 0)) columns.push({ head: "Throttled", unit: "%", numeric: true, cell: (r) => fixed(100 * r.throttled_share, 1) });
  return section("machine", "The machine and its checks", report.findings.machine,
    run.checks.length > 0 && table("Checks of the run", [
      { head: "Check", header: true, cell: (c) => c.name }, { head: "Result", cell: (c) => h("b", { class: c.passed ? "good" : "bad" }, c.passed ? "✓ passed" : "✗ failed") }, { head: "", cell: (c) => c.detail },
    ], run.checks),
    h("h3", null, "Ranks"), table("Ranks", columns, run.ranks));
}
