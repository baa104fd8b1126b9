import type { Report, Sensitivity } from "../schema";
import { chart, niceScale, rows, tooltip } from "../charts";
import { figure, h, legend, section, table } from "../dom";
import { delta, fixed, number, percent, tick } from "../format";

export function sensitivitySection(report: Report) {
  const step = report.verdict!.step_time_s;
  const swing = (s: Sensitivity) => Math.max(Math.abs(s.step_time_delta_up_s), Math.abs(s.step_time_delta_down_s));
  const list = [...report.sensitivities!].sort((a, b) => swing(b) - swing(a));
  const share = (x: number) => (100 * x) / step, largest = Math.max(0.1, share(swing(list[0])));
  const plot = chart("Change of the step time for 10 percent more and 10 percent less of each resource", list.length * 32 + 50, (t) => { const most = niceScale(largest * (t.narrow ? 1.5 : 1.15))[0]; return ({
    grid: { left: t.narrow ? 126 : 160, right: 30, top: 6, bottom: 44, outerBoundsMode: "none" },
    tooltip: { trigger: "axis", axisPointer: { type: "none" }, ...tooltip(t, (ps: any[]) => { const s = list[ps[0].dataIndex]; return rows(`${s.resource}, now ${number(s.value)} ${s.unit}`, [["10 % more", delta(percent(s.step_time_delta_up_s / step, 2))], ["10 % less", delta(percent(s.step_time_delta_down_s / step, 2))], ...(s.half_width_s === undefined ? [] : [["±", percent(s.half_width_s / step, 2)] as [string, string]])]); }) },
    xAxis: { type: "value", min: -most, max: most, ...t.axis, name: "change of the step time, %   (left is faster)", nameGap: 28, axisLabel: { ...t.text, formatter: (x: number) => (x ? delta(tick(x)) : "0") }, axisLine: { show: false }, axisTick: { show: false } } as any,
    yAxis: { type: "category", inverse: true, data: list.map((s) => s.resource), ...t.axis, axisTick: { show: false }, axisLine: { onZero: true, lineStyle: { color: t.color("muted") } }, axisLabel: { ...t.text, color: t.color("ink"), margin: 8 } } as any,
    series: [
      ...(["up", "down"] as const).map((side) => ({ type: "bar" as const, barWidth: 15, barGap: "-100%", stack: side, cursor: "default", itemStyle: { color: t.color(side === "up" ? "more" : "less") },
        data: list.map((s) => { const x = side === "up" ? s.step_time_delta_up_s : s.step_time_delta_down_s; return { value: share(x), label: { show: Math.abs(share(x)) >= 0.05 || (x === 0 && side === "down"), position: x < 0 ? "left" as const : "right" as const, distance: 5 + (share(s.half_width_s ?? 0) / most) * t.width * 0.36, formatter: x ? delta(fixed(share(x), 1)) : "0, not binding", color: t.color("ink"), fontSize: 11.5 } }; }) })),
      { type: "custom", silent: true, z: 5, data: list.flatMap((s, i) => [[i, share(s.step_time_delta_up_s), share(s.half_width_s ?? 0)], [i, share(s.step_time_delta_down_s), share(s.half_width_s ?? 0)]]), encode: { x: 1, y: 0 }, renderItem: (_: any, api: any) => {
        if (api.value(2) < 0.02) return;
        const a = api.coord([api.value(1) - api.value(2), api.value(0)]), b = api.coord([api.value(1) + api.value(2), api.value(0)]);
        return { type: "line", shape: { x1: a[0], y1: a[1], x2: b[0], y2: b[1] }, style: { stroke: t.color("ink"), lineWidth: 1.2 } };
      } },
    ],
  } as any); });
  return section("sensitivity", "What 10 % more would buy", report.findings.sensitivity,
    figure("One resource changes, everything else stays, the whole step is simulated again. Thin lines are intervals.",
      legend([["more", "10 % more"], ["less", "10 % less"]]), plot.host),
    h("details", null, h("summary", null, "The same as a table"), table("Sensitivities", [
      { head: "Resource", header: true, cell: (s) => s.resource }, { head: "Now", numeric: true, cell: (s) => `${number(s.value)} ${s.unit}` },
      { head: "10 % more", unit: "ms", numeric: true, cell: (s) => delta(fixed(1e3 * s.step_time_delta_up_s, 1)) }, { head: "10 % less", unit: "ms", numeric: true, cell: (s) => delta(fixed(1e3 * s.step_time_delta_down_s, 1)) },
      { head: "±", unit: "ms", numeric: true, cell: (s) => (s.half_width_s === undefined ? "–" : fixed(1e3 * s.half_width_s, 1)) }, { head: "Provenance", cell: (s) => h("span", { class: "prov " + s.provenance }, s.provenance) }, { head: "Why", cell: (s) => s.note },
    ], list)));
}
