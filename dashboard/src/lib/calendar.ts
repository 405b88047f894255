/** Instants on the clocks of a time zone, and a calendar of the coming days. */

const formats = new Map<string, Intl.DateTimeFormat>();

function format(zone: string, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = `${zone} ${JSON.stringify(options)}`;
  const known = formats.get(key);
  if (known) return known;
  const made = new Intl.DateTimeFormat("en-CA", { ...options, timeZone: zone });
  formats.set(key, made);
  return made;
}

const DAY = { year: "numeric", month: "2-digit", day: "2-digit" } as const;
const TIME = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" } as const;

/** The zone of whoever looks at the page. */
export function ownZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
}

export function zoneNames(): string[] {
  return ["UTC", ...Intl.supportedValuesOf("timeZone").filter((zone) => zone !== "UTC")];
}

/** The date there: `2026-11-16`. */
export function dayIn(zone: string, at: number): string {
  return format(zone, DAY).format(at);
}

/** The time of day there: `02:30`. */
export function timeIn(zone: string, at: number): string {
  return format(zone, TIME).format(at);
}

/** The dates there, beginning with today's. */
export function daysFrom(zone: string, now: number, count: number): string[] {
  const noon = Date.parse(`${dayIn(zone, now)}T12:00:00Z`);
  return Array.from({ length: count }, (_, index) => dayIn("UTC", noon + index * 86_400_000));
}

export interface Coming {
  id: string;
  name: string;
  /** When it is due, in milliseconds, in order; as far as was asked. */
  at: readonly number[];
  /** Whether there may be more after the last of them. */
  isCut: boolean;
}

export interface Entry {
  id: string;
  name: string;
  times: string[];
  isCut: boolean;
}

/** What is due on each of the days, by schedule, in the order of its first time there. */
export function calendar(
  all: readonly Coming[],
  zone: string,
  days: readonly string[],
): Map<string, Entry[]> {
  const found = new Map<string, Entry[]>(days.map((day) => [day, []]));
  const lastDay = days.at(-1) ?? "";
  for (const { id, name, at, isCut } of all) {
    const own = new Map<string, Entry>();
    for (const instant of at) {
      const day = dayIn(zone, instant);
      if (day > lastDay) break;
      if (!found.has(day)) continue;
      const entry = own.get(day) ?? { id, name, times: [], isCut: false };
      entry.times.push(timeIn(zone, instant));
      own.set(day, entry);
    }
    const end = at.at(-1);
    if (isCut && end !== undefined) {
      // How often it is due from there on was not asked, only that it is.
      for (const day of days.filter((each) => each >= dayIn(zone, end))) {
        own.set(day, { id, name, times: own.get(day)?.times ?? [], isCut: true });
      }
    }
    for (const [day, entry] of own) found.get(day)?.push(entry);
  }
  for (const entries of found.values()) {
    entries.sort((a, b) => (a.times[0] ?? "").localeCompare(b.times[0] ?? ""));
  }
  return found;
}
