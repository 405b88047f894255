/** Numbers, spans of time and sizes as people read them, in the language of the page. */

let locale = "en";
// Making a format costs far more than using it: each is made once for a language.
const formats = new Map<string, unknown>();

export function setFormatLocale(name: string): void {
  locale = name;
  formats.clear();
}

function cached<T>(key: string, make: () => T): T {
  const known = formats.get(key) as T | undefined;
  if (known) return known;
  const made = make();
  formats.set(key, made);
  return made;
}

function numbers(options: Intl.NumberFormatOptions): Intl.NumberFormat {
  return cached(`n${JSON.stringify(options)}`, () => new Intl.NumberFormat(locale, options));
}

function times(options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  return cached(`t${JSON.stringify(options)}`, () => new Intl.DateTimeFormat(locale, options));
}

export function count(value: number): string {
  return numbers({ maximumFractionDigits: 0 }).format(value);
}

/** A number with as many digits as are worth reading. */
export function short(value: number): string {
  const size = Math.abs(value);
  if (size >= 10_000)
    return numbers({ notation: "compact", maximumFractionDigits: 1 }).format(value);
  if (size >= 100 || Number.isInteger(value)) return count(value);
  return numbers({ maximumFractionDigits: size >= 10 ? 1 : 2 }).format(value);
}

export function percent(share: number): string {
  return numbers({ style: "percent", maximumFractionDigits: 0 }).format(share);
}

export function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? count(size) : short(Number(size.toPrecision(3)))} ${units[unit]}`;
}

type Units = Record<"ms" | "s" | "m" | "h" | "d", string>;
const UNITS: Units = { ms: "ms", s: "s", m: "m", h: "h", d: "d" };
const UNITS_OF: Record<string, Units> = {
  "zh-CN": { ms: "毫秒", s: "秒", m: "分", h: "小时", d: "天" },
};

/** A span of time: `820 ms`, `4.2 s`, `3 m 05 s`, `2 h 10 m`, `4 d 3 h`. */
export function span(seconds: number): string {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 0) return `-${span(-seconds)}`;
  const { ms, s, m, h, d } = UNITS_OF[locale] ?? UNITS;
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ${ms}`;
  if (seconds < 59.95) return `${Number(seconds.toFixed(1))} ${s}`;
  const whole = Math.round(seconds);
  const minutes = Math.floor(whole / 60);
  const hours = Math.floor(whole / 3600);
  if (whole < 3600) return `${minutes} ${m} ${pad(whole % 60)} ${s}`;
  if (whole < 86_400) return `${hours} ${h} ${pad(minutes % 60)} ${m}`;
  return `${Math.floor(whole / 86_400)} ${d} ${hours % 24} ${h}`;
}

/** An interval that somebody set: `15 m`, where a span of that length is `15 m 00 s`. */
export function interval(seconds: number): string {
  const { m, h, d } = UNITS_OF[locale] ?? UNITS;
  for (const [size, unit] of [
    [86_400, d],
    [3600, h],
    [60, m],
  ] as const) {
    if (seconds >= size && seconds % size === 0) return `${seconds / size} ${unit}`;
  }
  return span(seconds);
}

function pad(value: number): string {
  return String(value).padStart(2, "0");
}

const STEPS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["day", 86_400],
  ["hour", 3600],
  ["minute", 60],
  ["second", 1],
];

/** How long ago, or in how long: `3 minutes ago`. */
export function ago(at: string | number | Date, now: number = Date.now()): string {
  const seconds = (new Date(at).getTime() - now) / 1000;
  const format = cached(
    "ago",
    () => new Intl.RelativeTimeFormat(locale, { numeric: "auto", style: "short" }),
  );
  for (const [unit, size] of STEPS) {
    if (Math.abs(seconds) >= size) return format.format(Math.trunc(seconds / size), unit);
  }
  return format.format(0, "second");
}

/** The time of day, with the date where it is not today. */
export function clock(at: string | number | Date, now: number = Date.now()): string {
  const when = new Date(at);
  const today = when.toDateString() === new Date(now).toDateString();
  const time = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" } as const;
  const date = today ? {} : ({ month: "short", day: "numeric" } as const);
  return times({ ...date, ...time }).format(when);
}

/** A mark on an axis of time whose marks stand so many seconds apart. */
export function mark(seconds: number, step: number): string {
  const time = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" } as const;
  const options: Intl.DateTimeFormatOptions =
    step >= 86_400
      ? { month: "short", day: "numeric" }
      : step >= 60
        ? time
        : { ...time, second: "2-digit" };
  return times(options).format(new Date(seconds * 1000));
}

/** The name of a day of the week: of a date such as `2026-11-16`. */
export function weekday(date: string): string {
  return times({ weekday: "short", timeZone: "UTC" }).format(new Date(`${date}T12:00:00Z`));
}

/** The instant in full, for tool tips. */
export function moment(at: string | number | Date): string {
  return times({ dateStyle: "medium", timeStyle: "long" }).format(new Date(at));
}

/** The end of an id, which tells it apart: `…kfks14`. */
export function shortId(id: string): string {
  const dash = id.indexOf("-");
  return dash > 0 && id.length > dash + 9 ? `${id.slice(0, dash)}…${id.slice(-6)}` : id;
}

/** An address that may be a link: of the web, and nothing else. */
export function webAddress(text: unknown): string | null {
  if (typeof text !== "string" || !/^https?:\/\//i.test(text)) return null;
  try {
    const url = new URL(text);
    return url.protocol === "http:" || url.protocol === "https:" ? url.href : null;
  } catch {
    return null;
  }
}
