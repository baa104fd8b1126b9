// docs/schema/report.schema.json accepts the fixture and every report that leaves sections out, and rejects what is wrong.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(join(process.env.AURUM_WEB_BUILD, "package.json"));
const Ajv = require("ajv/dist/2020").default;
const validate = new Ajv({ allErrors: true, allowUnionTypes: true }).compile(JSON.parse(readFileSync("docs/schema/report.schema.json", "utf8")));
const fixture = () => JSON.parse(readFileSync("tests/reports/fixtures/island.json", "utf8"));

let failed = 0;
function expect(valid, name, change = () => {}) {
  const island = fixture();
  change(island);
  const ok = validate(island) === valid;
  console.log(ok ? "ok  " : "FAIL", name, ok || !valid ? "" : JSON.stringify(validate.errors?.slice(0, 3)));
  if (!ok) failed++;
}
expect(true, "the fixture");
for (const key of ["sweep", "plans", "timeline", "memory", "validation", "sensitivities", "confidence", "synthetic"]) expect(true, `without ${key}`, (d) => delete d[key]);
expect(true, "a report of a formula study", (d) => { for (const k of ["verdict", "time", "plans", "timeline", "memory", "validation", "sensitivities"]) delete d[k]; });
expect(true, "without intervals", (d) => { for (const k of ["step_time_low_s", "step_time_high_s", "peak_low_gib", "peak_high_gib"]) { delete d.verdict[k]; delete d.plans.rows[0][k]; } delete d.memory.peak.low_gib; delete d.memory.peak.high_gib; });
expect(false, "another schema version", (d) => { d.schema = "aurum.report/2"; });
for (const key of ["title", "question", "command", "findings", "warnings"]) expect(false, `without ${key}`, (d) => delete d[key]);
expect(false, "an unknown key", (d) => { d.stepTime = 1; });
expect(false, "an unknown key in a plan", (d) => { d.plans.rows[0].tokens = 1; });
expect(false, "a verdict without the time", (d) => delete d.time);
expect(false, "plans without a verdict", (d) => { delete d.verdict; delete d.time; delete d.memory; delete d.sensitivities; });
expect(false, "a share above one", (d) => { d.verdict.mfu = 37.2; });
expect(false, "a step of no time", (d) => { d.verdict.step_time_s = 0; });
expect(false, "a number as text", (d) => { d.verdict.peak_gib = "63"; });
expect(false, "an unknown provenance", (d) => { d.assumptions[0].provenance = "guessed"; });
expect(false, "an event with a missing column", (d) => d.timeline.events[0].pop());
expect(false, "an event on an unknown lane", (d) => { d.timeline.events[0][1] = "ep"; });
expect(false, "a model without a cluster", (d) => delete d.sweep.models[0].cluster);
expect(false, "a model without its limit", (d) => delete d.sweep.models[0].limit);
expect(false, "a field over an unknown axis", (d) => { d.sweep.models[0].beta_p_align_s.axes = ["batch"]; });
expect(false, "a run of no length", (d) => { d.sweep.models[0].limit.runs[0][1] = 0; });
expect(false, "null where nothing can fail", (d) => { d.sweep.models[0].formula_step_time_s[0] = null; });
expect(false, "an AlignRatio above one", (d) => { d.sweep.axes.align_ratio[1] = 1.5; });
process.exit(failed ? 1 : 0);
