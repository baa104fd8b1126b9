import type { Report } from "./schema";
import { startCharts } from "./charts";
import { h } from "./dom";
import { header } from "./sections/header";
import { plansSection } from "./sections/plans";
import { timelineSection } from "./sections/timeline";
import { memorySection } from "./sections/memory";
import { sweepSection } from "./sections/sweep";
import { termsSection } from "./sections/terms";
import { sensitivitySection } from "./sections/sensitivity";
import { validationSection } from "./sections/validation";
import { differenceSection, machineSection, runSection } from "./sections/run";
import { timelinesSection } from "./sections/timelines";
import { notesSection } from "./sections/notes";

const report: Report = JSON.parse(document.getElementById("aurum-data")!.textContent!);

const SECTIONS: [id: string, name: string, present: unknown, make: (r: Report) => HTMLElement][] = [
  ["run", "Step", report.run, runSection], ["timelines", "Timelines", report.run?.timelines, timelinesSection], ["difference", "Difference", report.run?.parts.length, differenceSection], ["machine", "Machine", report.run, machineSection],
  ["plans", "Plans", report.plans, plansSection], ["timeline", "Timeline", report.timeline, timelineSection], ["memory", "Memory", report.memory, memorySection],
  ["sweep", "Formula sweep", report.sweep, sweepSection], ["terms", "Formula terms", report.sweep, termsSection], ["sensitivity", "What-if", report.sensitivities?.length, sensitivitySection],
  ["validation", "Validation", report.validation, validationSection], ["notes", "Assumptions", report.warnings.length + report.assumptions.length, notesSection],
];

const shown = SECTIONS.filter((s) => s[2]);
const links = new Map([["top", report.verdict ? "Verdict" : "Question"], ...shown.map((s) => [s[0], s[1]] as [string, string])].map(([id, name]) => [id, h("a", { href: "#" + id }, name)] as [string, HTMLAnchorElement]));
const main = h("main", { id: "main" }, header(report), ...shown.map((s) => s[3](report)),
  h("footer", null, `${report.tool_version}, run ${report.run_id}`, report.synthetic ? ". Every number on this page is synthetic sample data." : ""));
document.getElementById("report")!.replaceWith(
  h("a", { class: "skip", href: "#main" }, "Skip to the report"),
  h("nav", { "aria-label": "Sections" }, h("span", { class: "brand" }, "Aurum"), ...links.values()), main);
startCharts();

// The link of the section in view is current.
const seen = new Set<string>();
const watch = new IntersectionObserver((entries) => {
  entries.forEach((e) => (e.isIntersecting ? seen.add(e.target.id) : seen.delete(e.target.id)));
  const current = [...links.keys()].find((id) => seen.has(id));
  links.forEach((a, id) => (id === current ? a.setAttribute("aria-current", "true") : a.removeAttribute("aria-current")));
}, { rootMargin: "-15% 0px -70% 0px" });
links.forEach((_, id) => watch.observe(document.getElementById(id)!));
