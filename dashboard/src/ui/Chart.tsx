/** Lines and areas over time, drawn by uPlot in the colours of the theme. */
import { useEffect, useMemo, useRef, useState } from "react";
import uPlot from "uplot";
import { clock, mark } from "../lib/format";
import { alone, withGaps } from "../lib/gaps";
import { useTheme } from "./theme";

export interface Line {
  name: string;
  values: readonly (number | null)[];
  /** The name of a custom property, such as `--series-1`. */
  colour: string;
}

interface ChartProps {
  label: string;
  /** Seconds since 1970. */
  at: readonly number[];
  lines: readonly Line[];
  /** Each on top of those before it. */
  stacked?: boolean;
  height?: number;
  most?: number;
  /** Whether halves of what is drawn make no sense. */
  whole?: boolean;
  format: (value: number) => string;
}

/** What the marks of whole numbers may be apart. */
const WHOLE = Array.from({ length: 12 }, (_, power) =>
  [1, 2, 5].map((n) => n * 10 ** power),
).flat();
const MINUTE = 60;
const HOUR = 3600;
const DAY = 86_400;
/** Seconds from one mark of the time to the next. */
const MARKS = [
  ...[1, 2, 5, 10, 15, 30],
  ...[1, 2, 3, 5, 10, 15, 30].map((each) => each * MINUTE),
  ...[1, 2, 3, 6, 12].map((each) => each * HOUR),
  ...[1, 2, 7, 14, 28].map((each) => each * DAY),
];

/** Pixels that a mark needs: those with seconds are longer. */
function room(least: number, most: number, width: number): number {
  const narrow = 50;
  return ((most - least) * narrow) / Math.max(1, width) > 30 ? narrow : 64;
}

/** How many letters wide a text is; Chinese ones count twice. */
function breadth(text: string): number {
  return [...text].reduce((sum, letter) => sum + (letter > "\u2e80" ? 2 : 1), 0);
}

/** Each line on top of those before it, for drawing; the legend shows the values themselves. */
export function stack(lines: readonly (readonly (number | null)[])[]): number[][] {
  const sums: number[] = [];
  return lines.map((values) =>
    values.map((value, index) => {
      sums[index] = (sums[index] ?? 0) + (value ?? 0);
      return sums[index];
    }),
  );
}

export function Chart(props: ChartProps) {
  const { label, at, lines, stacked = false, height = 190, most, whole = false, format } = props;
  const theme = useTheme().theme;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [hover, setHover] = useState<{ index: number; left: number } | null>(null);
  const shape = lines.map((line) => line.name + line.colour).join();
  const formatRef = useRef(format);
  formatRef.current = format;
  const linesRef = useRef(lines);
  linesRef.current = lines;
  const drawing = useMemo(() => {
    const values = lines.map((line) => line.values);
    return withGaps(at, stacked ? stack(values).reverse() : values);
  }, [at, lines, stacked]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: colours are read anew for the theme
  useEffect(() => {
    const target = box.current;
    if (!target) return;
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string) => style.getPropertyValue(name).trim();
    const drawn = stacked ? [...linesRef.current].reverse() : linesRef.current;
    const chart = new uPlot(
      {
        width: target.clientWidth || 300,
        height,
        padding: [8, 26, 0, 0],
        legend: { show: false },
        cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
        scales: { y: { range: (_, __, top) => [0, Math.max(most ?? 0, top * 1.08) || 1] } },
        axes: [
          {
            stroke: colour("--faint"),
            grid: { show: false },
            ticks: { show: false },
            font: "11px system-ui",
            values: (_, ticks, __, ___, step) => ticks.map((tick) => mark(tick, step)),
            incrs: MARKS,
            space: (_, __, least, most, width) => room(least, most, width),
            gap: 9,
            size: 30,
          },
          {
            stroke: colour("--faint"),
            grid: { stroke: colour("--line"), width: 1 },
            ticks: { show: false },
            font: "11px system-ui",
            values: (_, ticks) => ticks.map((tick) => formatRef.current(tick)),
            size: (_, ticks) => 14 + 6.4 * Math.max(3, ...(ticks ?? []).map(breadth)),
            space: 34,
            ...(whole ? { incrs: WHOLE } : {}),
          },
        ],
        series: [
          {},
          ...drawn.map((line) => ({
            label: line.name,
            stroke: colour(line.colour),
            fill: `color-mix(in srgb, ${colour(line.colour)} ${stacked ? 55 : 12}%, transparent)`,
            width: 1.5,
            // A value with no neighbours has no line; a point shows it.
            points: {
              show: false,
              size: 4,
              filter: (self: uPlot, index: number) => alone(self.data[index] ?? []),
            },
            spanGaps: false,
          })),
        ],
        // A line of a stack fills down to the one below it, not to the ground.
        bands: stacked
          ? drawn
              .slice(1)
              .map((_, index) => ({ series: [index + 1, index + 2] as [number, number] }))
          : [],
        hooks: {
          setCursor: [
            (self) => {
              const { idx, left } = self.cursor;
              setHover(
                idx === null || idx === undefined || left === undefined || left < 0
                  ? null
                  : { index: idx, left: left + self.bbox.left / devicePixelRatio },
              );
            },
          ],
        },
      },
      [[]],
      target,
    );
    plot.current = chart;
    const resize = new ResizeObserver(() =>
      chart.setSize({ width: target.clientWidth || 300, height }),
    );
    resize.observe(target);
    return () => {
      resize.disconnect();
      chart.destroy();
      plot.current = null;
    };
  }, [theme, shape, stacked, height, most, whole]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: a new plot needs its values, too
  useEffect(() => {
    plot.current?.setData([drawing.at, ...drawing.lines] as uPlot.AlignedData);
  }, [drawing, theme, shape]);

  const pointed = hover ? (drawing.from[hover.index] ?? null) : null;
  const when = pointed === null ? undefined : at[pointed];
  const shown = (value: number | null | undefined) => (value == null ? "–" : format(value));
  const width = box.current?.clientWidth ?? 0;
  return (
    <div className="chart" role="img" aria-label={label} ref={box}>
      {hover && pointed !== null && when !== undefined && (
        <div
          className="chart-tip"
          style={
            hover.left > width / 2 ? { right: width - hover.left + 12 } : { left: hover.left + 12 }
          }
        >
          <div className="muted">{clock(when * 1000)}</div>
          {lines.map((line) => (
            <div key={line.name}>
              <i style={{ background: `var(${line.colour})` }} />
              {line.name}
              <b>{shown(line.values[pointed])}</b>
            </div>
          ))}
        </div>
      )}
    </div>
  );
}

export function Legend({ lines }: { lines: readonly Line[] }) {
  return (
    <div className="legend">
      {lines.map((line) => (
        <span key={line.name}>
          <i style={{ background: `var(${line.colour})` }} />
          {line.name}
        </span>
      ))}
    </div>
  );
}
