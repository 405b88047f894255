/** States as a shape, a colour and a word, so that none of the three is needed to tell them. */
import { useWord } from "../i18n";

export type Tone = "ok" | "busy" | "warn" | "bad" | "quiet";
type Shape =
  | "tick"
  | "half"
  | "arrow"
  | "ring"
  | "dots"
  | "bars"
  | "cross"
  | "clock"
  | "slash"
  | "drop"
  | "mark"
  | "hop"
  | "bell"
  | "disc";

const TASK: Record<string, [Tone, Shape]> = {
  waiting: ["quiet", "dots"],
  pending: ["quiet", "ring"],
  assigned: ["busy", "arrow"],
  processing: ["busy", "half"],
  running: ["busy", "half"],
  stopping: ["warn", "half"],
  paused: ["warn", "bars"],
  completed: ["ok", "tick"],
  failed: ["bad", "cross"],
  timeout: ["bad", "clock"],
  cancelled: ["quiet", "slash"],
  released: ["quiet", "slash"],
  lost: ["bad", "mark"],
};
const NODE: Record<string, [Tone, Shape]> = {
  pending: ["quiet", "ring"],
  online: ["ok", "disc"],
  draining: ["warn", "drop"],
  maintenance: ["warn", "bars"],
  unresponsive: ["bad", "mark"],
  offline: ["quiet", "slash"],
};
const HEALTH: Record<string, [Tone, Shape]> = {
  healthy: ["ok", "tick"],
  degraded: ["warn", "mark"],
  unhealthy: ["bad", "cross"],
  unreachable: ["bad", "mark"],
  unknown: ["quiet", "dots"],
};
const OTHER: Record<string, [Tone, Shape]> = {
  live: ["ok", "disc"],
  active: ["ok", "disc"],
  expired: ["quiet", "clock"],
  revoked: ["quiet", "slash"],
  used_up: ["quiet", "tick"],
  closed: ["quiet", "slash"],
  inactive: ["quiet", "slash"],
  maintenance: ["warn", "bars"],
  paused: ["warn", "bars"],
  over: ["quiet", "tick"],
};
const FIRING: Record<string, [Tone, Shape]> = {
  started: ["ok", "tick"],
  queued: ["busy", "clock"],
  skipped: ["quiet", "slash"],
  missed: ["bad", "clock"],
  refused: ["bad", "cross"],
};
const STEP: Record<string, [Tone, Shape]> = {
  planned: ["quiet", "ring"],
  waiting: ["quiet", "dots"],
  running: ["busy", "half"],
  held: ["warn", "bars"],
  completed: ["ok", "tick"],
  failed: ["bad", "cross"],
  skipped: ["quiet", "hop"],
  cancelled: ["warn", "slash"],
};
const RUN: Record<string, [Tone, Shape]> = {
  running: ["busy", "half"],
  cancelling: ["warn", "half"],
  completed: ["ok", "tick"],
  failed: ["bad", "cross"],
  cancelled: ["quiet", "slash"],
};
const DELIVERY: Record<string, [Tone, Shape]> = {
  waiting: ["busy", "clock"],
  delivered: ["ok", "tick"],
  dead: ["bad", "cross"],
};
const ALERT: Record<string, [Tone, Shape]> = {
  firing: ["bad", "mark"],
  silenced: ["warn", "bell"],
  quiet: ["ok", "tick"],
  resolved: ["ok", "tick"],
  off: ["quiet", "slash"],
};
const MEASURED: Record<string, [Tone, Shape]> = {
  ok: ["ok", "tick"],
  drifted: ["warn", "mark"],
  failed: ["bad", "cross"],
  unmeasured: ["quiet", "dots"],
  held: ["warn", "bars"],
};
const FAMILIES = {
  task: TASK,
  node: NODE,
  health: HEALTH,
  firing: FIRING,
  step: STEP,
  run: RUN,
  delivery: DELIVERY,
  alert: ALERT,
  measured: MEASURED,
  other: OTHER,
};
export type Family = keyof typeof FAMILIES;

export function toneOf(family: Family, name: string): Tone {
  return FAMILIES[family][name]?.[0] ?? "quiet";
}

function drawn(shape: Shape) {
  const ring = <circle cx="8" cy="8" r="5.6" />;
  switch (shape) {
    case "tick":
      return (
        <>
          <circle cx="8" cy="8" r="6.4" fill="currentColor" stroke="none" />
          <path d="M5 8.2l2.1 2.1L11 6.2" stroke="var(--surface)" />
        </>
      );
    case "cross":
      return (
        <>
          <circle cx="8" cy="8" r="6.4" fill="currentColor" stroke="none" />
          <path d="M5.8 5.8l4.4 4.4M10.2 5.8l-4.4 4.4" stroke="var(--surface)" />
        </>
      );
    case "mark":
      return (
        <>
          <path d="M8 1.8l6.6 11.6H1.4z" fill="currentColor" stroke="none" />
          <path d="M8 6.2v3.2M8 11.4v.1" stroke="var(--surface)" />
        </>
      );
    case "half":
      return (
        <>
          {ring}
          <path d="M8 2.4a5.6 5.6 0 0 1 0 11.2z" fill="currentColor" stroke="none" />
        </>
      );
    case "hop":
      return (
        <>
          {ring}
          <path d="M5.6 5.8L7.8 8l-2.2 2.2M8.8 5.8L11 8l-2.2 2.2" />
        </>
      );
    case "bell":
      return (
        <>
          <path d="M3.4 11.4h9.2M4.8 11.2V7.4a3.2 3.2 0 0 1 6.4 0v3.8M7 13.4h2" />
          <path d="M2.6 13.6L13.4 2.4" />
        </>
      );
    case "disc":
      return <circle cx="8" cy="8" r="4.6" fill="currentColor" stroke="none" />;
    case "ring":
      return ring;
    case "dots":
      return <circle cx="8" cy="8" r="5.6" strokeDasharray="1.6 2.4" />;
    case "arrow":
      return (
        <>
          {ring}
          <path d="M5.4 8h5M8.6 6.2L10.4 8l-1.8 1.8" />
        </>
      );
    case "bars":
      return (
        <>
          {ring}
          <path d="M6.4 6v4M9.6 6v4" />
        </>
      );
    case "clock":
      return (
        <>
          {ring}
          <path d="M8 4.8V8l2 1.6" />
        </>
      );
    case "slash":
      return (
        <>
          {ring}
          <path d="M4.2 11.8l7.6-7.6" />
        </>
      );
    case "drop":
      return (
        <>
          {ring}
          <path d="M8 5v5M6 8.2L8 10.2l2-2" />
        </>
      );
  }
}

export function Mark({ family, name }: { family: Family; name: string }) {
  const [tone, shape] = FAMILIES[family][name] ?? ["quiet", "ring"];
  return (
    // With its size, since within a drawing the style of icons gives it none.
    <svg
      className={`icon tone-${tone}`}
      width="16"
      height="16"
      viewBox="0 0 16 16"
      aria-hidden="true"
      data-state={name}
    >
      {drawn(shape)}
    </svg>
  );
}

export function State({ family, name }: { family: Family; name: string }) {
  const word = useWord();
  return (
    <span className="state">
      <Mark family={family} name={name} />
      {word(family === "other" ? "condition" : family, name)}
    </span>
  );
}
