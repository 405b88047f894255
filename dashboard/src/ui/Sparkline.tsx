interface SparklineProps {
  values: readonly (number | null)[];
  label: string;
  /** The top of the scale; the largest value where not given. */
  most?: number;
  height?: number;
  colour?: string;
}

const WIDTH = 120;

/** A line without axes, for a glance: one SVG path. */
export function Sparkline({ values, label, most, height = 28, colour }: SparklineProps) {
  const stroke = colour ?? "var(--series-1)";
  const known = values.filter((value): value is number => value !== null);
  if (known.length < 2) return <svg className="spark" height={height} aria-hidden="true" />;
  const top = Math.max(most ?? 0, ...known) || 1;
  const points = values.map((value, index) => {
    const x = (index * WIDTH) / (values.length - 1);
    const y = height - 2 - ((value ?? 0) / top) * (height - 4);
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  });
  const line = `M${points.join("L")}`;
  return (
    <svg
      className="spark"
      viewBox={`0 0 ${WIDTH} ${height}`}
      height={height}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      <path d={`${line}L${WIDTH},${height}L0,${height}Z`} fill={stroke} opacity="0.13" />
      <path
        d={line}
        fill="none"
        stroke={stroke}
        strokeWidth="1.5"
        strokeLinejoin="round"
        vectorEffect="non-scaling-stroke"
      />
    </svg>
  );
}
