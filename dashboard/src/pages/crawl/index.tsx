import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../../api/client";
import { crawl as crawlQuery, crawlWork, executions, isOver, queryClient } from "../../api/queries";
import { useVisitor } from "../../app/session";
import type { CrawlView } from "../../generated/api";
import { useT } from "../../i18n";
import { bytes, count, short, span } from "../../lib/format";
import { Link, matchPath, usePlace, useSearch } from "../../lib/router";
import {
  Button,
  Card,
  Coded,
  Crumbs,
  Empty,
  Loaded,
  Outside,
  PageHead,
  useNow,
} from "../../ui/basics";
import { Confirm } from "../../ui/Dialog";
import { Icon } from "../../ui/Icon";
import { LogView } from "../../ui/LogView";
import { State } from "../../ui/State";
import { Tabs } from "../../ui/Tabs";
import { useComplain, useToast } from "../../ui/Toasts";
import { Figures } from "./Figures";
import { Items } from "./Items";
import { UrlLookUp } from "./UrlLookUp";
import { Work } from "./Work";

type Verb = "pause" | "resume" | "stop";

function Actions({ crawl }: { crawl: CrawlView }) {
  const t = useT();
  const toast = useToast();
  const complain = useComplain();
  const { operates } = useVisitor();
  const [asking, setAsking] = useState(false);

  async function order(verb: Verb): Promise<void> {
    try {
      await call("post", `/api/v1/crawls/{task_id}:${verb}`, { path: { task_id: crawl.task_id } });
      toast({ tone: "ok", text: t(`crawl.${verb}.done`) });
    } catch (error) {
      complain(error);
    }
    await queryClient.invalidateQueries({ queryKey: ["crawl", crawl.task_id] });
  }

  const formats = crawl.output?.formats ?? [];
  return (
    <>
      {formats.map((format) => (
        <a
          key={format}
          className="button"
          download
          href={`/api/v1/crawls/${encodeURIComponent(crawl.task_id)}/output?format=${encodeURIComponent(format)}`}
        >
          <Icon name="download" /> {format.toUpperCase()}
        </a>
      ))}
      {operates && !isOver(crawl.state) && (
        <>
          {crawl.state === "paused" ? (
            <Button icon="play" onClick={() => void order("resume")}>
              {t("crawl.resume")}
            </Button>
          ) : (
            <Button icon="pause" onClick={() => void order("pause")}>
              {t("crawl.pause")}
            </Button>
          )}
          <Button icon="stop" look="danger" onClick={() => setAsking(true)}>
            {t("crawl.stop")}
          </Button>
        </>
      )}
      {operates && isOver(crawl.state) && (
        <Link className="button" to={`/submit?from=${encodeURIComponent(crawl.task_id)}`}>
          {t("order.clone")}
        </Link>
      )}
      {asking && (
        <Confirm
          title={t("crawl.stop.ask")}
          text={t("crawl.stop.text")}
          verb={t("crawl.stop")}
          danger
          onConfirm={() => order("stop")}
          onClose={() => setAsking(false)}
        />
      )}
    </>
  );
}

function Tiles({ crawl }: { crawl: CrawlView }) {
  const t = useT();
  const now = useNow();
  const { figures } = crawl;
  const end = crawl.finished_at ? Date.parse(crawl.finished_at) : now;
  const seconds = crawl.started_at ? (end - Date.parse(crawl.started_at)) / 1000 : null;
  const mean = seconds && figures ? (figures.pages ?? 0) / Math.max(1, seconds) : 0;
  const over = isOver(crawl.state);
  const tiles: [string, string, string][] = [
    [
      t("crawls.pages"),
      count(figures?.pages ?? 0),
      t("crawl.requests", { n: count(figures?.requests ?? 0) }),
    ],
    [
      over ? t("crawl.meanRate") : t("crawls.rate"),
      `${short(over ? mean : (figures?.rate_per_s ?? 0))} ${t("unit.perSecond")}`,
      over || seconds === null ? "" : t("crawl.mean", { rate: short(mean) }),
    ],
    [
      t("crawls.waiting"),
      count(figures?.waiting ?? 0),
      t("crawl.known", { n: count(figures?.known ?? 0) }),
    ],
    [t("crawls.items"), count(figures?.items ?? 0), ""],
    [
      t("crawls.failed"),
      count(figures?.failed ?? 0),
      t("crawl.retries", { n: count(figures?.retries ?? 0) }),
    ],
    [
      t("crawls.bytes"),
      bytes(figures?.bytes ?? 0),
      seconds === null ? "" : t("crawl.for", { span: span(seconds) }),
    ],
  ];
  return (
    <div className="figures">
      {tiles.map(([name, value, note]) => (
        <div className="card figure" key={name}>
          <span className="name">{name}</span>
          <span className="value">{value}</span>
          <span className="note cut">{note}</span>
        </div>
      ))}
    </div>
  );
}

function LastLog({ id }: { id: string }) {
  const attempts = useQuery({ ...executions(id), refetchInterval: 5000 });
  return (
    <Loaded of={attempts}>
      {({ items }) => <LogView executionId={items.at(-1)?.id ?? null} />}
    </Loaded>
  );
}

/** The log of the crawl; of one that several share, that of each shard. */
function Log({ crawl }: { crawl: CrawlView }) {
  const t = useT();
  const [search, change] = useSearch();
  const work = useQuery(crawlWork(crawl.task_id, crawl.state));
  return (
    <Card>
      <Loaded of={work}>
        {({ shards = [] }) => {
          const asked = search.get("shard");
          const chosen = shards.find((each) => String(each.shard) === asked) ?? shards[0];
          if (shards.length < 2 || !chosen) return <LastLog id={crawl.task_id} />;
          return (
            <div className="stack tight">
              <div className="row wrap">
                <select
                  className="select auto"
                  aria-label={t("work.shard")}
                  value={String(chosen.shard)}
                  onChange={(event) => change({ shard: event.target.value })}
                >
                  {shards.map((each) => (
                    <option key={each.task_id} value={String(each.shard)}>
                      {t("work.shardNumber", { n: each.shard })} · {each.state}
                    </option>
                  ))}
                </select>
                <Link to={`/tasks/${encodeURIComponent(chosen.task_id)}?tab=log`}>
                  {t("crawl.allAttempts")}
                </Link>
              </div>
              <LastLog key={chosen.task_id} id={chosen.task_id} />
            </div>
          );
        }}
      </Loaded>
    </Card>
  );
}

function Shown({ crawl }: { crawl: CrawlView }) {
  const t = useT();
  const [search] = useSearch();
  const tab = search.get("tab") ?? "figures";
  return (
    <>
      <PageHead
        title={
          <>
            <h1 className="breaks">
              <Outside text={crawl.url || crawl.name} />
            </h1>
            <State family="task" name={crawl.state} />
            <Link to={`/tasks/${encodeURIComponent(crawl.task_id)}`}>{t("crawl.task")}</Link>
          </>
        }
      >
        <Actions crawl={crawl} />
      </PageHead>
      <div className="stack">
        {crawl.output_missing && (
          <div className="notice warn">
            <Icon name="warning" />
            <span>
              <span className="strong">{t("crawl.outputMissing")}</span>
              <br />
              <Coded text={t("crawl.outputMissing.remedy", { id: crawl.task_id })} />
            </span>
          </div>
        )}
        <Tiles crawl={crawl} />
        <div>
          <Tabs
            label={t("nav.crawls")}
            current={tab}
            tabs={[
              ["figures", t("crawl.figures")],
              ["work", t("work.title")],
              ["items", t("crawls.items")],
              ["url", t("crawl.lookUp")],
              ["log", t("log.title")],
            ]}
          />
          {tab === "work" ? (
            <Work crawl={crawl} />
          ) : tab === "items" ? (
            <Items crawl={crawl} />
          ) : tab === "url" ? (
            <UrlLookUp id={crawl.task_id} />
          ) : tab === "log" ? (
            <Log crawl={crawl} />
          ) : crawl.figures ? (
            <Figures figures={crawl.figures} />
          ) : (
            <Card>
              <Empty icon="crawls" title={t("crawl.noFigures")}>
                <Link to={`/tasks/${encodeURIComponent(crawl.task_id)}?tab=explain`}>
                  {t("explain.title")}
                </Link>
              </Empty>
            </Card>
          )}
        </div>
      </div>
    </>
  );
}

export default function CrawlPage() {
  const t = useT();
  const { path } = usePlace();
  const id = matchPath("/crawls/{id}", path)?.id ?? "";
  const found = useQuery(crawlQuery(id));
  return (
    <>
      <Crumbs to="/crawls" parent={t("nav.crawls")} />
      <Loaded of={found} rows={10}>
        {(crawl) => <Shown crawl={crawl} />}
      </Loaded>
    </>
  );
}
