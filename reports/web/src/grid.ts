// The sweep's grids as functions of a point. A field that depends on some axes only is read with a stride of 0 along the
// others, so nothing is ever expanded: 20 × 20 × 20 points of a term that follows the FLOPs axis stay 20 numbers.

import type { Axes, AxisName, Field, OperatingPoint, Sweep, SweepModel } from "./schema";

export const AXES: AxisName[] = ["flops_gflop_per_token", "comm_bw_gb_per_s", "align_ratio"];
export type Reader<T = number> = (i: number, j: number, k: number) => T;

export function reader<T>(field: Field<T>, shape: number[]): Reader<T> {
  const [n, m, l] = shape;
  if (!Array.isArray(field) && "runs" in field) {
    const flat: T[] = [];
    for (const [value, length] of field.runs) for (let x = 0; x < length; x++) flat.push(value);
    return reader(flat, shape);
  }
  const values = Array.isArray(field) ? field : field.values, over = Array.isArray(field) ? AXES : field.axes;
  const strides = [0, 0, 0];
  let size = 1;
  for (let a = 2; a >= 0; a--) if (over.includes(AXES[a])) { strides[a] = size; size *= shape[a]; }
  if (values.length !== size) throw new Error(`a field of ${values.length} values where the grid ${n} × ${m} × ${l} needs ${size}`);
  const [si, sj, sk] = strides;
  return (i, j, k) => values[i * si + j * sj + k * sk];
}

export interface Point { i: number; j: number; k: number }

export interface Grid {
  entry: SweepModel; flops: number[]; bw: number[]; mar: number[];
  simulated: Reader<number | null>; formula: Reader; terms: { fb: Reader; gc: Reader; comm: Reader }[]; beta: Reader; limit: Reader; reason: Reader;
  gap: Reader;                      // formula / simulated − 1; NaN where the point failed
  low: number; high: number;        // of the simulated step times, over the whole grid
  limitShare: number[];             // per entry of `limits`, over the points that did not fail
  points: number; home: Point; onGrid: boolean;
}

const nearest = (values: number[], x: number) => values.reduce((best, v, n) => (Math.abs(v - x) < Math.abs(values[best] - x) ? n : best), 0);

export function makeGrid(sweep: Sweep, entry: SweepModel): Grid {
  const axes: Axes | undefined = entry.axes ?? sweep.axes;
  if (!axes) throw new Error(`${entry.id} has no axes, and neither has the sweep`);
  const flops = axes.flops_gflop_per_token, bw = axes.comm_bw_gb_per_s, mar = axes.align_ratio, shape = [flops.length, bw.length, mar.length];
  const simulated = reader(entry.simulated_step_time_s, shape), formula = reader(entry.formula_step_time_s, shape), limit = reader(entry.limit, shape);
  const t = entry.terms;
  let low = Infinity, high = 0, alive = 0;
  const count = sweep.limits.map(() => 0);
  for (let i = 0; i < flops.length; i++) for (let j = 0; j < bw.length; j++) for (let k = 0; k < mar.length; k++) {
    const s = simulated(i, j, k);
    if (s === null) continue;
    alive++;
    if (s < low) low = s;
    if (s > high) high = s;
    count[limit(i, j, k)]++;
  }
  const r = entry.reference, home = { i: nearest(flops, r.flops), j: nearest(bw, r.bw), k: nearest(mar, r.mar) };
  return {
    entry, flops, bw, mar, simulated, formula, limit, low, high, home,
    terms: entry.modalities.map((_, m) => ({ fb: reader(t.f_over_b_s[m], shape), gc: reader(t.g_over_c_s[m], shape), comm: reader(t.alpha_comm_s[m], shape) })),
    beta: reader(entry.beta_p_align_s, shape), reason: reader(entry.reason, shape),
    gap: (i, j, k) => { const s = simulated(i, j, k); return s === null ? NaN : formula(i, j, k) / s - 1; },
    limitShare: count.map((c) => (alive ? c / alive : 0)), points: flops.length * bw.length * mar.length,
    onGrid: flops[home.i] === r.flops && bw[home.j] === r.bw && mar[home.k] === r.mar,
  };
}

/** The grid at one point, in the shape of an operating point. */
export function at(grid: Grid, { i, j, k }: Point): OperatingPoint {
  return {
    simulated_step_time_s: grid.simulated(i, j, k), formula_step_time_s: grid.formula(i, j, k),
    terms: { f_over_b_s: grid.terms.map((t) => t.fb(i, j, k)), g_over_c_s: grid.terms.map((t) => t.gc(i, j, k)), alpha_comm_s: grid.terms.map((t) => t.comm(i, j, k)) },
    beta_p_align_s: grid.beta(i, j, k), limit: grid.limit(i, j, k), reason: grid.reason(i, j, k),
  };
}

export const operatingPoint = (grid: Grid) => grid.entry.at_reference ?? at(grid, grid.home);
/** Index of the modality whose sum is the largest: the one inside the max. */
export function dominant(p: OperatingPoint): number {
  const sums = p.terms.f_over_b_s.map((x, k) => x + p.terms.g_over_c_s[k] + p.terms.alpha_comm_s[k]);
  return sums.indexOf(Math.max(...sums));
}

// Decoding runs once per entry, when it is first shown.
const made = new WeakMap<SweepModel, Grid>();
export function gridOf(sweep: Sweep, entry: SweepModel): Grid {
  let grid = made.get(entry);
  if (!grid) made.set(entry, (grid = makeGrid(sweep, entry)));
  return grid;
}
