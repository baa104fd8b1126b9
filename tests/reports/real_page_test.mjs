// Reports of real results: what the program writes for every shipped scenario and for two small sweeps passes the island's
// schema, draws in a headless browser, and has nothing to say on the console.
//
//   AURUM_WEB_BUILD=build/…/reports/web node tests/reports/real_page_test.mjs build/…/aurum
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const aurum = process.argv[2], require = createRequire(join(process.env.AURUM_WEB_BUILD, "package.json"));
const Ajv = require("ajv/dist/2020").default;
const validate = new Ajv({ allErrors: true, allowUnionTypes: true }).compile(JSON.parse(readFileSync("docs/schema/report.schema.json", "utf8")));
const scratch = mkdtempSync(join(tmpdir(), "aurum-real-"));
let failed = 0;
const expect = (name, ok, detail = "") => { console.log(ok ? "ok  " : "FAIL", name, ok ? "" : detail); if (!ok) failed++; };
const run = (...words) => execFileSync(aurum, words, { encoding: "utf8", maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "pipe"] });

const axis = (path, spec) => ["--vary", `${path}=${spec}`];
run("sweep", "scenarios/golden-sweep.json", ...axis("what_if.flops_gflop_per_token", "4,16,64"), ...axis("what_if.comm_bw_gb_per_s", "2,20,200,600"), ...axis("what_if.align_ratio", "0,0.5,1"), "-o", join(scratch, "golden.db"));
run("sweep", "scenarios/llava-1.6-7b-finetune-8xa100.json", ...axis("plan.micro_batch_size", "1,2,4,8"), ...axis("plan.recompute", "none,full"), ...axis("plan.sharding", "ddp,fsdp"), "-o", join(scratch, "plans.db"));

const inputs = readdirSync("scenarios").filter((f) => f.endsWith(".json")).map((f) => join("scenarios", f)).concat(join(scratch, "golden.db"), join(scratch, "plans.db"));
const sections = {};
for (const input of inputs) {
  const island = JSON.parse(run("report", input, "--json"));
  expect(`${input}: passes the schema`, validate(island), JSON.stringify(validate.errors?.slice(0, 3)));
  sections[input] = Object.keys(island);
  if (island.time) {
    const sum = Object.values(island.time).reduce((a, b) => a + b, 0);
    expect(`${input}: the parts sum to the step`, Math.abs(sum / island.verdict.step_time_s - 1) < 1e-4, `${sum} ${island.verdict.step_time_s}`);
  }
}

const executablePath = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((path) => path && existsSync(path));
if (!executablePath) {
  const ci = Boolean(process.env.CI) && process.env.CI !== "false";
  expect("chromium (Debian package chromium)", !ci, "not here");
} else {
  const { chromium } = require("playwright-core");
  const browser = await chromium.launch({ executablePath, args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"] });
  for (const input of [join(scratch, "golden.db"), join(scratch, "plans.db"), "scenarios/qwen2.5-vl-72b-64xh100.json"]) {
    const html = join(scratch, "page.html");
    run("report", input, "-o", html);
    const context = await browser.newContext({ offline: true, viewport: { width: 1280, height: 900 } });
    const tab = await context.newPage(), problems = [];
    tab.on("console", (m) => ["error", "warning"].includes(m.type()) && problems.push(m.text()));
    tab.on("pageerror", (e) => problems.push(String(e)));
    await tab.goto(pathToFileURL(html).href);
    await tab.waitForSelector("footer");
    await tab.waitForTimeout(300);
    const paths = await tab.evaluate(() => [...document.querySelectorAll(".chart")].map((c) => c.querySelectorAll("svg path").length));
    expect(`${input}: ${paths.length} charts are drawn`, paths.length > 0 && paths.every((n) => n > 2), paths.join(" "));
    const slider = tab.locator("input[type=range]");
    if ((await slider.count()) > 0) {
      const cells = () => tab.locator("[role=gridcell]").allInnerTexts();
      // Where the network is slow, misaligned tokens cost what the map can show.
      await tab.getByRole("radio", { name: "llava-1.6-7b" }).check();
      // Every way to combine the modalities has a map, weights and a sentence of its own.
      const formulas = [];
      await tab.getByRole("radio", { name: "formula error" }).check();
      for (const name of ["maximum", "sum", "critical path"]) {
        await tab.getByRole("radio", { name, exact: true }).check();
        await tab.waitForTimeout(100);
        formulas.push([await tab.locator(".formula small").innerText(), (await cells()).join()]);
      }
      // All modules of this sweep share one stage, so that their sum is the critical path.
      expect(`${input}: every combine has its formula and map`, formulas[0][0] !== formulas[1][0] && formulas[0][1] !== formulas[1][1] && formulas[1].join() === formulas[2].join(), formulas.map((x) => x[0]).join(" | "));
      expect(`${input}: a sentence to take away, of the sweep and of the model`, (await tab.locator(".takeaway").count()) === 2 && (await tab.locator("table.combines tbody tr").count()) === 3, String(await tab.locator(".takeaway").count()));
      await tab.getByRole("radio", { name: "maximum", exact: true }).check();
      await tab.getByRole("radio", { name: "step time" }).check();
      await slider.first().press("End");
      const before = (await cells()).join("|");
      await slider.first().press("Home");
      await tab.waitForTimeout(200);
      expect(`${input}: the slider changes the heat map`, before.length > 10 && before !== (await cells()).join("|"));
    }
    expect(`${input}: nothing on the console`, problems.length === 0, problems.join("; "));
    await context.close();
  }
  await browser.close();
}
rmSync(scratch, { recursive: true });
process.exit(failed ? 1 : 0);
