/**
 * Which rows of a long list are in sight. All rows have one height, so that this is arithmetic:
 * nothing is measured, and a list of a hundred thousand costs what a list of forty does.
 */
import { type RefObject, useLayoutEffect, useState } from "react";

export interface Window {
  first: number;
  /** One behind the last. */
  end: number;
}

export interface Drawn extends Window {
  /** So many are drawn at most: row `n` takes the place of row `n - places`. */
  places: number;
  /** Whether they move: then each stays in its place of the document, whatever it shows. */
  moving: boolean;
}

/** Rows beyond either edge that are drawn as well; more of them on the side one scrolls to. */
const BESIDE = 4;
const AHEAD = 14;
const CALM_MS = 200;

export function windowOf(
  top: number,
  height: number,
  row: number,
  count: number,
  down: boolean,
): Window {
  const first = Math.floor(top / row) - (down ? BESIDE : AHEAD);
  const end = Math.ceil((top + height) / row) + (down ? AHEAD : BESIDE);
  return { first: Math.max(0, Math.min(first, count)), end: Math.max(0, Math.min(end, count)) };
}

export function placesOf(height: number, row: number): number {
  return Math.ceil(height / row) + 1 + BESIDE + AHEAD;
}

/** Whether all that is in sight is drawn, so that nothing has to be drawn now. */
export function covers(drawn: Window, top: number, height: number, row: number, count: number) {
  const first = Math.max(0, Math.floor(top / row) - 1);
  const end = Math.min(count, Math.ceil((top + height) / row) + 1);
  return drawn.first <= first && drawn.end >= end && drawn.end <= count;
}

/** The rows of `box` that are in sight; tells of a change at most once in a frame. */
export function useWindow(box: RefObject<HTMLElement | null>, row: number, count: number): Drawn {
  const [drawn, setDrawn] = useState<Drawn>({ first: 0, end: 0, places: 1, moving: false });
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    let before = element.scrollTop;
    let frame = 0;
    let calm: ReturnType<typeof setTimeout> | undefined;
    let height = element.clientHeight;
    const rest = () => setDrawn((known) => (known.moving ? { ...known, moving: false } : known));
    const look = () => {
      const moving = frame !== 0;
      frame = 0;
      clearTimeout(calm);
      calm = setTimeout(rest, CALM_MS);
      const top = element.scrollTop;
      const down = top >= before;
      before = top;
      setDrawn((known) =>
        covers(known, top, height, row, count)
          ? known
          : { ...windowOf(top, height, row, count, down), places: placesOf(height, row), moving },
      );
    };
    const plan = () => {
      frame ||= requestAnimationFrame(look);
    };
    const resized = new ResizeObserver(() => {
      height = element.clientHeight;
      plan();
    });
    look();
    resized.observe(element);
    element.addEventListener("scroll", plan, { passive: true });
    return () => {
      cancelAnimationFrame(frame);
      clearTimeout(calm);
      resized.disconnect();
      element.removeEventListener("scroll", plan);
    };
  }, [box, row, count]);
  if (drawn.end <= count) return drawn;
  return { ...drawn, first: Math.min(drawn.first, count), end: count };
}

/** The numbers of the rows, in the order of the document: from top to bottom once they rest; while
 * they move each keeps its place, since what is put elsewhere is laid out anew. */
export function orderOf({ first, end, places, moving }: Drawn): number[] {
  const numbers = Array.from({ length: end - first }, (_, offset) => first + offset);
  return moving ? numbers.sort((a, b) => (a % places) - (b % places)) : numbers;
}
