import { moment } from "../../lib/format";

export interface RunBar {
  id: string;
  at: string;
  value: number | null;
  /** Drawn in another colour, with a mark above it. */
  isOff: boolean;
}

interface RunBarsProps {
  label: string;
  /** The oldest first. */
  bars: readonly RunBar[];
  most?: number;
  height?: number;
  format: (value: number) => string;
}

const WIDTH = 14;
const MARK = 9;

/** One bar for each run, those that drifted told apart by colour and mark. */
export function RunBars({ label, bars, most, height = 84, format }: RunBarsProps) {
  const top = Math.max(most ?? 0, ...bars.map((bar) => bar.value ?? 0)) || 1;
  const room = height - MARK;
  return (
    <svg
      className="run-bars"
      width={bars.length * WIDTH}
      height={height}
      viewBox={`0 0 ${bars.length * WIDTH} ${height}`}
      role="img"
      aria-label={label}
    >
      {bars.map((bar, index) => {
        const size = bar.value === null ? 0 : Math.max(1.5, (room * bar.value) / top);
        const x = index * WIDTH;
        return (
          <g key={bar.id} className={bar.isOff ? "off" : ""}>
            <title>{`${moment(bar.at)}: ${bar.value === null ? "–" : format(bar.value)}`}</title>
            <rect className="run-bar-room" x={x + 2} y={MARK} width={WIDTH - 4} height={room} />
            <rect className="run-bar" x={x + 2} y={height - size} width={WIDTH - 4} height={size} />
            {bar.isOff && <path d={`M${x + 7} 1L${x + 11} 7.5H${x + 3}Z`} />}
          </g>
        );
      })}
    </svg>
  );
}
