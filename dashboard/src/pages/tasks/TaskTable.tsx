import { useVirtualizer } from "@tanstack/react-virtual";
import {
  type KeyboardEvent,
  type MouseEvent,
  memo,
  useCallback,
  useEffect,
  useRef,
  useState,
} from "react";
import { useT } from "../../i18n";
import { shortId } from "../../lib/format";
import { Link, navigate } from "../../lib/router";
import type { TaskRow } from "../../lib/rows";
import { Ago } from "../../ui/basics";
import { State } from "../../ui/State";
import type { Rows } from "./useRows";

const ROW = 38;
const ROW_ON_PHONE = 58;
const AHEAD = 600; // rows before the end at which the next page is fetched

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
  row: TaskRow;
  node: string;
  checked: boolean;
  selectable: boolean;
  index: number;
  onPick: (index: number, event: MouseEvent) => void;
}

/** Drawn again only when something of it changes: scrolling moves the others. */
const Row = memo(function Row(props: RowProps) {
  const t = useT();
  const { row } = props;
  return (
    <>
      <div role="cell" className="pick c-pick">
        {props.selectable && (
          <input
            type="checkbox"
            aria-label={t("tasks.pick", { id: shortId(row.id) })}
            checked={props.checked}
            onChange={() => {}}
            onClick={(event) => props.onPick(props.index, event)}
          />
        )}
      </div>
      <div role="cell" className="c-state">
        <State family="task" name={row.status} />
      </div>
      <div role="cell" className="cut c-what">
        <Link className="main-link" to={`/tasks/${row.id}`} title={row.label}>
          {row.label}
        </Link>
      </div>
      <div role="cell" className="cut muted c-type">
        {row.type}
      </div>
      <div role="cell" className="c-priority right">
        {row.priority}
      </div>
      <div role="cell" className="cut muted c-node">
        {props.node}
      </div>
      <div role="cell" className="c-tries right">
        {row.tries || <span className="muted">–</span>}
      </div>
      <div role="cell" className="muted small c-when right">
        <Ago at={row.at} />
      </div>
    </>
  );
});

/** A window onto the rows: only those in sight are in the document. */
export function TaskTable(props: TaskTableProps) {
  const t = useT();
  const { found, chosen } = props;
  const { rows } = found;
  const body = useRef<HTMLDivElement>(null);
  const last = useRef<number | null>(null);
  const [current, setCurrent] = useState<number | null>(null);
  const phone = window.matchMedia("(max-width: 860px)").matches;
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => body.current,
    estimateSize: () => (phone ? ROW_ON_PHONE : ROW),
    overscan: 8,
    getItemKey: (index) => rows[index]?.id ?? index,
  });
  const shown = virtual.getVirtualItems();
  const end = shown.at(-1)?.index ?? 0;
  const { complete, loading, fetchMore } = found;
  useEffect(() => {
    if (!complete && !loading && end > rows.length - AHEAD) fetchMore();
  }, [end, rows.length, complete, loading, fetchMore]);

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
    virtual.scrollToIndex(index);
  }

  const allShown = rows.length > 0 && rows.every((row) => chosen.has(row.id));
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
        aria-label={t("tasks.keys")}
      >
        <div style={{ height: virtual.getTotalSize(), position: "relative" }} role="presentation">
          {shown.map((item) => {
            const row = rows[item.index];
            if (!row) return null;
            const checked = props.all || chosen.has(row.id);
            return (
              <div
                key={item.key}
                role="row"
                aria-rowindex={item.index + 2}
                className={`vrow ${checked ? "chosen" : ""} ${item.index === current ? "current" : ""}`}
                style={{ height: item.size, transform: `translateY(${item.start}px)` }}
              >
                <Row
                  row={row}
                  node={props.names.get(row.node) ?? (row.node ? shortId(row.node) : "")}
                  checked={checked}
                  selectable={props.selectable}
                  index={item.index}
                  onPick={onPick}
                />
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}
