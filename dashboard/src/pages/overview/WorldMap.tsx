import { useMemo } from "react";
import type { NodeView } from "../../generated/api";
import { LAND, MAP_HEIGHT, MAP_MIDDLE, MAP_SCALE, MAP_WIDTH } from "../../generated/land";
import { useT } from "../../i18n";
import { type Dot, groupByPlace, laidOut, naturalEarth } from "../../lib/places";
import { Link } from "../../lib/router";

const project = naturalEarth(MAP_SCALE, MAP_MIDDLE);

function Place({ dot }: { dot: Dot }) {
  const t = useT();
  const label = t("overview.place", { region: dot.region, n: dot.nodes, online: dot.online });
  const to = `/nodes?region=${encodeURIComponent(dot.region)}`;
  return (
    <Link to={to}>
      <title>{label}</title>
      <g
        transform={`translate(${dot.x.toFixed(1)} ${dot.y.toFixed(1)})`}
        className={`tone-${dot.tone}`}
      >
        <circle className="halo" r={dot.radius + 9} fill="currentColor" />
        <circle r={dot.radius} fill="var(--surface)" stroke="currentColor" strokeWidth="3" />
        <text y="6">{dot.nodes}</text>
        {dot.label !== "none" && (
          <text className="place" y={dot.label === "below" ? dot.radius + 26 : -dot.radius - 14}>
            {dot.region}
          </text>
        )}
      </g>
    </Link>
  );
}

/** Where the nodes stand, without asking anybody for a map. */
export function WorldMap({ nodes }: { nodes: readonly NodeView[] }) {
  const t = useT();
  const { dots, elsewhere } = useMemo(() => {
    const { groups, elsewhere } = groupByPlace(nodes);
    return {
      elsewhere,
      dots: laidOut(groups, project),
    };
  }, [nodes]);
  return (
    <figure>
      <svg
        className="map"
        viewBox={`0 0 ${MAP_WIDTH} ${MAP_HEIGHT}`}
        aria-label={t("overview.map")}
      >
        <path className="land" d={LAND} />
        {dots.map((dot) => (
          <Place key={dot.region} dot={dot} />
        ))}
      </svg>
      {elsewhere > 0 && (
        <figcaption className="muted small">{t("overview.elsewhere", { n: elsewhere })}</figcaption>
      )}
    </figure>
  );
}
