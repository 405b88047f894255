import type { RunView } from "../../generated/api";
import { useT, useWord } from "../../i18n";
import { count } from "../../lib/format";
import { STEP_STATES } from "../../lib/steps";
import { Mark } from "../../ui/State";

const ORDER = [
  "completed",
  "skipped",
  "failed",
  "cancelled",
  "held",
  "running",
  "waiting",
] as const;

/** How many steps of a run are where, as one bar and in numbers. */
export function Tally({ run }: { run: RunView }) {
  const t = useT();
  const word = useWord();
  const counts = run.counts as Record<string, number>;
  const told = STEP_STATES.filter((state) => counts[state]);
  return (
    <div className="tally">
      <div className="stacked" aria-hidden="true">
        {ORDER.filter((state) => counts[state]).map((state) => (
          <span key={state} className={state} style={{ flexGrow: counts[state] }} />
        ))}
      </div>
      <div className="legend">
        <span>{t("flow.steps", { n: count(run.steps) })}</span>
        {told.map((state) => (
          <span key={state}>
            <Mark family="step" name={state} />
            {count(counts[state] ?? 0)} {word("step", state)}
          </span>
        ))}
      </div>
    </div>
  );
}

/** The same in one line of a table. */
export function TallyLine({ run }: { run: RunView }) {
  const word = useWord();
  const counts = run.counts as Record<string, number>;
  const told = ORDER.filter((state) => counts[state]);
  if (told.length === 0) return <>{count(run.steps)}</>;
  return (
    <span className="row tight nowrap">
      {told.map((state) => (
        <span key={state} className="state" title={word("step", state)}>
          <Mark family="step" name={state} /> {count(counts[state] ?? 0)}
          <span className="hidden-text">{word("step", state)}</span>
        </span>
      ))}
    </span>
  );
}
