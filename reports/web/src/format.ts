// Numbers as text: three significant digits, a unit always, a true minus sign, thin spaces.

const MINUS = "\u2212", NARROW = "\u202f";

export const signed = (text: string) => (text.startsWith("-") ? MINUS + text.slice(1) : text);

export function fixed(value: number, digits: number): string {
  const text = value.toFixed(digits);
  return signed(Number(text) === 0 ? text.replace("-", "") : text);
}

/** 1234567 → "1,234,567"; 0.01234 → "0.0123". */
export function number(value: number, significant = 3): string {
  if (value === 0) return "0";
  const exponent = Math.floor(Math.log10(Math.abs(value)));
  if (exponent >= significant || exponent >= 3) return signed(Math.round(value).toLocaleString("en-US"));
  return signed(value.toFixed(Math.max(0, significant - 1 - exponent)));
}

export const count = (value: number) => signed(Math.round(value).toLocaleString("en-US"));
/** A setting of a sweep as text: at most three significant digits. */
export const setting = (value: number) => tick(Number(value.toPrecision(3)));
/** Shortest text of a round number, for axis ticks. */
export const tick = (value: number) => signed(String(Number(value.toPrecision(4))));

export function seconds(value: number, significant = 3): string {
  const size = Math.abs(value);
  if (size === 0) return "0" + NARROW + "s";
  if (size < 1e-3) return number(value * 1e6, significant) + NARROW + "µs";
  if (size < 1) return number(value * 1e3, significant) + NARROW + "ms";
  return number(value, significant) + NARROW + "s";
}

/** [low–high] in the unit that `seconds` would choose for `near` (or that of `factor`), or nothing where no interval is known. */
export function secondsRange(low: number | undefined, high: number | undefined, near: number, factor = near >= 1 ? 1 : near >= 1e-3 ? 1e3 : 1e6): string {
  if (low === undefined || high === undefined) return "";
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.max(near * factor, 1e-9))));
  return ` [${range(low * factor, high * factor, digits)}]`;
}
/** Seconds or milliseconds for a whole column or axis whose largest value is `most`. */
export const timeUnit = (most: number): [unit: string, factor: number] => (most < 1 ? ["ms", 1e3] : ["s", 1]);

export const percent = (share: number, digits = 1) => fixed(100 * share, digits) + NARROW + "%";
export const delta = (text: string) => (text.startsWith(MINUS) || /^0[^.0-9]|^0\.0+\D/.test(text) ? text : "+" + text);
export const gib = (value: number, digits = 1) => fixed(value, digits) + NARROW + "GiB";
export const gibRange = (low: number | undefined, high: number | undefined, digits = 1) => (low === undefined || high === undefined ? "" : ` [${range(low, high, digits)}]`);
export const range = (low: number, high: number, digits: number) => `${fixed(low, digits)}–${fixed(high, digits)}`;

export function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  while (value >= 1000 && i < units.length - 1) { value /= 1000; i++; }
  return number(value) + NARROW + units[i];
}
