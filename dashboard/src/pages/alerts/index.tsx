import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { alerts } from "../../api/queries";
import { useVisitor } from "../../app/session";
import type { AlertView, SilenceView } from "../../generated/api";
import { type Key, useT, useWord } from "../../i18n";
import { en } from "../../i18n/en";
import { isSilenced, limitOf, shownValue, sorted, stateOf } from "../../lib/alerts";
import { count, interval, shortId } from "../../lib/format";
import { Link } from "../../lib/router";
import { Ago, Button, Card, Chip, Empty, Loaded, PageHead } from "../../ui/basics";
import { SubjectLink } from "../../ui/events";
import { State, type Tone } from "../../ui/State";
import { type Column, Table } from "../../ui/Table";
import { AlertActions } from "./AlertActions";
import { Make } from "./forms";

const TONES: Record<string, Tone> = { critical: "bad", warning: "warn", info: "quiet" };
const MOST_NAMED = 5;

function Severity({ name }: { name: string }) {
  const word = useWord();
  return <Chip tone={TONES[name] ?? "quiet"}>{word("alertSeverity", name)}</Chip>;
}

/** `Nodes that fell silent: more than 0, for 1 m`. */
function useCondition(): (alert: AlertView) => string {
  const t = useT();
  const word = useWord();
  return (alert) => {
    const [direction, limit] = limitOf(alert);
    const what = alert.source === "events" ? alert.event : word("alertSource", alert.source);
    const beyond = t(`alerts.${direction}.than`, { limit: shownValue(alert.source, limit) });
    const lasting = alert.for_s > 0 ? t("alerts.lasting", { span: interval(alert.for_s) }) : "";
    return `${what}${t("explain.sum.colon")}${beyond}${lasting}`;
  };
}

/** What the rule is for: those that are built in speak the language of the page. */
function useAbout(): (alert: AlertView) => string {
  const t = useT();
  return (alert) => {
    const key = `alertRule.${alert.name}`;
    const own = key in en ? (key as Key) : null;
    return own && en[own] === alert.description ? t(own) : alert.description;
  };
}

function Subjects({ alert }: { alert: AlertView }) {
  const t = useT();
  const named = alert.subjects.slice(0, MOST_NAMED);
  const more = alert.count - named.length;
  if (named.length === 0) return null;
  return (
    <span className="row wrap tight small">
      {named.map((subject) => (
        <SubjectLink key={subject} event={{ subject }} />
      ))}
      {more > 0 && <span className="muted">{t("work.more", { n: count(more) })}</span>}
    </span>
  );
}

function Silences({ silences }: { silences: readonly SilenceView[] }) {
  const t = useT();
  return silences.map((each) => (
    <div key={`${each.subject} ${each.until}`} className="small">
      <Chip tone="warn">{t("alerts.silenced")}</Chip>{" "}
      {each.subject && <span className="mono">{shortId(each.subject)} </span>}
      <span className="muted">
        {t("alerts.until")} <Ago at={each.until} />
        {each.reason && ` · ${each.reason}`}
      </span>
    </div>
  ));
}

/** What is the matter now, before all rules. */
function Firing({ items }: { items: readonly AlertView[] }) {
  const t = useT();
  const condition = useCondition();
  const about = useAbout();
  const firing = items.filter((each) => stateOf(each) === "firing");
  if (firing.length === 0) return <div className="notice ok">{t("alerts.allQuiet")}</div>;
  return (
    <ul className="firing-list" aria-label={t("alert.firing")}>
      {firing.map((each) => (
        <li
          key={each.id}
          className={`notice stack tight ${each.severity === "critical" ? "bad" : "warn"}`}
        >
          <span className="row wrap">
            <State family="alert" name={isSilenced(each) ? "silenced" : "firing"} />
            <b>{each.name}</b>
            <span>
              · <Ago at={each.fired_at} />
            </span>
          </span>
          <span className="breaks">
            {about(each)}
            {about(each) && " · "}
            {t("alerts.now", { value: shownValue(each.source, each.value) })} ({condition(each)})
          </span>
          <Subjects alert={each} />
        </li>
      ))}
    </ul>
  );
}

function useColumns(): Column<AlertView>[] {
  const t = useT();
  const { operates } = useVisitor();
  const condition = useCondition();
  const about = useAbout();
  const columns: Column<AlertView>[] = [
    { title: t("tasks.state"), cell: (each) => <State family="alert" name={stateOf(each)} /> },
    {
      title: t("alerts.rule"),
      cell: (each) => (
        <div className="alert-words">
          <span className="strong">{each.name}</span>
          {each.project_id && <span className="muted small"> {each.project_id}</span>}
          <div className="muted small">{about(each)}</div>
        </div>
      ),
    },
    { title: t("alerts.severity"), cell: (each) => <Severity name={each.severity} /> },
    {
      title: t("alerts.condition"),
      cell: (each) => <div className="reason">{condition(each)}</div>,
    },
    {
      title: t("alerts.since"),
      cell: (each) => (
        <>
          {each.fired_at && <Ago at={each.fired_at} />}
          <Silences silences={each.silences} />
        </>
      ),
    },
  ];
  if (operates) {
    columns.push({
      title: t("common.actions"),
      bare: true,
      right: true,
      cell: (each) => <AlertActions alert={each} />,
    });
  }
  return columns;
}

export default function Alerts() {
  const t = useT();
  const { operates } = useVisitor();
  const found = useQuery(alerts);
  const columns = useColumns();
  const [making, setMaking] = useState(false);
  return (
    <>
      <PageHead title={<h1>{t("nav.alerts")}</h1>}>
        {operates && (
          <Button look="primary" icon="submit" onClick={() => setMaking(true)}>
            {t("alerts.make")}
          </Button>
        )}
      </PageHead>
      <Loaded of={found} rows={8}>
        {({ items }) =>
          items.length > 0 ? (
            <div className="stack">
              <Firing items={sorted(items)} />
              <Card title={t("alerts.rules")} flush>
                <Table
                  label={t("alerts.rules")}
                  columns={columns}
                  rows={sorted(items)}
                  rowKey={(each) => each.id}
                />
              </Card>
              <p className="muted small">
                {t("alerts.toldBy")} <Link to="/webhooks">{t("nav.webhooks")}</Link>
              </p>
            </div>
          ) : (
            <Card>
              <Empty
                icon="alerts"
                title={t("alerts.emptyTitle")}
                command="crawlfleet alerts create blocked events --event task.failed --above 10 --window 15m"
              >
                {t("alerts.emptyText")}
              </Empty>
            </Card>
          )
        }
      </Loaded>
      {making && <Make onClose={() => setMaking(false)} />}
    </>
  );
}
