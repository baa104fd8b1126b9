// One step as a Gantt chart: per rank class a lane for compute (with what keeps it idle), and thin lanes for communication.

import type { Report, TimelineEvent } from "../schema";
import { chart, clipRect, rows, tooltip, type Theme } from "../charts";
import { figure, h, legend, section, table } from "../dom";
import { bytes, fixed, percent, seconds } from "../format";

export interface Look { name: string; color: string; short?: string; soft?: boolean; idle?: boolean; ink?: string }
const KINDS: Record<string, Look> = {
  vision_forward: { name: "vision encoder, forward", color: "vision", soft: true, short: "V" }, vision_backward: { name: "vision encoder, backward", color: "vision", short: "V′", ink: "on-vision" },
  audio_forward: { name: "audio encoder, forward", color: "vision", soft: true, short: "A" }, audio_backward: { name: "audio encoder, backward", color: "vision", short: "A′", ink: "on-vision" },
  connector_forward: { name: "connector, forward", color: "connector", soft: true }, connector_backward: { name: "connector, backward", color: "connector" },
  backbone_forward: { name: "backbone, forward", color: "compute", soft: true, short: "F" }, backbone_backward: { name: "backbone, backward", color: "compute", short: "B" },
  backbone_decode: { name: "backbone, decode", color: "compute", short: "D" }, host: { name: "host", color: "data" },
  head_forward: { name: "head and loss, forward", color: "head", soft: true, short: "H" }, head_backward: { name: "head, backward", color: "head", short: "H′" },
  optimizer: { name: "optimizer", color: "optimizer", short: "Adam" }, align_wait: { name: "alignment wait", color: "align" }, data_wait: { name: "data wait", color: "data" },
  tp_all_reduce: { name: "TP all-reduce", color: "comm" }, pp_send_recv: { name: "PP send/receive", color: "pp" },
  ep_all_to_all: { name: "EP all-to-all", color: "comm" }, cp_send_recv: { name: "CP send/receive", color: "comm" },
  dp_all_gather: { name: "DP all-gather", color: "gradient" }, dp_reduce_scatter: { name: "DP reduce-scatter", color: "gradient" },
  bubble_dp_all_gather: { name: "DP all-gather bubble", color: "bubble", idle: true, short: "DP all-gather" }, bubble_dp_reduce_scatter: { name: "DP reduce-scatter bubble", color: "bubble", idle: true, short: "DP reduce-scatter" },
  bubble_pp_warmup: { name: "PP warm-up bubble", color: "bubble", idle: true, short: "PP warm-up" }, bubble_pp_cooldown: { name: "PP cool-down bubble", color: "bubble", idle: true, short: "PP cool-down" },
  bubble_pp_other: { name: "PP other bubble", color: "bubble", idle: true, short: "PP other" }, bubble_straggler: { name: "wait for a slower rank", color: "bubble", idle: true, short: "straggler" }, bubble_tp: { name: "TP bubble", color: "bubble", idle: true, short: "TP" },
  receive: { name: "receive", color: "bubble", idle: true }, host_transfer: { name: "transfer to or from the host", color: "data" },
  bubble_ep: { name: "EP bubble", color: "bubble", idle: true, short: "EP" }, bubble_cp: { name: "CP bubble", color: "bubble", idle: true, short: "CP" },
};
// A kind that this page does not know is shown by its own name.
export const lookOf = (kind: string): Look => KINDS[kind] ?? { name: kind.replace(/_/g, " "), color: kind.startsWith("bubble") ? "bubble" : "muted", idle: kind.startsWith("bubble") };
// top and height of a lane as shares of the band of one rank class
const LANES: Record<string, [number, number]> = { main: [0.08, 0.5], tp: [0.62, 0.08], pp: [0.73, 0.08], dp: [0.84, 0.08] };

export function timelineSection(report: Report) {
  const line = report.timeline!, step = line.step_time_s;
  const detail = h("p", { class: "selected", "aria-live": "polite" }, "Select an operation to keep its details here.");
  const describe = (e: TimelineEvent): [string, [string, string][]] => {
    const look = lookOf(e[2]), c = line.classes[e[0]];
    return [look.name + (e[5] === null ? "" : `, micro-batch ${e[5]}`), [["where", `${c.name}, ${c.ranks}`], ["start", fixed(1e3 * e[3], 2) + " ms"], ["duration", seconds(e[4] - e[3])], ["share of the step", percent((e[4] - e[3]) / step, 2)], ...(e[7] ? [["on the critical path", "yes"]] as [string, string][] : []),
      ...(e[6] ? [["moved", bytes(e[6])], ["rate", bytes(e[6] / (e[4] - e[3])) + "/s"]] as [string, string][] : [])]];
  };

  const plot = chart("Timeline of one step for each rank class; the table below gives the sums", (t) => line.classes.length * (t.narrow ? 78 : 88) + (t.printing ? 54 : 84), (t: Theme) => ({
    grid: { left: t.narrow ? 58 : 112, right: 18, top: 8, bottom: t.printing ? 44 : 74, outerBoundsMode: "none" },
    tooltip: { trigger: "item", ...tooltip(t, (p: any) => rows(...describe(line.events[p.dataIndex]))) },
    xAxis: { type: "value", min: 0, max: step, ...t.axis, name: "ms since the step began", nameGap: 24, axisLabel: { ...t.text, formatter: (x: number) => fixed(1e3 * x, 0), showMaxLabel: false, hideOverlap: true } } as any,
    yAxis: { type: "category", inverse: true, data: line.classes.map((c) => c.name), ...t.axis, axisTick: { show: false }, axisLine: { show: false }, splitLine: { show: true, lineStyle: { color: t.color("rule") } },
      axisLabel: { ...t.text, lineHeight: 15, formatter: (_: string, i: number) => { const c = line.classes[i]; return t.narrow ? `{b|${c.name}}\n×${c.count}` : `{b|${c.name}}\n${c.ranks}${c.layers ? "\n" + c.layers : ""}`; }, rich: { b: { fontWeight: "bold", color: t.color("ink"), fontFamily: (t.text as any).fontFamily, fontSize: 12 } } } } as any,
    dataZoom: [
      { type: "inside", filterMode: "weakFilter", zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false, moveOnMouseMove: true, minSpan: 0.4 },
      { type: "slider", show: !t.printing, filterMode: "weakFilter", height: 16, bottom: 10, minSpan: 0.4, brushSelect: false, showDetail: false, borderColor: t.color("rule"), fillerColor: t.color("select"), backgroundColor: "transparent", handleSize: "120%",
        handleStyle: { color: t.color("raised"), borderColor: t.color("muted") }, moveHandleSize: 0, showDataShadow: false },
    ],
    series: [{
      type: "custom", clip: true, encode: { x: [2, 3], y: 0 }, progressive: 0,
      data: line.events.map((e, i) => [e[0], i, e[3], e[4]]),
      renderItem: (params: any, api: any) => {
        const e = line.events[api.value(1)], look = lookOf(e[2]);
        const a = api.coord([e[3], e[0]]), b = api.coord([e[4], e[0]]), band = api.size([0, 1])[1], [top, share] = LANES[e[1]];
        const shape = clipRect({ x: a[0], y: a[1] - band / 2 + top * band, width: Math.max(b[0] - a[0], 0.6), height: share * band }, params.coordSys);
        if (!shape) return;
        const text = look.short && (look.idle || e[5] === null ? look.short : `${look.short}${e[5]}`);
        const room = text && shape.width > text.length * 5.9 + 3;
        const bar = {
          type: "rect", shape,
          style: { fill: t.color(look.color), opacity: look.soft ? 0.62 : 1, stroke: look.idle ? t.color("bubble-edge") : t.color("page"), lineWidth: shape.width > (look.idle ? 14 : 3) ? 0.7 : 0, lineDash: look.idle ? [3, 2] : undefined },
          emphasis: { style: { stroke: t.color("ink"), lineWidth: 1.5 } },
          ...(room ? { textContent: { type: "text", style: { text, fill: look.idle ? t.color("muted") : t.color(look.ink ?? (look.soft ? "on-soft" : "on-solid")), fontSize: 11, fontFamily: (t.text as any).fontFamily } }, textConfig: { position: "inside" } } : {}),
        };
        return e[7] ? { type: "group", children: [bar, { type: "rect", silent: true, shape: { x: shape.x, y: shape.y + shape.height, width: shape.width, height: 2.5 }, style: { fill: t.color("ink") } }] } : bar;
      },
    }],
  } as any), (c) => c.on("click", (p: any) => {
    const [title, pairs] = describe(line.events[p.dataIndex]);
    detail.replaceChildren(h("b", null, title), ...pairs.map(([k, v]) => h("span", null, ` · ${k} `, h("b", null, v))));
  }));

  // Perfetto's keys: w/s zoom, a/d pan; arrows, + and − do the same.
  const zoom = (factor: number, shift: number) => {
    const c = plot.chart(), z = (c?.getOption() as any)?.dataZoom?.[0];
    if (!c || !z) return;
    const span = Math.min(100, Math.max(0.4, (z.end - z.start) * factor)), middle = (z.start + z.end) / 2 + shift * (z.end - z.start);
    const start = Math.min(100 - span, Math.max(0, middle - span / 2));
    c.dispatchAction({ type: "dataZoom", start, end: start + span });
  };
  const KEYS: Record<string, [number, number]> = { w: [0.7, 0], "+": [0.7, 0], "=": [0.7, 0], s: [1 / 0.7, 0], "-": [1 / 0.7, 0], a: [1, -0.2], d: [1, 0.2], ArrowLeft: [1, -0.2], ArrowRight: [1, 0.2], "0": [1e9, 0] };
  const frame = h("div", { class: "timeline", tabindex: 0, role: "group", "aria-label": "Timeline: w or + zooms in, s or − out, a and d or the arrows move, 0 shows all", onkeydown: (e: KeyboardEvent) => {
    const move = KEYS[e.key];
    if (!move || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    zoom(...move);
  } }, plot.host);
  const button = (text: string, label: string, act: () => void) => h("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);

  // Sums of the compute lane per class: what it did, and why it stood still.
  const share = (kinds: string[], c: number) => line.classes[c].main_s ? kinds.reduce((a, k) => a + (line.classes[c].main_s![k] ?? 0), 0) / step : line.events.reduce((a, e) => (e[0] === c && e[1] === "main" && kinds.includes(e[2]) ? a + e[4] - e[3] : a), 0) / step;
  const both = (module: string) => [`${module}_forward`, `${module}_backward`];
  const groups: { name: string; color: string; kinds: string[]; why: string; waits?: boolean }[] = [
    { name: "backbone", color: "compute", kinds: [...both("backbone"), "backbone_decode"], why: "layers of the language model" },
    { name: "vision encoder", color: "vision", kinds: both("vision"), why: "ViT over all tiles of the micro-batch" },
    { name: "audio encoder", color: "vision", kinds: both("audio"), why: "encoder over the samples’ sound" },
    { name: "connector", color: "connector", kinds: both("connector"), why: "projection into the backbone’s width" },
    { name: "head and loss", color: "head", kinds: both("head"), why: "logits over the vocabulary, cross-entropy" },
    { name: "host", color: "data", kinds: ["host"], why: "work of the CPU that the GPU waits for" },
    { name: "optimizer", color: "optimizer", kinds: ["optimizer"], why: "Adam on this rank’s shard" },
    { name: "DP all-gather", color: "bubble", kinds: ["bubble_dp_all_gather"], why: "parameters updated on other ranks arrive", waits: true },
    { name: "DP reduce-scatter", color: "bubble", kinds: ["bubble_dp_reduce_scatter"], why: "gradients leave after the last backward", waits: true },
    { name: "PP warm-up", color: "bubble", kinds: ["bubble_pp_warmup"], why: "waits for the first activations or gradients", waits: true },
    { name: "PP cool-down", color: "bubble", kinds: ["bubble_pp_cooldown"], why: "waits for the last gradients and the slowest stage", waits: true },
    { name: "PP other", color: "bubble", kinds: ["bubble_pp_other"], why: "between passes: the first gradients are on their way, or a longer stage holds the others up", waits: true },
    { name: "slower rank", color: "bubble", kinds: ["bubble_straggler"], why: "another GPU of the stage computes longer", waits: true },
    { name: "PP transfer", color: "bubble", kinds: ["pp_send_recv"], why: "activations or gradients on their way between stages", waits: true },
    { name: "TP", color: "bubble", kinds: ["bubble_tp"], why: "all-reduce not hidden behind the GEMMs", waits: true },
    { name: "EP", color: "bubble", kinds: ["bubble_ep"], why: "all-to-all not hidden behind the experts", waits: true },
    { name: "CP", color: "bubble", kinds: ["bubble_cp"], why: "keys and values of other ranks arrive late", waits: true },
    { name: "data wait", color: "data", kinds: ["data_wait"], why: "the loader is late", waits: true },
    { name: "alignment wait", color: "align", kinds: ["align_wait"], why: "visual tokens late for their micro-batch", waits: true },
  ];
  const known = new Set(groups.flatMap((g) => g.kinds)), others = [...new Set(line.events.filter((e) => e[1] === "main").map((e) => e[2]))].filter((k) => !known.has(k));
  if (others.length) groups.push({ name: "other", color: "muted", kinds: others, why: others.map((k) => lookOf(k).name).join(", ") });
  const classes = line.classes.map((_, c) => c);
  const mean = (g: { kinds: string[] }) => classes.reduce((a, c) => a + share(g.kinds, c) * line.classes[c].count, 0) / line.classes.reduce((a, c) => a + c.count, 0);
  const cell = (g: typeof groups[number], c: number) => {
    const x = share(g.kinds, c), others = classes.map((o) => share(g.kinds, o));
    const worst = g.waits && x === Math.max(...others) && x - Math.min(...others) > 0.005;
    return h("span", { class: worst ? "worst" : null }, x > 0 ? fixed(100 * x, 1) : "–");
  };

  const present = groups.filter((g) => mean(g) > 0);
  return section("timeline", "One step, op by op", report.findings.timeline,
    h("div", { class: "timeline-bar" },
      legend([["compute", "backbone"], ["vision", "vision encoder"], ["connector", "connector"], ["head", "head, loss"], ["optimizer", "optimizer"], ["align", "alignment wait"], ["bubble", "bubble", "bubble"], ["comm", "TP"], ["pp", "PP"], ["gradient", "DP"], ["ink", "critical path", "line"]]),
      h("div", { class: "buttons screen" }, button("−", "Zoom out", () => zoom(1 / 0.6, 0)), button("+", "Zoom in", () => zoom(0.6, 0)), button("All", "Show the whole step", () => zoom(1e9, 0)))),
    figure(["Pale is forward, full is backward; numbers are micro-batches. An underline marks the critical path. Below each compute lane run TP, PP and DP communication.", h("span", { class: "screen" }, " Ctrl+wheel or pinch zooms, drag moves; with the chart focused, w s a d.")], frame),
    h("div", { class: "screen" }, detail),
    table("Share of the step per rank class, percent", [
      { head: "Compute lane", header: true, cell: (g) => [h("span", { class: "swatch " + (g.color === "bubble" ? "bubble" : ""), style: `--c:var(--${g.color})` }), g.name] },
      ...classes.map((c) => ({ head: line.classes[c].name, unit: "%", numeric: true, cell: (g: typeof groups[number]) => cell(g, c) })),
      { head: "mean", unit: "%", numeric: true, sort: (g) => -mean(g), cell: (g) => h("b", null, fixed(100 * mean(g), 1)) },
      { head: "What it is", hide: "narrow", cell: (g) => h("span", { class: "cause" }, g.why) },
    ], present, { rowClass: (g) => (g === present.find((x) => x.waits) ? "sum-line" : "") }),
    h("p", { class: "note" }, "Each column adds up to 100 % of the step. Grey rows are bubbles by Optimus’ names: the compute lane stands still for that cause. Bold: the rank class that waits longest."));
}
