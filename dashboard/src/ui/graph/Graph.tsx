/** The steps of a workflow as a drawing to look around in: by wheel and bars, or by the keys. */
import {
  type KeyboardEvent,
  useCallback,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import { useT } from "../../i18n";
import { percent } from "../../lib/format";
import { type Drawing, draw } from "../../lib/graph";
import { type Group, grouped } from "../../lib/grouping";
import {
  edgeState,
  GROUPED_FROM,
  progressOf,
  progressOfGroup,
  type Shown,
  worst,
} from "../../lib/steps";
import { Button } from "../basics";
import { GraphLegend } from "./GraphLegend";
import { type Drawable, Vertex } from "./Vertex";

interface GraphProps {
  label: string;
  steps: readonly Shown[];
  chosen: string | null;
  onChoose: (name: string) => void;
}

const LEAST_ZOOM = 0.2;
const MOST_ZOOM = 1.6;
/** Smaller than this, words cannot be read: then it is better to scroll. */
const READABLE = 0.55;

function clamp(zoom: number): number {
  return Math.min(MOST_ZOOM, Math.max(LEAST_ZOOM, zoom));
}

function drawable(group: Group, steps: ReadonlyMap<string, Shown>): Drawable {
  const first = steps.get(group.name) as Shown;
  const many = group.members.length > 1;
  const statuses = group.members.map((name) => steps.get(name)?.status ?? "waiting");
  return {
    name: group.name,
    status: worst(statuses),
    taskType: first.task_type,
    optional: first.optional,
    asks: first.asks,
    several: many || first.spreads,
    members: group.members.length,
    progress: many
      ? first.status === "planned"
        ? null
        : progressOfGroup(statuses)
      : progressOf(first),
  };
}

/** Groups and their places; made anew when steps come or edges change, not when states do. */
function useDrawing(
  steps: readonly Shown[],
  groups: boolean,
  open: ReadonlySet<string>,
): { shown: Group[]; drawing: Drawing } {
  const shape = JSON.stringify(
    steps.map(({ name, task_type, after, optional, spreads, asks }) => ({
      name,
      after,
      kind: `${task_type} ${optional} ${spreads} ${asks}`,
    })),
  );
  return useMemo(() => {
    const all = JSON.parse(shape) as Parameters<typeof grouped>[0];
    const shown = groups
      ? grouped(all, open)
      : all.map(({ name, after }) => ({ name, after, members: [name] }));
    return { shown, drawing: draw(shown) };
  }, [shape, groups, open]);
}

/** Where the arrow keys lead from a place. */
function neighbour(drawing: Drawing, from: string, key: string): string | undefined {
  const place = drawing.places.get(from);
  if (!place) return undefined;
  const layer = drawing.layers[place.layer] ?? [];
  switch (key) {
    case "ArrowUp":
      return layer[layer.indexOf(from) - 1];
    case "ArrowDown":
      return layer[layer.indexOf(from) + 1];
    case "ArrowRight":
      return drawing.edges.find((edge) => edge.from === from)?.to;
    case "ArrowLeft":
      return drawing.edges.find((edge) => edge.to === from)?.from;
    case "Home":
      return drawing.layers[0]?.[0];
    case "End":
      return drawing.layers.at(-1)?.at(-1);
    default:
      return undefined;
  }
}

export function Graph({ label, steps, chosen, onChoose }: GraphProps) {
  const t = useT();
  const box = useRef<HTMLDivElement>(null);
  const vertices = useRef(new Map<string, SVGGElement>());
  const many = steps.length >= GROUPED_FROM;
  const [groups, setGroups] = useState(many);
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const [zoom, setZoom] = useState(1);
  const [stop, setStop] = useState<string | null>(null);
  const { shown, drawing } = useDrawing(steps, groups, open);
  const byName = useMemo(() => new Map(steps.map((each) => [each.name, each])), [steps]);
  const { width, height, places, edges, layers } = drawing;

  const showWhole = useCallback(
    (least: number) => {
      const room = box.current;
      if (!room || width === 0) return;
      const tallest = Math.min(window.innerHeight * 0.62, 640);
      const whole = Math.min((room.clientWidth - 2) / width, tallest / height, 1);
      setZoom(clamp(Math.max(whole, least)));
    },
    [width, height],
  );
  useLayoutEffect(() => showWhole(READABLE), [showWhole]);

  useEffect(() => {
    const room = box.current;
    function turn(event: WheelEvent): void {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      setZoom((now) => clamp(now * Math.exp(-event.deltaY / 400)));
    }
    // By hand, since React's own listener may not keep the page from zooming.
    room?.addEventListener("wheel", turn, { passive: false });
    return () => room?.removeEventListener("wheel", turn);
  }, []);

  const choose = useCallback(
    (name: string) => {
      const group = shown.find((each) => each.name === name);
      if (group && group.members.length > 1) setOpen((before) => new Set([...before, name]));
      else onChoose(name);
    },
    [shown, onChoose],
  );
  const move = useCallback(
    (event: KeyboardEvent, name: string) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const next = neighbour(drawing, name, event.key);
      if (next) {
        const element = vertices.current.get(next);
        element?.focus();
        element?.scrollIntoView({ block: "nearest", inline: "nearest" });
      } else if (event.key === "Enter" || event.key === " ") choose(name);
      else if (event.key === "+") setZoom((now) => clamp(now * 1.25));
      else if (event.key === "-") setZoom((now) => clamp(now / 1.25));
      else if (event.key === "0") showWhole(LEAST_ZOOM);
      else if (!event.key.startsWith("Arrow")) return;
      event.preventDefault();
    },
    [drawing, choose, showWhole],
  );

  const first = stop && places.has(stop) ? stop : (layers[0]?.[0] ?? null);
  const statusOf = new Map(
    shown.map((group) => [group.name, worst(statusesOf(group.members, byName))]),
  );
  return (
    <div className="graph">
      <div className="graph-tools">
        <Button
          size="small"
          aria-label={t("graph.out")}
          title={t("graph.out")}
          onClick={() => setZoom((now) => clamp(now / 1.25))}
        >
          −
        </Button>
        <span className="muted small graph-zoom">{percent(zoom)}</span>
        <Button
          size="small"
          aria-label={t("graph.in")}
          title={t("graph.in")}
          onClick={() => setZoom((now) => clamp(now * 1.25))}
        >
          +
        </Button>
        <Button size="small" onClick={() => showWhole(LEAST_ZOOM)}>
          {t("graph.fit")}
        </Button>
        {(many || open.size > 0) && (
          <label className="check small">
            <input
              type="checkbox"
              checked={groups}
              onChange={(event) => {
                setGroups(event.target.checked);
                setOpen(new Set());
              }}
            />
            {t("graph.together")}
          </label>
        )}
        {open.size > 0 && groups && (
          <Button size="small" look="plain" onClick={() => setOpen(new Set())}>
            {t("graph.fold")}
          </Button>
        )}
        <span className="muted small grow right graph-keys">{t("graph.keys")}</span>
      </div>
      <div className="graph-room" ref={box}>
        <svg
          width={width * zoom}
          height={height * zoom}
          viewBox={`0 0 ${width} ${height}`}
          role="group"
          aria-label={label}
        >
          {edges.map((edge) => (
            <path
              key={`${edge.from} ${edge.on} ${edge.to}`}
              className={`edge on-${edge.on} ${edgeState(edge.on, statusOf.get(edge.from) ?? "")}`}
              d={edge.path}
            >
              <title>{`${edge.from} → ${edge.to}: ${t(`on.${edge.on}`)}`}</title>
            </path>
          ))}
          {edges.map(
            (edge) =>
              edge.on !== "success" && (
                <text
                  key={`${edge.from} ${edge.on} ${edge.to}`}
                  className={`edge-word on-${edge.on}`}
                  x={edge.middle.x}
                  y={edge.middle.y}
                >
                  {t(`on.${edge.on}.short`)}
                </text>
              ),
          )}
          {shown.map((group) => {
            const place = places.get(group.name);
            return (
              place && (
                <Vertex
                  key={group.name}
                  ref={(element) => {
                    if (element) vertices.current.set(group.name, element);
                    else vertices.current.delete(group.name);
                  }}
                  of={drawable(group, byName)}
                  place={place}
                  isChosen={chosen !== null && group.members.includes(chosen)}
                  isStop={group.name === first}
                  onChoose={choose}
                  onFocus={setStop}
                  onMove={move}
                />
              )
            );
          })}
        </svg>
      </div>
      <GraphLegend planned={steps[0]?.status === "planned"} />
    </div>
  );
}

function statusesOf(names: readonly string[], steps: ReadonlyMap<string, Shown>): string[] {
  return names.map((name) => steps.get(name)?.status ?? "waiting");
}
