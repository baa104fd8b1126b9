import type { Breakdown, Report, Verdict } from "../schema";
import { h } from "../dom";
import { delta, gib, gibRange, number, percent, seconds, secondsRange } from "../format";

export const BREAKDOWN: [keyof Breakdown, string, string][] = [
  ["compute_s", "compute", "compute"], ["exposed_comm_s", "exposed communication", "comm"], ["bubble_s", "pipeline bubbles", "bubble"], ["straggler_wait_s", "wait for a slower rank", "bubble"],
  ["alignment_wait_s", "alignment wait", "align"], ["data_wait_s", "data wait", "data"], ["optimizer_s", "optimizer", "optimizer"],
];

/** Seconds of one part; a part that is absent took none. */
export const part = (time: Breakdown, key: keyof Breakdown) => time[key] ?? 0;

/** A stacked bar in plain HTML; `scale` is the value at full width. */
export function breakdownBar(time: Breakdown, scale: number, labels = false) {
  const text = BREAKDOWN.filter(([key]) => part(time, key) > 0).map(([key, name]) => `${name} ${seconds(part(time, key))}`).join(", ");
  return h("div", { class: "stack" + (labels ? " tall" : ""), role: "img", "aria-label": text, title: text },
    ...BREAKDOWN.map(([key, name, color]) => {
      const share = part(time, key) / scale;
      return share > 0 && h("span", { style: `width:${(100 * share).toFixed(2)}%;--c:var(--${color})`, class: color },
        labels && share > 0.12 && h("b", null, `${name} ${seconds(part(time, key))}`));
    }));
}

function copyable(text: string) {
  const command = h("code", null, text);
  const copy = h("button", { type: "button", class: "copy", onclick: async () => {
    try { await navigator.clipboard.writeText(text); copy.textContent = "Copied"; }
    catch { getSelection()?.selectAllChildren(command); copy.textContent = "Selected"; }
    setTimeout(() => (copy.textContent = "Copy"), 1500);
  } }, "Copy");
  return h("div", { class: "command" }, h("pre", { tabindex: 0 }, command), copy);
}

/** Memory, step time and limit: the three figures, and where the step's seconds go. */
function verdict(report: Report, v: Verdict, time: Breakdown): HTMLElement[] {
  const risk = v.verdict !== undefined ? v.verdict === "at risk" : (v.peak_high_gib ?? v.peak_gib) > v.device_usable_gib;
  const state = !v.fits ? "bad" : risk ? "risk" : "good";
  const headroom = v.device_usable_gib - v.peak_gib;
  const base = report.plans?.rows.find((r) => r.id === report.plans!.baseline && r.id !== report.plans!.chosen);
  const share = (x: number, of: number) => `${((100 * x) / of).toFixed(2)}%`;
  const band = (low: number | undefined, high: number | undefined, of: number) => low !== undefined && high !== undefined && h("span", { class: "band", style: `left:${share(low, of)};width:${share(high - low, of)}` });
  const full = Math.max(v.device_usable_gib, v.peak_high_gib ?? v.peak_gib), slowest = Math.max(base?.step_time_s ?? 0, v.step_time_high_s ?? v.step_time_s);
  return [
    h("div", { class: "verdict" },
      h("div", null, h("h2", null, "Memory"),
        h("p", { class: "big " + state }, { good: "✓ fits", risk: "! at risk", bad: "✗ does not fit" }[state]),
        h("div", { class: "gauge " + state, role: "img", "aria-label": `peak ${gib(v.peak_gib)} of ${gib(v.device_usable_gib)}` },
          h("span", { class: "fill", style: `width:${share(v.peak_gib, full)}` }), state !== "good" && h("span", { class: "tick", style: `left:${share(v.device_usable_gib, full)}` }), band(v.peak_low_gib, v.peak_high_gib, full)),
        h("p", { class: "detail" }, h("b", null, gib(v.peak_gib)), `${gibRange(v.peak_low_gib, v.peak_high_gib)} of ${gib(v.device_usable_gib)} usable; ${headroom < 0 ? `${gib(-headroom)} too much` : `${gib(headroom)} free`} on ${v.heaviest_rank}`)),
      h("div", null, h("h2", null, v.fits ? "Step time" : "Step time, if it fitted"),
        h("p", { class: "big" }, seconds(v.step_time_s), h("small", null, secondsRange(v.step_time_low_s, v.step_time_high_s, v.step_time_s))),
        base && h("div", { class: "gauge", role: "img", "aria-label": `${seconds(v.step_time_s)} against ${seconds(base.step_time_s)} of the baseline` },
          h("span", { class: "fill", style: `width:${share(v.step_time_s, slowest)}` }), band(v.step_time_low_s, v.step_time_high_s, slowest)),
        h("p", { class: "detail" }, base && h("span", null, h("b", null, delta(percent(v.step_time_s / base.step_time_s - 1, 0))), ` against ${base.name}, ${seconds(base.step_time_s)}; `), h("b", null, number(v.tokens_per_s_per_gpu, 4)), " tokens/s per GPU, ", h("b", null, number(v.samples_per_s)), " samples/s, ", h("b", null, percent(v.mfu)), " MFU")),
      h("div", null, h("h2", null, "Limited by"),
        h("p", { class: "big" }, v.limiting_resource),
        h("p", { class: "detail" }, v.limiting_detail))),
    h("div", { class: "where" }, breakdownBar(time, v.step_time_s, true),
      h("ul", { class: "legend" }, ...BREAKDOWN.filter(([key]) => part(time, key) > 0).map(([key, name, color]) =>
        h("li", null, h("span", { class: "swatch " + (color === "bubble" ? "bubble" : ""), style: `--c:var(--${color})` }), name, " ", h("b", null, seconds(part(time, key))), ` ${percent(part(time, key) / v.step_time_s)}`)))),
  ];
}

export function header(report: Report) {
  const notes = [report.confidence !== undefined && `Square brackets are ${percent(report.confidence, 0)} intervals.`, report.verdict && !report.facts.some(([name]) => name === "Samples differ") && "Every sample is alike: as long as the workload says, padding included."].filter(Boolean);
  return h("header", { id: "top" },
    h("p", { class: "kicker" }, report.title, report.synthetic && h("strong", { class: "synthetic" }, "synthetic sample data")),
    h("h1", null, report.question),
    h("p", { class: "answer" }, report.answer),
    ...(report.verdict && report.time ? verdict(report, report.verdict, report.time) : []),
    h("p", { class: "hardware" }, report.hardware),
    copyable(report.command),
    h("details", { class: "facts" }, h("summary", null, `Versions and provenance: ${report.tool_version}, run ${report.run_id}, ${report.generated_at.slice(0, 10)}`),
      h("dl", null, ...report.facts.flatMap(([k, x]) => [h("dt", null, k), h("dd", null, x)]))),
    notes.length > 0 && h("p", { class: "note" }, notes.join(" ")));
}
