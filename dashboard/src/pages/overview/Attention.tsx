import type { AttentionItem } from "../../api/contract";
import { useT, useWord } from "../../i18n";
import { Link } from "../../lib/router";
import { Icon } from "../../ui/Icon";

const TONES = { high: "bad", medium: "warn", low: "quiet" } as const;

/** Where something can be done about it. */
export function placeOf({ subject, kind }: AttentionItem): string {
  const id = encodeURIComponent(subject.id);
  switch (subject.kind) {
    case "node":
      return `/nodes/${id}`;
    case "task":
      return `/tasks/${id}?tab=explain`;
    case "crawl":
      return `/crawls/${id}`;
    case "host":
      return `/crawls?host=${id}`;
    case "cluster":
      return "/settings/clusters";
    case "project":
      return `/tasks?project=${id}`;
    case "key":
      return "/settings/keys";
    default:
      return kind.includes("dead") ? "/dead-letters" : "/events";
  }
}

export function Attention({ items }: { items: readonly AttentionItem[] }) {
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
          <span className={`tone-${TONES[item.severity]}`}>
            <Icon
              name={item.severity === "low" ? "bolt" : "warning"}
              label={word("severity", item.severity)}
            />
          </span>
          <div>
            <div className="strong breaks">
              {item.message}
              {item.count > 1 && <span className="muted"> × {item.count.toLocaleString()}</span>}
            </div>
            <div className="muted small breaks">{item.remedy}</div>
          </div>
          <Link className="button small" to={placeOf(item)}>
            {t("attention.look")}
          </Link>
        </li>
      ))}
    </ol>
  );
}
