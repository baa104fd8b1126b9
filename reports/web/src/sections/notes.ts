import type { Report } from "../schema";
import { h, section, table } from "../dom";
import { fixed } from "../format";

export function notesSection(report: Report) {
  return section("notes", "Warnings and assumptions", report.findings.notes,
    report.warnings.length > 0 && h("ul", { class: "warnings" }, ...report.warnings.map((w) => h("li", null, h("code", null, w.code), " ", w.text, h("small", null, ` ${w.where}`)))),
    report.assumptions.length > 0 && table("Assumptions", [
      { head: "Assumption", header: true, sort: (a) => a.what, cell: (a) => a.what }, { head: "Value", cell: (a) => a.value },
      { head: "Provenance", sort: (a) => a.provenance, cell: (a) => h("span", { class: "prov " + a.provenance }, a.provenance) },
      { head: "Effect on the step", unit: "±%", numeric: true, sort: (a) => -(a.effect_on_step ?? -1), cell: (a) => (a.effect_on_step === undefined || a.effect_on_step === null ? "–" : fixed(100 * a.effect_on_step, 1)) },
    ], report.assumptions, { sorted: 3 }),
    report.assumptions.length > 0 && h("p", { class: "note" }, "Measured: on this hardware. Calibrated: fitted to measurements of it. Datasheet: the vendor’s figure. Assumed: none of these; change it with --set."));
}
