/**
 * Which rows of a long list are in sight, where each has its own height: what is drawn is measured,
 * all else counts as usual. They stand in the flow of the page between two empty stretches, so that
 * the browser itself holds still what one reads while something above it turns out to be higher.
 */
import { type RefObject, useCallback, useLayoutEffect, useRef, useState } from "react";

export interface Sight {
  first: number;
  /** One behind the last. */
  end: number;
  /** How high the stretches are in which nothing is drawn. */
  above: number;
  below: number;
}

/** Beyond either edge this much is drawn as well. */
const MARGIN = 600;
const NOTHING: Sight = { first: 0, end: 0, above: 0, below: 0 };

export function sightOf(
  known: readonly (number | undefined)[],
  usual: number,
  count: number,
  top: number,
  height: number,
): Sight {
  const sight = { ...NOTHING };
  let bottom = 0;
  for (let row = 0; row < count; row += 1) {
    const size = known[row] ?? usual;
    if (bottom + size <= top - MARGIN) {
      sight.first = row + 1;
      sight.above = bottom + size;
    } else if (bottom >= top + height + MARGIN) {
      sight.below += size;
      bottom += size;
      continue;
    }
    sight.end = row + 1;
    bottom += size;
  }
  return sight;
}

/** The rows of `box` that are in sight; `rows` is the element whose children they are. */
export function useUneven(
  box: RefObject<HTMLElement | null>,
  rows: RefObject<HTMLElement | null>,
  count: number,
  usual: number,
): Sight {
  const known = useRef<number[]>([]);
  const [sight, setSight] = useState(NOTHING);
  const drawn = useRef(sight);
  drawn.current = sight;
  const look = useCallback(() => {
    const element = box.current;
    if (!element) return;
    // A list that was emptied is filled with other rows.
    if (count === 0) known.current = [];
    Array.from(rows.current?.children ?? []).forEach((row, place) => {
      known.current[drawn.current.first + place] = row.getBoundingClientRect().height;
    });
    const { scrollTop, clientHeight } = element;
    const now = sightOf(known.current, usual, count, scrollTop, clientHeight);
    setSight((before) => (JSON.stringify(before) === JSON.stringify(now) ? before : now));
  }, [box, rows, count, usual]);
  // After each drawing: what was drawn may be higher than was thought.
  useLayoutEffect(look);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    let frame = 0;
    const plan = () => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        look();
      });
    };
    const resized = new ResizeObserver(plan);
    resized.observe(element);
    element.addEventListener("scroll", plan, { passive: true });
    return () => {
      cancelAnimationFrame(frame);
      resized.disconnect();
      element.removeEventListener("scroll", plan);
    };
  }, [box, look]);
  return sight;
}
