// The page of `aurum validate --published`: its island passes the schema, its charts are drawn, its figures are those of --json,
// it fetches nothing, says nothing on the console, and what a record says stays text.
//
//   AURUM_WEB_BUILD=build/…/reports/web node tests/reports/published_page_test.mjs build/…/aurum
//   SHOTS=DIR writes screenshots besides; CHROMIUM names the browser.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { launch, visit } from "./browser.mjs";

const aurum = process.argv[2], require = createRequire(join(process.env.AURUM_WEB_BUILD, "package.json"));
const Ajv = require("ajv/dist/2020").default;
const valid = new Ajv({ allErrors: true, allowUnionTypes: true }).compile(JSON.parse(readFileSync("docs/schema/report.schema.json", "utf8")));
const scratch = mkdtempSync(join(tmpdir(), "aurum-published-")), shots = process.env.SHOTS;
if (shots) mkdirSync(shots, { recursive: true });
let failed = 0;
const expect = (name, ok, detail = "") => { console.log(ok ? "ok  " : "FAIL", name, ok ? "" : detail); if (!ok) failed++; };

const HOSTILE = '</script><img src=x onerror="window.hit=1"><!-- $& @@DATA@@ \u2028 &amp;';
const own = () => JSON.parse(readFileSync("tests/study/fixtures/published_training.json", "utf8"));
const cases = readFileSync("tests/study/fixtures/published_cases.json", "utf8");
const variants = {
  plain: JSON.stringify(own()),
  cases, // plans measured against each other, reported out of memory or not
  hostile: JSON.stringify(own().map((r, i) => ({ ...r, id: r.id + HOSTILE, cluster: HOSTILE, task: r.task + HOSTILE, flags: i === 3 ? [HOSTILE] : r.flags, model: { ...r.model, name: HOSTILE } }))),
  none: JSON.stringify(own().map((r) => ({ ...r, hardware: { ...r.hardware, gpu: "unheard of" } }))),
};
const pages = {};
for (const [name, text] of Object.entries(variants)) {
  const records = join(scratch, name + ".json"), html = join(scratch, name + ".html");
  writeFileSync(records, text);
  const document = JSON.parse(execFileSync(aurum, ["validate", "--published", records, "--json", "--html", html], { encoding: "utf8", maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "pipe"] }));
  const page = readFileSync(html, "utf8"), island = JSON.parse(page.split('<script id="aurum-data" type="application/json">')[1].split("</script")[0]);
  expect(`${name}: the island passes the schema`, valid(island), JSON.stringify(valid.errors?.slice(0, 3)));
  pages[name] = { html, document, island };
}
expect("cases: fits and rankings are shown", pages.cases.island.validation.fits?.length === 2 && pages.cases.island.validation.ranking?.length > 0, Object.keys(pages.cases.island.validation).join());
expect("none: no row and no metric", pages.none.island.validation.rows.length === 0);
for (const [name, change] of [["a term of an unknown kind", (v) => { v.worst.find((r) => r.terms).terms[0].kind = "magic"; }], ["a bound without the other", (v) => { v.worst[0].low = 1; delete v.worst[0].high; }], ["a source without its score", (v) => delete v.by_source[0].score], ["a coverage above one", (v) => { v.by_source[0].score.coverage_90 = 84; }], ["a reason of no row", (v) => { v.skipped[0].ids = []; }]]) {
  const island = structuredClone(pages.plain.island);
  change(island.validation);
  expect(`the schema refuses ${name}`, !valid(island));
}

const browser = await launch(expect);
if (browser) {
  const open = (name, options, act) => visit(browser, expect, name, pages[name].html, options, act);
  const overflow = () => document.documentElement.scrollWidth - document.documentElement.clientWidth;
  const points = () => [...document.querySelectorAll(".chart")].map((c) => c.querySelectorAll("svg path").length);
  for (const colorScheme of ["light", "dark"]) await open("plain", { colorScheme }, async (t) => {
    const drawn = await t.evaluate(points);
    expect(`${colorScheme}: a chart for the step time and one for the memory`, drawn.length === 2 && drawn.every((n) => n > 5), drawn.join());
    const worst = t.locator(".worst-table tbody tr"), shown = pages.plain.island.validation.worst;
    expect(`${colorScheme}: every worst row, with a bar for its step`, (await worst.count()) === shown.length && (await t.locator(".stack.beside").count()) === shown.filter((r) => r.terms).length);
    expect(`${colorScheme}: furthest off first`, (await worst.first().innerText()).includes(shown[0].id) && (await worst.first().innerText()).includes(shown[0].explanation));
    const widths = await t.evaluate(() => [...document.querySelectorAll(".stack.beside")].map((b) => [...b.querySelectorAll("span")].reduce((sum, s) => sum + parseFloat(s.style.width), 0)));
    expect(`${colorScheme}: a bar is as long as its prediction`, shown.filter((r) => r.terms).every((r, i) => Math.abs(widths[i] - (100 * r.predicted) / Math.max(r.predicted, r.measured)) < 0.5), widths.join());
    const table = await t.locator(".source-table").first().innerText(), sources = pages.plain.document.by_source;
    expect(`${colorScheme}: a line for every source`, Object.keys(sources).every((s) => table.includes(s)));
    const mean = (100 * sources["nvidia-megatron-bridge"].iteration_s.mape).toFixed(1);
    expect(`${colorScheme}: its mean is the one of --json`, table.split("\n").join(" ").match(/nvidia-megatron-bridge[^a-z]*/)?.[0].includes(mean), mean);
    await t.locator(".source-table").first().getByRole("button", { name: /^Mean %/ }).click();
    const order = (await t.locator(".source-table").first().locator("tbody tr td:nth-child(5)").allInnerTexts()).map(Number);
    expect(`${colorScheme}: a table sorts, rows without a figure last`, order.filter(Number.isFinite).every((x, i, all) => i === 0 || all[i - 1] <= x) && Number.isNaN(order[order.length - 1]), order.join());
    if (shots) await t.screenshot({ path: join(shots, `published-${colorScheme}.png`), fullPage: true });
  });
  await open("cases", {}, async (t) => expect("cases: the verdicts and the comparisons", (await t.locator("#validation").innerText()).includes("Did it fit?") && (await t.locator("#validation").innerText()).includes("Choice of a plan")));
  await open("hostile", {}, async (t) => {
    expect("hostile: text of a record stays text", await t.evaluate(() => window.hit === undefined && document.images.length === 0));
    expect("hostile: and is shown as it is", (await t.locator("main").innerText()).includes("</script><img src=x onerror="));
    expect("hostile: no sideways scrolling", (await t.evaluate(overflow)) === 0);
  });
  await open("none", {}, async (t) => expect("none: the reasons, no chart", (await t.evaluate(points)).length === 0 && (await t.locator("#validation").innerText()).includes("is not described in sources.json")));
  for (const width of [360, 768, 1920]) await open("plain", { viewport: { width, height: 900 } }, async (t) => expect(`no sideways scrolling at ${width}`, (await t.evaluate(overflow)) === 0));
  await browser.close();
}
rmSync(scratch, { recursive: true });
process.exit(failed ? 1 : 0);
