// The heat map: two axes as a grid of buttons, the third is the caller's slider. A real grid of elements keeps the numbers
// readable, selectable, printable and reachable by keyboard; the contour is one SVG path above it.

import type { Sweep } from "../schema";
import { boundary } from "../boundary";
import { diverging, sequential, solid } from "../color";
import { h, svg } from "../dom";
import { fixed, number, percent, seconds, setting, timeUnit } from "../format";
import type { Grid, Point } from "../grid";
import { limitLook } from "../limits";

export type View = "time" | "gap" | "limit";
const FULL_GAP = 0.4; // the error at which the diverging scale ends

/** Axis labels: round numbers, and of a fine grid only every n-th. */
function labels(values: number[], most: number) {
  const every = Math.ceil(values.length / most);
  return values.map((v, n) => h("span", null, n % every ? "" : setting(v)));
}

export interface HeatMap { host: HTMLElement; scale: HTMLElement; show: (grid: Grid, view: View, point: Point) => void; repaint: () => void }

export function heatMap(sweep: Sweep, select: (i: number, j: number) => void): HeatMap {
  const cells = h("div", { class: "heat-cells", role: "grid" });
  const overlay = svg("svg", { class: "heat-contour", preserveAspectRatio: "none", "aria-hidden": "true" });
  const yAxis = h("div", { class: "heat-y" }), xAxis = h("div", { class: "heat-x" });
  const scale = h("div", { class: "scale" });
  // What each cell shows now: only what differs is written, for a moving slider repaints 400 of them.
  interface Cell { element: HTMLElement; background: string; ink: string; text: string; kind: string }
  let cellsAt: Cell[][] = [], naming = 0, built: Grid | null = null, now: { grid: Grid; view: View; point: Point } | null = null;

  function build(grid: Grid) {
    const { flops, bw } = grid, focus = (i: number, j: number) => { select(i, j); cellsAt[j][i].element.focus(); };
    const key = (e: KeyboardEvent, i: number, j: number) => {
      const move: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1], Home: [-999, 0], End: [999, 0], PageUp: [0, 999], PageDown: [0, -999] };
      const step = move[e.key];
      if (!step) return;
      e.preventDefault();
      focus(Math.min(flops.length - 1, Math.max(0, i + step[0])), Math.min(bw.length - 1, Math.max(0, j + step[1])));
    };
    cellsAt = [];
    const lines: HTMLElement[] = [];
    for (let j = bw.length - 1; j >= 0; j--) {  // the highest bandwidth first: up is more
      cellsAt[j] = flops.map((_, i) => ({ background: "", ink: "", text: "", kind: "", element: h("button", { type: "button", role: "gridcell", tabindex: -1, "aria-selected": "false", onclick: () => select(i, j), onkeydown: (e: KeyboardEvent) => key(e, i, j) }) }));
      lines.push(h("div", { role: "row", class: "heat-row" }, ...cellsAt[j].map((c) => c.element)));
    }
    cells.replaceChildren(...lines);
    const size = Math.max(flops.length, bw.length);
    cells.classList.toggle("mid", size > 12 && size <= 24);
    cells.classList.toggle("dense", size > 24);
    overlay.setAttribute("viewBox", `0 0 ${flops.length} ${bw.length}`);
    xAxis.replaceChildren(...labels(flops, 12));
    yAxis.replaceChildren(...labels(bw, 16).reverse());
    built = grid;
  }

  // The spoken names follow when the slider rests.
  function name() {
    if (!now) return;
    const { grid, point: { k } } = now;
    cellsAt.forEach((row, j) => row.forEach(({ element }, i) => {
      const t = grid.simulated(i, j, k);
      element.setAttribute("aria-label", `${setting(grid.flops[i])} GFLOP per token, ${setting(grid.bw[j])} GB/s: ` + (t === null ? "failed" : `simulated ${seconds(t)}, formula ${percent(grid.gap(i, j, k), 0)}, limited by ${sweep.limits[grid.limit(i, j, k)]}`));
    }));
  }

  function repaint() {
    if (!now) return;
    const { grid, view, point } = now, { flops, bw, home } = grid, k = point.k;
    const style = getComputedStyle(document.documentElement), dark = matchMedia("(prefers-color-scheme: dark)").matches && !document.documentElement.classList.contains("printing");
    const looks = sweep.limits.map((name) => ({ ...solid(style.getPropertyValue("--" + limitLook(name).color).trim()), letter: limitLook(name).letter }));
    const low = Math.log(grid.low), span = Math.log(grid.high) - low || 1, [unit, factor] = timeUnit(grid.high), failed = { background: "var(--bubble)", ink: "var(--ink)" };
    const outside = (i: number, j: number) => Math.abs(grid.gap(i, j, k)) > sweep.tolerance;
    for (let j = 0; j < bw.length; j++) for (let i = 0; i < flops.length; i++) {
      const t = grid.simulated(i, j, k), gap = grid.gap(i, j, k), limit = grid.limit(i, j, k), cell = cellsAt[j][i];
      const look = t === null ? failed : view === "time" ? sequential((Math.log(t) - low) / span) : view === "gap" ? diverging(gap / FULL_GAP, dark) : looks[limit];
      const text = t === null ? "–" : view === "time" ? number(t * factor, 2) : view === "gap" ? fixed(100 * gap, 0) : looks[limit].letter;
      const kind = (view !== "limit" && outside(i, j) ? "outside" : "") + (i === home.i && j === home.j ? " home" : "");
      if (look.background !== cell.background) cell.element.style.backgroundColor = cell.background = look.background;
      if (look.ink !== cell.ink) cell.element.style.color = cell.ink = look.ink;
      if (text !== cell.text) cell.element.textContent = cell.text = text;
      if (kind !== cell.kind) cell.element.className = cell.kind = kind;
    }
    for (const old of cells.querySelectorAll<HTMLElement>("[aria-selected=true]")) { old.setAttribute("aria-selected", "false"); old.tabIndex = -1; }
    const chosen = cellsAt[point.j][point.i].element;
    chosen.setAttribute("aria-selected", "true");
    chosen.tabIndex = 0;
    clearTimeout(naming);
    naming = setTimeout(name, 150) as unknown as number;
    cells.classList.toggle("letters", view === "limit");
    cells.setAttribute("aria-label", `${{ time: "Step time", gap: "Formula error", limit: "What limits the step" }[view]} over FLOPs per token (columns) and communication bandwidth (rows)`);
    const edge = view === "limit" ? (i: number, j: number) => (grid.simulated(i, j, k) === null ? -1 : grid.limit(i, j, k)) : outside;
    const d = boundary((i, row) => edge(i, bw.length - 1 - row), flops.length, bw.length);
    overlay.replaceChildren(svg("path", { d, class: "halo" }), svg("path", { d, class: "line" }));

    if (view === "limit") {
      scale.replaceChildren(...looks.map((look, n) => h("span", { class: "limit-key" }, h("b", { style: `background:${look.background};color:${look.ink}` }, look.letter), sweep.limits[n])), h("em", null, sweep.limit_rule ?? "what limits the simulated step"));
    } else {
      const stops = Array.from({ length: 11 }, (_, n) => (view === "time" ? sequential(n / 10) : diverging(n / 5 - 1, dark)).background);
      scale.replaceChildren(h("span", null, view === "time" ? seconds(grid.low, 2) : percent(-FULL_GAP, 0)), h("i", { style: `background:linear-gradient(90deg,${stops.join(",")})` }),
        h("span", null, view === "time" ? seconds(grid.high) : "+" + percent(FULL_GAP, 0)), h("em", null, view === "time" ? `simulated step time, ${unit}, logarithmic over all AlignRatios` : "formula minus simulation, %"));
    }
  }

  const host = h("div", { class: "heat" }, yAxis, h("div", { class: "heat-plot" }, cells, overlay), xAxis,
    h("div", { class: "heat-ytitle" }, "communication bandwidth, GB/s"), h("div", { class: "heat-xtitle" }, "FLOPs per token, GFLOP"));
  const show = (grid: Grid, view: View, point: Point) => {
    now = { grid, view, point };
    if (built !== grid) build(grid);
    repaint();
  };
  return { host, scale, show, repaint };
}
