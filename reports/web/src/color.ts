// The colours of the heat map. Cividis is even for every kind of colour vision; the diverging one is blue–grey–orange.

type Rgb = [number, number, number];
const hex = (s: string): Rgb => [1, 3, 5].map((i) => parseInt(s.slice(i, i + 2), 16)) as Rgb;
const CIVIDIS = ["#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838"].map(hex);
const DIVERGING = { light: ["#08519c", "#6aaed6", "#f3f3f1", "#f0a35c", "#a63603"].map(hex), dark: ["#6cb6ff", "#2f6ea8", "#25292e", "#a85b1c", "#ffab5e"].map(hex) };

function sample(stops: Rgb[], t: number): Rgb {
  const u = Math.min(1, Math.max(0, t)) * (stops.length - 1), i = Math.min(stops.length - 2, Math.floor(u));
  return stops[i].map((c, k) => Math.round(c + (u - i) * (stops[i + 1][k] - c))) as Rgb;
}

const luminance = (c: Rgb) => c.map((v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((a, v, i) => a + v * [0.2126, 0.7152, 0.0722][i], 0);

/** Background and the ink, black or white, that contrasts more with it. */
function paint(c: Rgb) {
  const l = luminance(c);
  return { background: `rgb(${c.join(" ")})`, ink: 1.05 / (l + 0.05) > (l + 0.05) / 0.05 ? "#fff" : "#000" };
}

/** A colour of the palette, "#rrggbb", with its ink. */
export const solid = (color: string) => paint(hex(color));
export const sequential = (t: number) => paint(sample(CIVIDIS, t));
export const diverging = (t: number, dark: boolean) => paint(sample(DIVERGING[dark ? "dark" : "light"], (t + 1) / 2));
