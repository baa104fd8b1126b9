// The page of `aurum validate SCENARIO --measured RUN.json`: its island passes the schema, both timelines are drawn, its figures are
// those of --json, it fetches nothing, says nothing on the console, and what a record says stays text. The runs are of virtual ranks.
//
//   AURUM_WEB_BUILD=build/…/reports/web node tests/reports/run_page_test.mjs build/…/aurum
//   SHOTS=DIR writes screenshots besides; CHROMIUM names the browser.
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { launch, visit } from "./browser.mjs";

const aurum = process.argv[2], require = createRequire(join(process.env.AURUM_WEB_BUILD, "package.json"));
const Ajv = require("ajv/dist/2020").default;
const valid = new Ajv({ allErrors: true, allowUnionTypes: true }).compile(JSON.parse(readFileSync("docs/schema/report.schema.json", "utf8")));
const scratch = mkdtempSync(join(tmpdir(), "aurum-run-")), shots = process.env.SHOTS;
if (shots) mkdirSync(shots, { recursive: true });
let failed = 0;
const expect = (name, ok, detail = "") => { console.log(ok ? "ok  " : "FAIL", name, ok ? "" : detail); if (!ok) failed++; };
const call = (...words) => spawnSync(aurum, words, { encoding: "utf8", maxBuffer: 1 << 28 });

const HOSTILE = '</script><img src=x onerror="window.hit=1"><!-- $& @@DATA@@ \u2028 &amp;';
// Every op of the named kinds takes `factor` times as long; later ops of all ranks shift with the end of the step.
const slower = (record, factor) => {
  record.traceEvents.filter((e) => e.ph === "X").forEach((e) => { const a = e.args; a.start_s *= factor; a.duration_s *= factor; e.ts = a.start_s * 1e6; e.dur *= factor * (1 - 1e-12); });
  for (const key of ["steps_s", "clean_steps_s"]) record[key] = record[key].map((s) => s * factor);
  record.step_time_s *= factor;
};
const hostile = (record) => {
  record.scenario_name = record.tool_version = record.command_line = record.clock = HOSTILE;
  for (const r of record.ranks) r.device = r.host = HOSTILE;
  record.checks = [{ name: HOSTILE, passed: false, detail: HOSTILE }];
  record.versions = [[HOSTILE, HOSTILE]];
  record.warnings = [HOSTILE];
};
const pages = {};
for (const [name, plan, change, code, words] of [
  ["same", "pp", () => {}, 0, []], ["slower", "pp", (r) => slower(r, 1.2), 5, []], ["hostile", "pp", hostile, 0, []], ["steps", "pp", (r) => { r.traceEvents = []; }, 0, []],
  ["alone", "pp", () => {}, 0, ["--rank", "1"]], ["fsdp", "fsdp", () => {}, 0, []],
]) {
  const scenario = `scenarios/loop-${plan}.json`, run = join(scratch, name + ".json"), html = join(scratch, name + ".html");
  const executed = call("execute", scenario, "--backend", "virtual", ...words, "-o", run);
  expect(`${name}: the plan ran`, executed.status === 0, executed.stderr);
  const record = JSON.parse(readFileSync(run, "utf8"));
  change(record);
  writeFileSync(run, JSON.stringify(record));
  const compared = call("validate", scenario, "--measured", run, "--json", "--html", html);
  expect(`${name}: exit code ${code}`, compared.status === code, compared.status + compared.stderr);
  const document = JSON.parse(compared.stdout), page = readFileSync(html, "utf8"), island = JSON.parse(page.split('<script id="aurum-data" type="application/json">')[1].split("</script")[0]);
  expect(`${name}: the island passes the schema`, valid(island), JSON.stringify(valid.errors?.slice(0, 3)));
  expect(`${name}: less than 3 MB`, page.length < 3e6, page.length);
  pages[name] = { html, document, island };
}
const close = (a, b) => Math.abs(a - b) <= 1e-5 * Math.max(Math.abs(a), Math.abs(b), 1e-9);
expect("slower: predicted 16.7 % short", close(pages.slower.document.metrics.step_time_s.relative_error, 1 / 1.2 - 1), JSON.stringify(pages.slower.document.metrics));
for (const name of ["same", "slower", "fsdp"]) {
  const { document, island } = pages[name], metrics = document.metrics;
  expect(`${name}: the page's figures are those of --json`, island.run.metrics.every((m) => close(m.predicted, metrics[m.name].predicted) && close(m.measured, metrics[m.name].measured)));
  const sum = island.run.parts.reduce((a, p) => a + p.difference_s, 0);
  expect(`${name}: the parts sum to the difference`, Math.abs(sum - (metrics.step_time_s.measured - metrics.step_time_s.predicted)) < 1e-5 * metrics.step_time_s.measured, sum);
}
expect("steps: no ops, no timelines", pages.steps.island.run.timelines === undefined && pages.steps.island.run.parts.length === 0);
for (const [name, change] of [["a part of an unknown kind", (r) => { r.parts[0].part = "magic"; }], ["an event on an unknown lane", (r) => { r.timelines.events[0][1] = "ep"; }], ["a run without its metrics", (r) => { r.metrics = []; }], ["a rank without a device", (r) => delete r.ranks[0].device], ["a share above one", (r) => { r.ranks[0].throttled_share = 12; }]]) {
  const island = structuredClone(pages.slower.island);
  change(island.run);
  expect(`the schema refuses ${name}`, !valid(island));
}

const browser = await launch(expect);
if (browser) {
  const open = (name, options, act) => visit(browser, expect, name, pages[name].html, options, act);
  const overflow = () => document.documentElement.scrollWidth - document.documentElement.clientWidth;
  const shapes = () => document.querySelector("#timelines .chart").querySelectorAll("svg path").length;
  for (const colorScheme of ["light", "dark"]) await open("slower", { colorScheme }, async (t) => {
    expect(`${colorScheme}: the verdict`, (await t.locator("#run").innerText()).includes("✗ outside tolerance") && (await t.locator("#run").innerText()).includes("−16.67"));
    const events = pages.slower.island.run.timelines.events, drawn = await t.evaluate(shapes);
    expect(`${colorScheme}: ops are drawn on both sides`, drawn > events.length, `${drawn} of ${events.length}`);
    expect(`${colorScheme}: a line for every part`, (await t.locator("#difference tbody").first().locator("tr").count()) === pages.slower.island.run.parts.length);
    if (shots) await t.screenshot({ path: join(shots, `run-${colorScheme}.png`), fullPage: true });
    const frame = t.locator("#timelines .timeline"), before = await t.locator("#timelines .chart").innerHTML();
    await frame.focus();
    await t.keyboard.press("n");
    const text = await t.locator("#timelines .selected").innerText();
    expect(`${colorScheme}: n selects the op that differs most`, /predicted .* measured .* difference/.test(text) && text.includes("+20.0"), text);
    await t.keyboard.press("w");
    await t.keyboard.press("w");
    expect(`${colorScheme}: w zooms`, (await t.locator("#timelines .chart").innerHTML()) !== before);
    if (shots) await t.locator("#timelines").screenshot({ path: join(shots, `run-zoom-${colorScheme}.png`) });
  });
  await open("same", {}, async (t) => expect("same: within tolerance", (await t.locator("#run").innerText()).includes("✓ within tolerance")));
  await open("alone", {}, async (t) => expect("alone: what was not measured is marked", (await t.locator("#difference").innerText()).toLowerCase().includes("modelled") && (await t.locator("header").innerText()).includes("Rank 1 ran alone")));
  await open("steps", {}, async (t) => expect("steps: the figures alone", (await t.locator("#run").count()) === 1 && (await t.locator("#timelines").count()) === 0));
  await open("hostile", {}, async (t) => {
    expect("hostile: text of a record stays text", await t.evaluate(() => window.hit === undefined && document.images.length === 0));
    expect("hostile: and is shown as it is", (await t.locator("main").innerText()).includes("</script><img src=x onerror="));
    expect("hostile: no sideways scrolling", (await t.evaluate(overflow)) === 0);
    expect("hostile: the failed check is told", (await t.locator("#machine").innerText()).includes("✗ failed"));
  });
  for (const width of [360, 768, 1920]) await open("slower", { viewport: { width, height: 900 } }, async (t) => {
    expect(`no sideways scrolling at ${width}`, (await t.evaluate(overflow)) === 0);
    if (shots && width === 360) await t.screenshot({ path: join(shots, "run-360.png"), fullPage: true });
  });
  await browser.close();
}
rmSync(scratch, { recursive: true });
process.exit(failed ? 1 : 0);
