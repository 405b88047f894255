/** Lines and areas over time, drawn by uPlot in the colours of the theme. */
import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import { clock } from "../lib/format";
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
  format: (value: number) => string;
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
  const { label, at, lines, stacked = false, height = 190, most, format } = props;
  const theme = useTheme().theme;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [hover, setHover] = useState<{ index: number; left: number } | null>(null);
  const shape = lines.map((line) => line.name + line.colour).join();
  const formatRef = useRef(format);
  formatRef.current = format;
  const linesRef = useRef(lines);
  linesRef.current = lines;

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
        padding: [8, 4, 0, 0],
        legend: { show: false },
        cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
        scales: { y: { range: (_, __, top) => [0, Math.max(most ?? 0, top * 1.08) || 1] } },
        axes: [
          {
            stroke: colour("--faint"),
            grid: { show: false },
            ticks: { show: false },
            font: "11px system-ui",
            values: (_, ticks) => ticks.map((tick) => clock(tick * 1000).slice(-8, -3)),
            space: 70,
            size: 26,
          },
          {
            stroke: colour("--faint"),
            grid: { stroke: colour("--line"), width: 1 },
            ticks: { show: false },
            font: "11px system-ui",
            values: (_, ticks) => ticks.map((tick) => formatRef.current(tick)),
            size: (_, ticks) => 14 + 6.4 * Math.max(3, ...(ticks ?? []).map((tick) => tick.length)),
            space: 34,
          },
        ],
        series: [
          {},
          ...drawn.map((line) => ({
            label: line.name,
            stroke: colour(line.colour),
            fill: `color-mix(in srgb, ${colour(line.colour)} ${stacked ? 55 : 12}%, transparent)`,
            width: 1.5,
            points: { show: false },
            spanGaps: true,
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
  }, [theme, shape, stacked, height, most]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: a new plot needs its values, too
  useEffect(() => {
    const values = lines.map((line) => [...line.values]);
    const drawn = stacked ? stack(values).reverse() : values;
    plot.current?.setData([[...at], ...drawn] as uPlot.AlignedData);
  }, [at, lines, stacked, theme, shape]);

  const when = hover ? at[hover.index] : undefined;
  const width = box.current?.clientWidth ?? 0;
  return (
    <div className="chart" role="img" aria-label={label} ref={box}>
      {hover && when !== undefined && (
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
              <b>{format(line.values[hover.index] ?? 0)}</b>
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
