import { useT, useWord } from "../../i18n";
import { STEP_STATES } from "../../lib/steps";
import { Mark } from "../State";

/** What shapes, colours and lines of the graph mean. */
export function GraphLegend({ planned }: { planned: boolean }) {
  const t = useT();
  const word = useWord();
  return (
    <div className="legend graph-legend">
      {!planned &&
        STEP_STATES.map((state) => (
          <span key={state}>
            <Mark family="step" name={state} />
            {word("step", state)}
          </span>
        ))}
      <span>
        <svg className="swatch" viewBox="0 0 28 16" aria-hidden="true">
          <rect className="vertex-sheet" x="5" y="4" width="22" height="11" rx="3" />
          <rect className="vertex-box" x="1" y="1" width="22" height="11" rx="3" />
        </svg>
        {t("flow.several")}
      </span>
      <span>
        <svg className="swatch" viewBox="0 0 28 16" aria-hidden="true">
          <rect className="vertex-box" x="1" y="2" width="26" height="12" rx="6" />
        </svg>
        {t("flow.optional")}
      </span>
      <span>
        <svg className="swatch" viewBox="0 0 28 16" aria-hidden="true">
          <path className="vertex-asks" d="M8 8L14 2L20 8L14 14Z" />
        </svg>
        {t("flow.asks")}
      </span>
      {(["success", "failure", "always"] as const).map((on) => (
        <span key={on}>
          <svg className="swatch" viewBox="0 0 28 16" aria-hidden="true">
            <path className={`edge on-${on} taken`} d="M1 8H27" />
          </svg>
          {t(`on.${on}`)}
        </span>
      ))}
    </div>
  );
}
