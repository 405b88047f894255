import {
  type KeyboardEvent,
  type MouseEvent,
  memo,
  useCallback,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
} from "react";
import { useT, useWord } from "../../i18n";
import { ago, shortId } from "../../lib/format";
import { Link, navigate } from "../../lib/router";
import { orderOf, useWindow } from "../../lib/window";
import { useMoment } from "../../ui/basics";
import { Mark } from "../../ui/State";
import type { Rows } from "./useRows";

const ROW = 38;
const ROW_ON_PHONE = 58;
const AHEAD = 1500; // rows before the end at which the next page is fetched

interface TaskTableProps {
  found: Rows;
  names: ReadonlyMap<string, string>;
  chosen: ReadonlySet<string>;
  all: boolean;
  selectable: boolean;
  total: number | null;
  onChoose: (ids: Set<string>) => void;
}

interface RowProps {
  index: number;
  top: number;
  height: number;
  current: boolean;
  id: string;
  label: string;
  type: string;
  status: string;
  /** The state in words. */
  state: string;
  priority: number;
  node: string;
  tries: number;
  at: string;
  /** How long ago that was. */
  age: string;
  checked: boolean;
  /** What the box to choose it is called; none where nothing can be chosen. */
  pick: string;
  onPick: (index: number, event: MouseEvent) => void;
}

/** Made of plain values alone, so that it is drawn again only when one of them changes. */
const Row = memo(function Row(props: RowProps) {
  return (
    <div
      role="row"
      aria-rowindex={props.index + 2}
      className={`vrow ${props.checked ? "chosen" : ""} ${props.current ? "current" : ""}`}
      style={{ height: props.height, transform: `translateY(${props.top}px)` }}
      data-id={props.id}
    >
      <div role="cell" className="pick c-pick">
        {props.pick && (
          <input
            type="checkbox"
            aria-label={props.pick}
            checked={props.checked}
            onChange={() => {}}
            onClick={(event) => props.onPick(props.index, event)}
          />
        )}
      </div>
      <div role="cell" className="c-state">
        <span className="state">
          <Mark family="task" name={props.status} />
          {props.state}
        </span>
      </div>
      <div role="cell" className="cut c-what">
        <Link className="main-link" to={`/tasks/${props.id}`} title={props.label}>
          {props.label}
        </Link>
      </div>
      <div role="cell" className="cut muted c-type">
        {props.type}
      </div>
      <div role="cell" className="c-priority right">
        {props.priority}
      </div>
      <div role="cell" className="cut muted c-node">
        {props.node}
      </div>
      <div role="cell" className="c-tries right">
        {props.tries || "–"}
      </div>
      <div role="cell" className="muted small c-when right">
        <time dateTime={props.at} className="nowrap">
          {props.age}
        </time>
      </div>
    </div>
  );
});

/** Rows change places as one scrolls: who was in one that is another task now is let out of it. */
function useFocusOfRow(body: { current: HTMLElement | null }, first: number, end: number) {
  const focused = useRef("");
  // biome-ignore lint/correctness/useExhaustiveDependencies: looked at when the rows have moved
  useLayoutEffect(() => {
    const row = document.activeElement?.closest<HTMLElement>(".vrow");
    if (row && focused.current && row.dataset.id !== focused.current) {
      body.current?.focus({ preventScroll: true });
    }
  }, [first, end]);
  return (target: HTMLElement) => {
    focused.current = target.closest<HTMLElement>(".vrow")?.dataset.id ?? "";
  };
}

/** A window onto the rows: only those in sight are in the document. */
export function TaskTable(props: TaskTableProps) {
  const t = useT();
  const { found, chosen } = props;
  const { rows } = found;
  const body = useRef<HTMLDivElement>(null);
  const last = useRef<number | null>(null);
  const [current, setCurrent] = useState<number | null>(null);
  const word = useWord();
  const now = useMoment();
  const height = window.matchMedia("(max-width: 860px)").matches ? ROW_ON_PHONE : ROW;
  const drawn = useWindow(body, height, rows.length);
  const { first, end, places } = drawn;
  const noteFocus = useFocusOfRow(body, first, end);
  const { complete, loading, fetchMore } = found;
  const near = end > rows.length - AHEAD;
  useEffect(() => {
    if (!complete && !loading && near) void fetchMore();
  }, [near, complete, loading, fetchMore]);

  function pick(index: number, event: MouseEvent): void {
    const next = new Set(chosen);
    const row = rows[index];
    if (!row) return;
    const on = !next.has(row.id);
    const from = event.shiftKey && last.current !== null ? last.current : index;
    for (let each = Math.min(from, index); each <= Math.max(from, index); each += 1) {
      const id = rows[each]?.id;
      if (id) on ? next.add(id) : next.delete(id);
    }
    last.current = index;
    props.onChoose(next);
  }

  const pickRef = useRef(pick);
  pickRef.current = pick;
  const onPick = useCallback(
    (index: number, event: MouseEvent) => pickRef.current(index, event),
    [],
  );

  function press(event: KeyboardEvent): void {
    const at = current ?? -1;
    const target = event.target as HTMLElement;
    if (target.tagName === "INPUT" && event.key === " ") return;
    if (event.key === "ArrowDown" || event.key === "j") move(Math.min(at + 1, rows.length - 1));
    else if (event.key === "ArrowUp" || event.key === "k") move(Math.max(at - 1, 0));
    else if (event.key === "Enter" && target === body.current && rows[at]) {
      navigate(`/tasks/${rows[at].id}`);
    } else if (event.key === "x" && props.selectable && rows[at]) {
      pick(at, event as unknown as MouseEvent);
    } else return;
    event.preventDefault();
  }
  function move(index: number): void {
    setCurrent(index);
    const box = body.current;
    if (!box) return;
    const [top, seen] = [index * height, box.clientHeight];
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + height > box.scrollTop + seen) box.scrollTop = top + height - seen;
  }

  const allShown =
    rows.length > 0 && chosen.size >= rows.length && rows.every((row) => chosen.has(row.id));
  return (
    <div
      className="card vtable"
      role="table"
      aria-label={t("nav.tasks")}
      aria-rowcount={props.total ?? -1}
    >
      <div role="rowgroup">
        <div className="vhead" role="row">
          <div role="columnheader" className="pick">
            {props.selectable ? (
              <input
                type="checkbox"
                aria-label={t("tasks.pickAll")}
                checked={allShown}
                onChange={() =>
                  props.onChoose(allShown ? new Set() : new Set(rows.map((row) => row.id)))
                }
              />
            ) : (
              <span className="hidden-text">{t("tasks.pickAll")}</span>
            )}
          </div>
          <div role="columnheader">{t("tasks.state")}</div>
          <div role="columnheader">{t("tasks.what")}</div>
          <div role="columnheader">{t("tasks.type")}</div>
          <div role="columnheader" className="right">
            {t("tasks.priority")}
          </div>
          <div role="columnheader">{t("tasks.node")}</div>
          <div role="columnheader" className="right">
            {t("tasks.tries")}
          </div>
          <div role="columnheader" className="right">
            {t("tasks.made")}
          </div>
        </div>
      </div>
      <div
        className="vbody"
        ref={body}
        role="rowgroup"
        tabIndex={0}
        onKeyDown={press}
        onFocus={(event) => noteFocus(event.target)}
        aria-label={t("tasks.keys")}
      >
        <div style={{ height: rows.length * height }} className="vspace" role="presentation">
          {orderOf(drawn).map((index) => {
            const row = rows[index];
            if (!row) return null;
            return (
              <Row
                key={index % places}
                index={index}
                top={index * height}
                height={height}
                current={index === current}
                id={row.id}
                label={row.label}
                type={row.type}
                status={row.status}
                state={word("task", row.status)}
                priority={row.priority}
                node={props.names.get(row.node) ?? (row.node ? shortId(row.node) : "")}
                tries={row.tries}
                at={row.at}
                age={ago(row.at, now)}
                checked={props.all || chosen.has(row.id)}
                pick={props.selectable ? t("tasks.pick", { id: shortId(row.id) }) : ""}
                onPick={onPick}
              />
            );
          })}
        </div>
      </div>
    </div>
  );
}
