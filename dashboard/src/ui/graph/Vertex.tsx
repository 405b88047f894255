import type { KeyboardEvent, Ref } from "react";
import { useT, useWord } from "../../i18n";
import { count } from "../../lib/format";
import { type Place, SIZE } from "../../lib/graph";
import { fitted, type Progress } from "../../lib/steps";
import { Mark } from "../State";

/** What is drawn in one place: a step, or a group of those that are alike. */
export interface Drawable {
  name: string;
  status: string;
  taskType: string;
  optional: boolean;
  asks: boolean;
  /** Several sheets: it spreads over a list, or it is a group. */
  several: boolean;
  /** How many steps it stands for. */
  members: number;
  progress: Progress | null;
}

interface VertexProps {
  of: Drawable;
  place: Place;
  isChosen: boolean;
  isStop: boolean;
  onChoose: (name: string) => void;
  onFocus: (name: string) => void;
  onMove: (event: KeyboardEvent, name: string) => void;
  ref: Ref<SVGGElement>;
}

/** How wide a letter is, and how much stands before the words. */
const LETTER = { name: 7.6, told: 6.9, type: 6.4 };
const BEFORE = 23;

/** `12 / 40`, with a bar: what completed, and what ended otherwise. */
function Bar({ of, done, undone }: Progress) {
  const width = SIZE.width - 24;
  const part = (n: number) => (of > 0 ? (width * Math.min(n, of)) / of : 0);
  return (
    <g transform={`translate(12 ${SIZE.height - 9})`}>
      <rect className="vertex-track" width={width} height={4} rx={2} />
      <rect className="vertex-done" width={part(done)} height={4} rx={2} />
      {undone > 0 && (
        <rect
          className="vertex-undone"
          x={Math.min(part(done), width - 4)}
          width={Math.max(4, part(undone))}
          height={4}
          rx={2}
        />
      )}
    </g>
  );
}

function useLabel({ name, status, progress, optional, members }: Drawable): string {
  const t = useT();
  const word = useWord();
  return [
    members > 1 ? t("graph.group", { name, n: members - 1 }) : name,
    word("step", status),
    ...(progress ? [t("graph.progress", { done: progress.done, of: progress.of })] : []),
    ...(progress?.undone ? [t("graph.undone", { n: progress.undone })] : []),
    ...(optional ? [t("flow.optional")] : []),
  ].join(", ");
}

/** A step: its state by shape and colour, sheets behind it where it stands for several, round ends
 * where it is optional, a corner where it has a condition. */
export function Vertex(props: VertexProps) {
  const { of, place, isChosen, isStop, onChoose, onFocus, onMove, ref } = props;
  const label = useLabel(of);
  const { progress } = of;
  const { width, height } = SIZE;
  const round = of.optional ? height / 2 : 8;
  const told = progress ? `${count(progress.done + progress.undone)} / ${count(progress.of)}` : "";
  const kind = told ? of.taskType : `${of.members} × ${of.taskType}`;
  const title = of.members > 1 ? kind : of.name;
  const inset = of.optional ? 18 : 12;
  const room = width - 2 * inset - BEFORE;
  return (
    <g
      ref={ref}
      role="button"
      tabIndex={isStop ? 0 : -1}
      aria-pressed={isChosen}
      data-step={of.name}
      className={`vertex is-${of.status} ${isChosen ? "chosen" : ""}`}
      transform={`translate(${place.x} ${place.y})`}
      onClick={() => onChoose(of.name)}
      onFocus={() => onFocus(of.name)}
      onKeyDown={(event) => onMove(event, of.name)}
    >
      <title>{label}</title>
      {of.several && (
        <>
          <rect className="vertex-sheet" x={6} y={6} width={width} height={height} rx={round} />
          <rect className="vertex-sheet" x={3} y={3} width={width} height={height} rx={round} />
        </>
      )}
      <rect className="vertex-box" width={width} height={height} rx={round} />
      {of.asks && <path className="vertex-asks" d="M-7 26L0 19L7 26L0 33Z" />}
      <g>
        <g transform={`translate(${inset} 9)`}>
          <Mark family="step" name={of.status} />
        </g>
        <text className="vertex-name" x={inset + BEFORE} y={22}>
          {fitted(title, Math.floor((room - told.length * LETTER.told) / LETTER.name))}
        </text>
        {told && (
          <text className="vertex-told" x={width - inset} y={22} textAnchor="end">
            {told}
          </text>
        )}
        <text className="vertex-type" x={inset + BEFORE} y={38}>
          {fitted(of.members > 1 ? `${of.name} …` : of.taskType, Math.floor(room / LETTER.type))}
        </text>
      </g>
      {progress && <Bar {...progress} />}
    </g>
  );
}
