// What limits a step: one look for each kind, everywhere on the page. A letter and a word go with the colour, never the colour alone.

import { h } from "./dom";

export interface LimitLook { color: string; letter: string }
const LOOKS: Record<string, LimitLook> = { compute: { color: "compute", letter: "C" }, network: { color: "comm", letter: "N" }, alignment: { color: "align", letter: "A" }, pipeline: { color: "bubble-edge", letter: "P" }, data: { color: "optimizer", letter: "D" } };

export const limitLook = (name: string): LimitLook => LOOKS[name] ?? { color: "optimizer", letter: name.charAt(0).toUpperCase() };

export const limitTag = (name: string) => h("span", { class: "limit " + limitLook(name).color }, h("span", { class: "letter", "aria-hidden": "true" }, limitLook(name).letter), name);
