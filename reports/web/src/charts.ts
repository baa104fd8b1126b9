// The one place that knows ECharts. Charts are redrawn from scratch when the colour scheme, the width class or the
// medium (screen, print) changes; their options are pure functions of data and theme.

import * as echarts from "echarts/core";
import { BarChart, CustomChart, LineChart, ScatterChart } from "echarts/charts";
import { DataZoomComponent, GridComponent, MarkLineComponent, TooltipComponent } from "echarts/components";
import { SVGRenderer } from "echarts/renderers";
import type { EChartsOption } from "echarts";
import { h } from "./dom";

echarts.use([BarChart, CustomChart, LineChart, ScatterChart, DataZoomComponent, GridComponent, MarkLineComponent, TooltipComponent, SVGRenderer]);

export type Chart = echarts.ECharts;
export const clipRect = echarts.graphic.clipRectByRect;

export interface Theme { color: (name: string) => string; narrow: boolean; printing: boolean; width: number; axis: object; text: object }

const live: { host: HTMLElement; chart: Chart | null; draw: () => void }[] = [];
const PRINT_WIDTH = 690; // CSS px of A4 with 14 mm margins
let printing = false;

const COARSE: [number, number][] = [[1, 0.5], [1.5, 0.5], [2, 1], [3, 1], [4, 2], [6, 2], [8, 4], [10, 5]];
const FINE: [number, number][] = [[1, 0.2], [1.2, 0.2], [1.6, 0.4], [2, 0.5], [2.5, 0.5], [3, 0.5], [4, 1], [5, 1], [6, 1], [8, 2], [10, 2]];
/** The end and the spacing of an axis from 0 that holds `value`: two to four steps, or four to six. */
export function niceScale(value: number, fine = false): [end: number, gap: number] {
  if (!(value > 0)) return [1, 0.5];
  const unit = 10 ** Math.floor(Math.log10(value)), steps = fine ? FINE : COARSE;
  const [end, gap] = steps.find(([x]) => x * unit >= value * (1 - 1e-9)) ?? steps[steps.length - 1];
  return [end * unit, gap * unit];
}

function theme(width: number): Theme {
  const style = getComputedStyle(document.documentElement);
  const color = (name: string) => style.getPropertyValue("--" + name).trim();
  const text = { color: color("muted"), fontFamily: style.getPropertyValue("--sans").trim(), fontSize: 12 };
  return {
    color, width, printing, narrow: width < 560, text,
    axis: {
      axisLine: { lineStyle: { color: color("axis") } }, axisTick: { lineStyle: { color: color("axis") }, length: 4 },
      axisLabel: { ...text }, splitLine: { lineStyle: { color: color("grid"), width: 1 } },
      nameTextStyle: { ...text }, nameLocation: "middle",
    },
  };
}

export function tooltip(theme: Theme, content: (params: any) => HTMLElement) {
  return {
    confine: true, transitionDuration: 0, formatter: content, backgroundColor: theme.color("raised"), borderColor: theme.color("rule"), borderWidth: 1,
    padding: [8, 10], textStyle: { ...theme.text, color: theme.color("ink"), fontSize: 12.5 }, extraCssText: "box-shadow:0 4px 14px rgb(0 0 0 / .16);border-radius:5px;",
  };
}

export function rows(title: string, pairs: [string, string][]) {
  return h("div", { class: "tip" }, h("strong", null, title), h("dl", null, ...pairs.flatMap(([k, v]) => [h("dt", null, k), h("dd", null, v)])));
}

export interface Handle { host: HTMLElement; redraw: () => void; update: () => void; chart: () => Chart | null }

/** `label` says in words what the picture shows; the figures themselves are in a table nearby. */
export function chart(label: string, height: number | ((theme: Theme) => number), option: (theme: Theme) => EChartsOption, wire?: (chart: Chart) => void): Handle {
  const host = h("div", { class: "chart", role: "img", "aria-label": label });
  const entry = {
    host, chart: null as Chart | null, theme: null as Theme | null,
    draw: () => {
      const width = printing ? PRINT_WIDTH / Number(host.dataset.share ?? 1) - (host.dataset.share ? 12 : 0) : host.clientWidth;
      if (!width) return;
      const t = theme(width), tall = typeof height === "function" ? height(t) : height;
      const zoom = (entry.chart?.getOption() as any)?.dataZoom?.map((z: any) => ({ start: z.start, end: z.end }));
      entry.theme = t;
      entry.chart?.dispose();
      host.style.height = tall + "px";
      entry.chart = echarts.init(host, null, { renderer: "svg", width, height: tall });
      entry.chart.setOption({ animation: false, textStyle: t.text, ...option(t) });
      if (zoom?.length) entry.chart.setOption({ dataZoom: zoom });
      wire?.(entry.chart);
    },
  };
  live.push(entry);
  // New data under the old theme and size: about half the cost of drawing from scratch, which a moving slider feels.
  const update = () => (entry.chart && entry.theme ? entry.chart.setOption({ animation: false, textStyle: entry.theme.text, ...option(entry.theme) }, true) : entry.draw());
  return { host, redraw: () => entry.draw(), update, chart: () => entry.chart };
}

const redrawAll = () => live.forEach((c) => c.draw());

export function startCharts() {
  redrawAll();
  let frame = 0;
  const widths = new WeakMap<Element, number>();
  const observer = new ResizeObserver((entries) => {
    if (printing) return;
    const changed = entries.filter((e) => widths.get(e.target) !== e.contentRect.width);
    changed.forEach((e) => widths.set(e.target, e.contentRect.width));
    if (!changed.length) return;
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => live.filter((c) => c.chart?.getWidth() !== c.host.clientWidth).forEach((c) => c.draw()));
  });
  live.forEach((c) => observer.observe(c.host));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
  const facts = document.querySelectorAll<HTMLDetailsElement>("details.facts");
  const print = (on: boolean) => { printing = on; document.documentElement.classList.toggle("printing", on); facts.forEach((d) => (d.open = on)); redrawAll(); };
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
}
