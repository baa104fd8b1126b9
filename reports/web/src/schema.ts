// The JSON island: what `aurum report` writes into <script id="aurum-data">. reports/README.md says what each field means
// and docs/schema/report.schema.json checks it; the three change together.
// Every figure carries its unit in the key; intervals are *_low / *_high at `confidence`, and absent where none is known.

export type Provenance = "measured" | "calibrated" | "datasheet" | "assumed";

export interface Breakdown {
  compute_s: number; exposed_comm_s: number; bubble_s: number; straggler_wait_s?: number;
  alignment_wait_s: number; data_wait_s: number; optimizer_s: number;
}

export interface Verdict {
  fits: boolean; verdict?: "fits" | "at risk" | "does not fit"; peak_gib: number; peak_low_gib?: number; peak_high_gib?: number; device_usable_gib: number; heaviest_rank: string;
  step_time_s: number; step_time_low_s?: number; step_time_high_s?: number;
  tokens_per_s: number; tokens_per_s_per_gpu: number; samples_per_s: number; mfu: number;
  limiting_resource: string; limiting_detail: string;
}

export interface Axes { flops_gflop_per_token: number[]; comm_bw_gb_per_s: number[]; align_ratio: number[] }
export type AxisName = keyof Axes;

/**
 * One figure over all points of a grid, in the smallest of three forms:
 * every point, last axis fastest; or only over the axes that it depends on (in grid order); or runs of [value, length].
 */
export type Field<T = number> = T[] | { axes: AxisName[]; values: T[] } | { runs: [T, number][] };

/** The formula and the simulation at exactly the operating point, which need not lie on the grid. */
export interface OperatingPoint {
  simulated_step_time_s: number | null; formula_step_time_s: number;
  terms: { f_over_b_s: number[]; g_over_c_s: number[]; alpha_comm_s: number[] }; // [k]
  beta_p_align_s: number; limit: number; reason: number;                          // indices into `limits`, `reasons`
}

/** One model on one cluster. */
export interface SweepModel {
  id: string; name: string; cluster: string;
  axes?: Axes;                                            // absent: those of the sweep
  own_gflop_per_token: number;
  reference: { flops: number; bw: number; mar: number };  // the operating point
  at_reference?: OperatingPoint;                          // absent: the grid point nearest to `reference` stands for it
  modalities: string[];                                   // k, in the order of `terms`
  simulated_step_time_s: Field<number | null>;            // null: this point failed
  formula_step_time_s: Field;
  terms: { f_over_b_s: Field[]; g_over_c_s: Field[]; alpha_comm_s: Field[] }; // [k]
  beta_p_align_s: Field;
  limit: Field;                                           // index into `limits`
  reason: Field;                                          // index into `reasons`
  inside_share: number; median_gap: number; p90_gap: number;
  sentence?: string;                                      // where the formula holds for this model on this cluster
  combines?: Record<string, SweepVariant>;                // the other ways to combine the modalities, by name
}
/** What changes with the way the modalities are combined; `modalities` then name the one sum that is shown. */
export type SweepVariant = Pick<SweepModel, "at_reference" | "modalities" | "formula_step_time_s" | "terms" | "beta_p_align_s" | "reason" | "inside_share" | "median_gap" | "p90_gap">;

export interface Fit {
  alpha: number; alpha_low?: number; alpha_high?: number; beta: number; beta_low?: number; beta_high?: number;
  r2: number; points: number; combine: string;
  inside_share?: number; fails_mostly?: string;           // over all models; the commonest reason outside of the tolerance
}

export interface Sweep {
  axes?: Axes; limits: string[];
  limit_rule?: string;                                    // how `limit` was decided, in a few words
  reasons: string[]; tolerance: number; fit?: Fit; models: SweepModel[];
  fits?: Fit[]; sentence?: string;                        // every way to combine; what to take away
}

export interface PlanRow {
  id: string; name: string; plan: Record<string, string | number>;
  step_time_s: number; step_time_low_s?: number; step_time_high_s?: number;
  tokens_per_s_per_gpu: number; mfu: number; time: Breakdown;
  peak_gib: number; peak_low_gib?: number; peak_high_gib?: number;
  memory_trace_gib?: number[]; cause?: string; provenance: Provenance;
}
export interface Rejected { name: string; peak_gib: number | null; code: string; reason: string }
export interface Plans { baseline?: string; chosen: string; considered: number; rows: PlanRow[]; rejected: Rejected[] }

/** [class, lane, kind, start_s, end_s, microbatch, bytes, critical] */
export type TimelineEvent = [number, "main" | "tp" | "pp" | "dp", string, number, number, number | null, number | null, 0 | 1];

export interface Timeline {
  step_time_s: number;
  classes: { name: string; ranks: string; count: number; layers?: string; main_s?: Record<string, number> }[];
  columns: string[]; events: TimelineEvent[];
}

export interface Memory {
  rank: string; device_gib: number; usable_gib: number; t_s: number[];
  components: { name: string; gib: number[] }[];
  peak: { t_s: number; gib: number; low_gib?: number; high_gib?: number; at: string };
  tensors?: { name: string; unit: string; module: string; count: number; gib: number }[]; // of what moves, the largest at the peak
  fixes: { fix: string; set: string; saves_gib: number; step_time_delta_s: number; note: string }[];
}

export interface ValidationRow {
  id: string; metric: string; source: string; what: string;
  measured: number; predicted: number; relative_error: number; band_low?: number; band_high?: number; likely_cause?: string;
}
export interface Score {
  n: number; skipped: number; clusters?: number; mape: number; median_ape: number; p90_ape: number; bias: number;
  kendall_tau?: number | null; cluster_mape?: number | null; coverage_90?: number | null;
}
/** null: no row of this source is compared. */
export interface SourceScore {
  metric: string; source: string;
  score: { n: number; skipped: number; clusters: number } & Record<"mape" | "median_ape" | "p90_ape" | "bias" | "kendall_tau" | "cluster_mape" | "coverage_90", number | null>;
}
export type TermKind = "compute" | "comm" | "gradient" | "pp" | "bubble" | "align" | "data" | "optimizer";
export interface WorstRow extends ValidationRow {
  band_low: number; band_high: number; low?: number; high?: number;
  terms?: { name: string; kind: TermKind; s: number }[];   // of a step time; they sum to `predicted`
  explanation: string; bounds: string; assumed: string[];
}
export interface Validation {
  metrics: Record<string, Score>; rows: ValidationRow[];
  // Of comparisons with published measurements, all of them together.
  by_source?: SourceScore[]; worst?: WorstRow[]; skipped?: { reason: string; rows: number; ids: string[] }[];
  plan_choice?: { groups: number; regret_mean: number | null; regret_worst: number | null; kendall_tau_10_percent: number | null };
  ranking?: { set: string; plans: { id: string; measured_s: number; predicted_s: number }[]; kendall_tau: number | null }[];
  fits?: { reported: string; predicted_oom: number; predicted_at_risk: number; predicted_fits: number }[];
}

export interface Sensitivity {
  resource: string; value: number; unit: string;
  step_time_delta_up_s: number; step_time_delta_down_s: number; half_width_s?: number;
  provenance: Provenance; note: string;
}

/** [rank, lane, kind, module, microbatch, predicted start and end, measured start and end, predicted and measured time of the ops alone, ops, critical]; rank is an index into `ranks`. */
export type RunEvent = [number, "main" | "tp" | "pp" | "dp", string, string | null, number | null, number, number, number, number, number, number, number, 0 | 1];
export interface RunMetric { name: string; predicted: number; measured: number; relative_error: number; of?: string }
/** One execution of a plan beside its prediction. */
export interface Run {
  backend: string; within_tolerance: boolean; tolerance: number; metrics: RunMetric[]; steps_s: number[];
  wall_step_time_s?: number; timed_step_time_s?: number;
  timelines?: { ranks: { rank: number; layers: string; device: string }[]; joined: boolean; columns: string[]; events: RunEvent[] };
  parts: { part: "ops" | "gaps" | "waits" | "overlap" | "timing"; name: string; mostly?: string; count?: number; predicted_s?: number; measured_s?: number; difference_s: number; share_of_error: number }[];
  classes: { name: string; modelled: boolean; count: number; predicted_s: number; measured_s: number; waiting_s: number; busiest_predicted_s: number; busiest_measured_s: number }[];
  busiest_rank: number;
  ranks: { rank: number; host: string; device: string; peak_gib?: number; clock_before_mhz?: number; clock_after_mhz?: number; throttled_share: number }[];
  checks: { name: string; passed: boolean; detail: string }[];
}

export interface Report {
  schema: "aurum.report/1"; synthetic?: boolean; tool_version: string; run_id: string; generated_at: string;
  title: string; question: string; answer: string; confidence?: number;
  hardware: string; command: string; facts: [string, string][];
  findings: Partial<Record<string, string>>;
  // A section whose data is absent is left out, with its entry in the navigation. verdict and time come together;
  // plans, memory and sensitivities need them.
  verdict?: Verdict; time?: Breakdown;
  sweep?: Sweep; plans?: Plans; timeline?: Timeline; memory?: Memory; validation?: Validation; sensitivities?: Sensitivity[]; run?: Run;
  warnings: { code: string; text: string; where: string }[];
  assumptions: { what: string; value: string; provenance: Provenance; effect_on_step?: number | null }[];
}
