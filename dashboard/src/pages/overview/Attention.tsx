import type { Concern } from "../../generated/api";
import { type Key, useT, useWord, useWords } from "../../i18n";
import { en } from "../../i18n/en";
import { Link } from "../../lib/router";
import { Coded } from "../../ui/basics";
import { Icon } from "../../ui/Icon";

const TONES: Record<string, string> = { high: "bad", medium: "warn", low: "quiet" };

/** Where something can be done about it. */
function placeOf({ subject }: Concern): string {
  const id = encodeURIComponent(subject.id ?? "");
  switch (subject.kind) {
    case "node":
      return `/nodes/${id}`;
    case "nodes":
      return "/nodes?sort=status";
    case "task":
      return `/tasks/${id}?tab=explain`;
    case "tasks":
      return "/tasks?status=pending";
    case "crawl":
      return `/crawls/${id}`;
    case "dead-letters":
      return "/dead-letters";
    default:
      return "/settings/master";
  }
}

/** In English as the master says it; in other languages by its kind, with its words below. */
function Words({ item }: { item: Concern }) {
  const { language, t } = useWords();
  const known = `concern.${item.kind}` in en;
  const translated = known && language !== "en";
  const message = translated
    ? t(`concern.${item.kind}` as Key, { n: item.count ?? 1 })
    : item.message;
  const remedy = translated ? t(`remedy.${item.kind}` as Key) : item.remedy;
  return (
    <>
      <div className="strong breaks">{message}</div>
      <div className="muted small breaks">
        <Coded text={remedy} />
      </div>
      {translated && (
        <div className="muted small breaks" lang="en">
          {item.message}
        </div>
      )}
    </>
  );
}

export function Attention({ items }: { items: readonly Concern[] }) {
  const t = useT();
  const word = useWord();
  if (items.length === 0) {
    return (
      <p className="empty muted">
        <span className="row">
          <span className="tone-ok">
            <Icon name="check" />
          </span>
          {t("attention.nothing")}
        </span>
      </p>
    );
  }
  return (
    <ol className="attention">
      {items.slice(0, 8).map((item) => (
        <li key={`${item.kind} ${item.subject.id} ${item.message}`}>
          <span className={`tone-${TONES[item.severity] ?? "quiet"}`}>
            <Icon
              name={item.severity === "low" ? "bolt" : "warning"}
              label={word("severity", item.severity)}
            />
          </span>
          <div>
            <Words item={item} />
          </div>
          <Link className="button small" to={placeOf(item)}>
            {t("attention.look")}
          </Link>
        </li>
      ))}
    </ol>
  );
}
