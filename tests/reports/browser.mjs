// A headless Chromium for the tests of pages.
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

// The browser, or nothing where there is none (which only CI counts as a failure). CHROMIUM names another one.
export async function launch(expect) {
  const executablePath = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((path) => path && existsSync(path));
  if (!executablePath) {
    const ci = Boolean(process.env.CI) && process.env.CI !== "false";
    expect("chromium (Debian package chromium)", !ci, "not here");
    console.log("skipped: no chromium here; the page was not drawn");
    return undefined;
  }
  const { chromium } = createRequire(join(process.env.AURUM_WEB_BUILD, "package.json"))("playwright-core");
  return chromium.launch({ executablePath, args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"], timeout: 180000 });
}

// Opens a page, offline, does `act` and expects that nothing was said on the console and nothing fetched.
export async function visit(browser, expect, name, html, options, act) {
  const context = await browser.newContext({ offline: true, viewport: { width: 1280, height: 900 }, ...options });
  const tab = await context.newPage(), problems = [];
  tab.setDefaultTimeout(180000); // a busy machine is no failure
  tab.on("console", (m) => ["error", "warning"].includes(m.type()) && problems.push(m.text()));
  tab.on("pageerror", (e) => problems.push(String(e)));
  tab.on("request", (r) => !/^(file|data|blob):/.test(r.url()) && problems.push("request " + r.url()));
  try {
    await tab.goto(pathToFileURL(html).href);
    await tab.waitForSelector("footer");
    await tab.waitForTimeout(200);
    await act(tab);
  } catch (error) {
    problems.push(String(error));
  }
  expect(`${name}, ${JSON.stringify(options)}: nothing on the console, nothing fetched`, problems.length === 0, problems.join("; "));
  await context.close();
}
