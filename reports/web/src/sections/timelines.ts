// Both timelines of every rank on one axis: the prediction above, what was measured below it.

import type { Report, RunEvent } from "../schema";
import { chart, clipRect, rows, tooltip, type Theme } from "../charts";
import { figure, h, legend, section } from "../dom";
import { count, delta, fixed, percent, seconds } from "../format";
import { lookOf } from "./timeline";

const LANES: Record<string, [number, number]> = { main: [0.06, 0.5], tp: [0.6, 0.1], pp: [0.72, 0.1], dp: [0.84, 0.1] };
const SIDES = ["predicted", "measured"];

export function timelinesSection(report: Report) {
  const run = report.run!, line = run.timelines!, events = line.events;
  const end = Math.max(run.metrics[0].predicted, run.timed_step_time_s ?? 0, ...events.map((e) => Math.max(e[6], e[8])));
  const span = (e: RunEvent, side: number): [number, number] => (side === 0 ? [e[5], e[6]] : [e[7], e[8]]);
  // An op is drawn twice; what is selected is outlined on both sides.
  const drawn = events.flatMap((e, i) => SIDES.map((_, side) => ({ i, side, span: span(e, side) }))).filter((d) => d.span[1] > d.span[0]);
  let selected = -1;

  const describe = (e: RunEvent): [string, [string, string][]] => {
    const rank = line.ranks[e[0]], [predicted, measured] = [e[9], e[10]];
    return [lookOf(e[2]).name + (e[4] === null ? "" : `, micro-batch ${e[4]}`), [
      ["rank", String(rank.rank)], ...(e[3] ? [["module", e[3]]] as [string, string][] : []), ...(e[11] > 1 ? [["ops", count(e[11])]] as [string, string][] : []),
      ["predicted", predicted > 0 ? seconds(predicted) : "–"], ["measured", seconds(measured)],
      ...(predicted > 0 ? [["difference", `${delta(seconds(measured - predicted))}, ${delta(percent(measured / predicted - 1))}`]] as [string, string][] : []),
      ["predicted from", `${fixed(1e3 * e[5], 3)} ms`], ["measured from", `${fixed(1e3 * e[7], 3)} ms`], ...(e[12] ? [["on the measured critical path", "yes"]] as [string, string][] : []),
    ]];
  };
  const detail = h("p", { class: "selected", "aria-live": "polite" }, "Select an operation to keep its details here; it is outlined on both sides.");
  const select = (i: number) => {
    selected = i;
    const [title, pairs] = describe(events[i]);
    detail.replaceChildren(h("b", null, title), ...pairs.map(([k, v]) => h("span", null, ` · ${k} `, h("b", null, v))));
    plot.redraw();
  };

  const bands = line.ranks.flatMap((r) => SIDES.map((side) => ({ rank: r, side })));
  const plot = chart("Two timelines of one step for each rank, predicted above measured; the tables below give the sums", (t) => bands.length * (t.narrow ? 54 : 58) + (t.printing ? 54 : 84), (t: Theme) => ({
    grid: { left: t.narrow ? 74 : 112, right: 18, top: 8, bottom: t.printing ? 44 : 74, outerBoundsMode: "none" },
    tooltip: { trigger: "item", ...tooltip(t, (p: any) => rows(...describe(events[drawn[p.dataIndex].i]))) },
    xAxis: { type: "value", min: 0, max: end, ...t.axis, name: "ms since the step began", nameGap: 24, axisLabel: { ...t.text, formatter: (x: number) => fixed(1e3 * x, end < 0.01 ? 2 : end < 0.1 ? 1 : 0), showMaxLabel: false, hideOverlap: true } } as any,
    yAxis: { type: "category", inverse: true, data: bands.map((b) => `${b.rank.rank} ${b.side}`), ...t.axis, axisTick: { show: false }, axisLine: { show: false },
      splitLine: { show: true, interval: (i: number) => i % 2 === 1, lineStyle: { color: t.color("axis") } },
      axisLabel: { ...t.text, interval: 0, lineHeight: 15, formatter: (_: string, i: number) => { const b = bands[i]; return i % 2 ? "measured" : `{b|rank ${b.rank.rank}}\npredicted`; }, rich: { b: { fontWeight: "bold", color: t.color("ink"), fontFamily: (t.text as any).fontFamily, fontSize: 12 } } } } as any,
    dataZoom: [
      { type: "inside", filterMode: "weakFilter", zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false, moveOnMouseMove: true, minSpan: 0.2 },
      { type: "slider", show: !t.printing, filterMode: "weakFilter", height: 16, bottom: 10, minSpan: 0.2, brushSelect: false, showDetail: false, borderColor: t.color("rule"), fillerColor: t.color("select"), backgroundColor: "transparent", handleSize: "120%",
        handleStyle: { color: t.color("raised"), borderColor: t.color("muted") }, moveHandleSize: 0, showDataShadow: false },
    ],
    series: [{
      type: "custom", clip: true, encode: { x: [2, 3], y: 0 }, progressive: 0,
      data: drawn.map((d, at) => [2 * events[d.i][0] + d.side, at, ...d.span]),
      renderItem: (params: any, api: any) => {
        const d = drawn[api.value(1)], e = events[d.i], look = lookOf(e[2]), [from, to] = d.span;
        const a = api.coord([from, 2 * e[0] + d.side]), b = api.coord([to, 2 * e[0] + d.side]), band = api.size([0, 1])[1], [top, share] = LANES[e[1]];
        const shape = clipRect({ x: a[0], y: a[1] - band / 2 + top * band, width: Math.max(b[0] - a[0], 0.6), height: share * band }, params.coordSys);
        if (!shape) return;
        const text = look.short && (look.idle || e[4] === null ? look.short : `${look.short}${e[4]}`), room = text && shape.width > text.length * 5.9 + 3, chosen = d.i === selected;
        const bar = {
          type: "rect", shape, z2: chosen ? 10 : 0,
          style: { fill: t.color(look.color), opacity: look.soft ? 0.62 : 1, stroke: chosen ? t.color("bad") : look.idle ? t.color("bubble-edge") : t.color("page"), lineWidth: chosen ? 2.5 : shape.width > (look.idle ? 14 : 3) ? 0.7 : 0, lineDash: look.idle && !chosen ? [3, 2] : undefined },
          emphasis: { style: { stroke: t.color("ink"), lineWidth: 1.5 } },
          ...(room ? { textContent: { type: "text", style: { text, fill: look.idle ? t.color("muted") : t.color(look.ink ?? (look.soft ? "on-soft" : "on-solid")), fontSize: 11, fontFamily: (t.text as any).fontFamily } }, textConfig: { position: "inside" } } : {}),
        };
        return e[12] && d.side === 1 ? { type: "group", children: [bar, { type: "rect", silent: true, shape: { x: shape.x, y: shape.y + shape.height, width: shape.width, height: 2.5 }, style: { fill: t.color("ink") } }] } : bar;
      },
    }],
  } as any), (c) => c.on("click", (p: any) => select(drawn[p.dataIndex].i)));

  const zoom = (factor: number, shift: number) => {
    const c = plot.chart(), z = (c?.getOption() as any)?.dataZoom?.[0];
    if (!c || !z) return;
    const wide = Math.min(100, Math.max(0.2, (z.end - z.start) * factor)), middle = (z.start + z.end) / 2 + shift * (z.end - z.start), start = Math.min(100 - wide, Math.max(0, middle - wide / 2));
    c.dispatchAction({ type: "dataZoom", start, end: start + wide });
  };
  // The ops whose durations differ most, for n and p.
  const furthest = events.map((_, i) => i).filter((i) => events[i][9] > 0).sort((a, b) => Math.abs(events[b][10] - events[b][9]) - Math.abs(events[a][10] - events[a][9]));
  const walk = (by: number) => {
    if (!furthest.length) return;
    select(furthest[(Math.max(furthest.indexOf(selected), by > 0 ? -1 : 0) + by + furthest.length) % furthest.length]);
    const z = (plot.chart()?.getOption() as any)?.dataZoom?.[0], e = events[selected], wide = z ? z.end - z.start : 100, middle = (50 * (e[7] + e[8])) / end;
    if (wide < 99 && (middle < z.start || middle > z.end)) plot.chart()!.dispatchAction({ type: "dataZoom", start: Math.min(100 - wide, Math.max(0, middle - wide / 2)), end: Math.min(100, Math.max(wide, middle + wide / 2)) });
  };
  const KEYS: Record<string, () => void> = {
    w: () => zoom(0.7, 0), "+": () => zoom(0.7, 0), "=": () => zoom(0.7, 0), s: () => zoom(1 / 0.7, 0), "-": () => zoom(1 / 0.7, 0), a: () => zoom(1, -0.2), d: () => zoom(1, 0.2),
    ArrowLeft: () => zoom(1, -0.2), ArrowRight: () => zoom(1, 0.2), "0": () => zoom(1e9, 0), n: () => walk(1), p: () => walk(-1),
  };
  const frame = h("div", { class: "timeline", tabindex: 0, role: "group", "aria-label": "Timelines: w or + zooms in, s or − out, a and d or the arrows move, 0 shows all, n and p go through the ops that differ most", onkeydown: (e: KeyboardEvent) => {
    const act = KEYS[e.key];
    if (!act || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    act();
  } }, plot.host);
  const button = (text: string, label: string, act: () => void) => h("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
  const has = (kind: string) => events.some((e) => e[2].startsWith(kind)), lane = (name: string) => events.some((e) => e[1] === name && !e[2].startsWith("receive"));
  const entries: [string, string, string?][] = [["compute", "backbone"]];
  for (const [kind, color, name] of [["vision", "vision", "vision encoder"], ["audio", "vision", "audio encoder"], ["connector", "connector", "connector"], ["head", "head", "head, loss"], ["optimizer", "optimizer", "optimizer"]]) if (has(kind)) entries.push([color, name]);
  for (const [key, color, name] of [["tp", "comm", "TP"], ["pp", "pp", "PP"], ["dp", "gradient", "DP"]]) if (lane(key)) entries.push([color, name]);
  if (has("receive")) entries.push(["bubble", "receive", "bubble"]);
  entries.push(["ink", "measured critical path", "line"]);
  const left = run.ranks.length - line.ranks.length;
  return section("timelines", "Both timelines", report.findings.timelines,
    h("div", { class: "timeline-bar" }, legend(entries as any),
      h("div", { class: "buttons screen" }, button("−", "Zoom out", () => zoom(1 / 0.6, 0)), button("+", "Zoom in", () => zoom(0.6, 0)), button("All", "Show the whole step", () => zoom(1e9, 0)), button("Next", "Select the next of the ops that differ most", () => walk(1)))),
    figure(["Of each rank, the prediction above and the measurement below, on one axis. Pale is forward, full is backward; numbers are micro-batches. Thin lanes: TP, PP and DP communication. Measured are medians over the steps that were timed op by op.",
      line.joined ? " Neighbours of one kind are joined: the file has every op." : null, left > 0 ? ` ${left} more ranks are left out.` : null,
      h("span", { class: "screen" }, " Ctrl+wheel or pinch zooms, drag moves; with the chart focused, w s a d, and n for the op that differs most.")], frame),
    h("div", { class: "screen" }, detail));
}
