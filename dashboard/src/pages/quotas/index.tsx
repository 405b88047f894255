import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { quotas } from "../../api/queries";
import { useVisitor } from "../../app/session";
import type { QuotaLine, QuotaView } from "../../generated/api";
import { useT, useWord } from "../../i18n";
import { count, percent, short } from "../../lib/format";
import { matches } from "../../lib/matching";
import { amount, borrowed, sorted, usedShare } from "../../lib/quotas";
import { Link, useSearch } from "../../lib/router";
import { Button, Card, Chip, Empty, Loaded, PageHead } from "../../ui/basics";
import { SearchFilter } from "../../ui/filters";
import { Tabs } from "../../ui/Tabs";
import { Edit } from "./Edit";
import { Usage } from "./Usage";

const AT_ONCE = 60;

/** What is used of one quota; without a limit there is nothing to be full. */
function Line({ line }: { line: QuotaLine }) {
  const t = useT();
  const word = useWord();
  const name = word("quota", line.name);
  const share = usedShare(line);
  const tone = share === null || share < 0.8 ? "" : share < 1 ? "warn" : "bad";
  return (
    <li>
      <span>{name}</span>
      {share === null ? (
        <span className="quota-track boundless" aria-hidden="true" />
      ) : (
        <div
          className="quota-track"
          role="meter"
          aria-label={name}
          aria-valuenow={Math.round(share * 100)}
          aria-valuemin={0}
          aria-valuemax={100}
        >
          <i className={tone} style={{ width: `${share * 100}%` }} />
        </div>
      )}
      <span className="nowrap right">
        <b>{amount(line.name, line.use)}</b>{" "}
        <span className="muted">
          {line.limit === null ? t("quotas.none") : `/ ${amount(line.name, line.limit)}`}
        </span>
      </span>
    </li>
  );
}

/** The part of the fleet that a project holds: its due, and what is only borrowed. */
function Share({ view }: { view: QuotaView }) {
  const t = useT();
  const more = borrowed(view);
  const own = Math.min(view.share, view.due);
  return (
    <div className="stack tight">
      <div className="row between small">
        <span>{t("quotas.share")}</span>
        <span className="right">
          <b>{percent(view.share)}</b>{" "}
          <span className="muted">
            {t("quotas.due", { due: percent(view.due), weight: short(view.weight) })}
          </span>
        </span>
      </div>
      <div
        className="quota-track"
        role="meter"
        aria-label={t("quotas.share")}
        aria-valuenow={Math.round(Math.min(1, view.share) * 100)}
        aria-valuemin={0}
        aria-valuemax={100}
      >
        <i style={{ width: `${own * 100}%` }} />
        <i className="borrowed" style={{ left: `${own * 100}%`, width: `${more * 100}%` }} />
        {view.due > 0 && view.due < 1 && (
          <span className="quota-due" style={{ width: `${view.due * 100}%` }} />
        )}
      </div>
      {more > 0.005 && (
        <span className="small tone-warn">{t("quotas.borrowed", { part: percent(more) })}</span>
      )}
    </div>
  );
}

function Project({ view }: { view: QuotaView }) {
  const t = useT();
  const { operates, seesFleet } = useVisitor();
  const [editing, setEditing] = useState(false);
  const labels = Object.entries(view.nodes);
  return (
    <Card
      title={
        <Link to={`/tasks?project=${encodeURIComponent(view.project_id)}`}>{view.project_id}</Link>
      }
      aside={
        operates &&
        seesFleet && (
          <Button
            size="small"
            aria-label={t("quotas.changeOf", { name: view.project_id })}
            onClick={() => setEditing(true)}
          >
            {t("clusters.change")}
          </Button>
        )
      }
    >
      <div className="quota">
        <ul className="quota-lines">
          {view.quotas.map((line) => (
            <Line key={line.name} line={line} />
          ))}
        </ul>
        <Share view={view} />
        <div className="row wrap small">
          <span className="muted">
            {t(view.over === "reject" ? "quotas.over.reject" : "quotas.over.queue")}
          </span>
          {labels.length > 0 && (
            <span className="row wrap tight">
              <span className="muted">{t("quotas.keeps")}</span>
              {labels.map(([name, value]) => (
                <Chip key={name}>
                  {name}={value}
                </Chip>
              ))}
            </span>
          )}
        </div>
      </div>
      {editing && <Edit view={view} onClose={() => setEditing(false)} />}
    </Card>
  );
}

export default function Quotas() {
  const t = useT();
  const [search] = useSearch();
  const tab = search.get("tab") ?? "now";
  return (
    <>
      <PageHead title={<h1>{t("nav.quotas")}</h1>} />
      <Tabs
        label={t("nav.quotas")}
        current={tab}
        tabs={[
          ["now", t("quotas.now")],
          ["usage", t("usage.title")],
        ]}
      />
      {tab === "usage" ? <Usage /> : <Now />}
    </>
  );
}

/** What each project has now, and may have. */
function Now() {
  const t = useT();
  const [search] = useSearch();
  const [most, setMost] = useState(AT_ONCE);
  const found = useQuery(quotas);
  const text = search.get("q") ?? "";
  return (
    <>
      <p className="muted lead">{t("quotas.lead")}</p>
      <Loaded of={found} rows={8}>
        {({ items }) => {
          const fitting = sorted(items).filter((each) => matches(text, each.project_id));
          return (
            <div className="stack">
              {items.length > 6 && (
                <search className="filters">
                  <SearchFilter label={t("quotas.search")} />
                </search>
              )}
              {fitting.length > 0 ? (
                <div className="quotas-grid">
                  {fitting.slice(0, most).map((each) => (
                    <Project key={each.project_id} view={each} />
                  ))}
                </div>
              ) : text ? (
                <Card>
                  <Empty icon="search" title={t("common.nothingFits")} />
                </Card>
              ) : (
                <Card>
                  <Empty
                    icon="quotas"
                    title={t("quotas.emptyTitle")}
                    command="crawlfleet quotas set shop --running 40 --weight 2"
                  />
                </Card>
              )}
              {fitting.length > most && (
                <div>
                  <Button onClick={() => setMost(most + AT_ONCE)}>
                    {t("common.more", { n: count(fitting.length - most) })}
                  </Button>
                </div>
              )}
            </div>
          );
        }}
      </Loaded>
    </>
  );
}
