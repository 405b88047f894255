/** Series as they are drawn: a line ends where nothing was measured, and begins again after it. */

type Value = number | null;

export interface Drawn {
  at: number[];
  /** `null` is a gap; a line goes on over `undefined`. */
  lines: (Value | undefined)[][];
  /** For each point that is drawn, which of the given ones it is; `null` for those put in between. */
  from: (number | null)[];
}

/** So many steps without a value are a gap. */
const STEPS = 3;
/** Seconds that are shown where there is nothing to show. */
const EMPTY_S = 300;

/** The usual time between two points. */
export function stepOf(at: readonly number[]): number {
  const steps = at.slice(1).map((each, index) => each - (at[index] ?? each));
  return steps.sort((a, b) => a - b)[Math.floor(steps.length / 2)] ?? 0;
}

export function withGaps(
  at: readonly number[],
  lines: readonly (readonly Value[])[],
  now: number = Date.now() / 1000,
): Drawn {
  const step = stepOf(at);
  const drawn: Drawn = { at: [], lines: lines.map(() => []), from: [] };
  function put(when: number, from: number | null): void {
    drawn.at.push(when);
    drawn.from.push(from);
    for (const [index, values] of lines.entries()) {
      drawn.lines[index]?.push(from === null ? null : (values[from] ?? null));
    }
  }
  // One point alone, or none, has no width of its own.
  const last = at.at(-1) ?? now;
  if (at.length < 2) put(last - EMPTY_S, null);
  for (const [index, when] of at.entries()) {
    const before = at[index - 1];
    if (before !== undefined && when - before > STEPS * step) put(before + step, null);
    put(when, index);
  }
  if (at.length === 0) put(last, null);
  for (const values of drawn.lines) bridge(drawn.at, values, STEPS * step);
  return drawn;
}

/** Lets a line go on over values that are missing for a short time only. */
function bridge(at: readonly number[], values: (Value | undefined)[], most: number): void {
  let left = -1;
  for (let index = 0; index < values.length; index += 1) {
    if (values[index] === null) continue;
    const short = left >= 0 && (at[index] ?? 0) - (at[left] ?? 0) <= most;
    if (short) values.fill(undefined, left + 1, index);
    left = index;
  }
}

/** Values with a gap on either side: no line goes through them. */
export function alone(values: ArrayLike<Value | undefined>): number[] {
  const found: number[] = [];
  let begin: number | null = null;
  let size = 0;
  for (let index = 0; index <= values.length; index += 1) {
    const value = index < values.length ? values[index] : null;
    if (value === undefined) continue;
    if (value === null) {
      if (begin !== null && size === 1) found.push(begin);
      begin = null;
      size = 0;
    } else {
      begin ??= index;
      size += 1;
    }
  }
  return found;
}
