import { useMemo, useState } from "react";
import { call } from "../../api/client";
import { queryClient } from "../../api/queries";
import { useVisitor } from "../../app/session";
import type { BulkReply, DeadLetter } from "../../generated/api";
import { useT, useWord } from "../../i18n";
import { count, shortId } from "../../lib/format";
import { usePages } from "../../lib/pages";
import { Link, useSearch } from "../../lib/router";
import { Button, Card, Chip, Empty, PageHead } from "../../ui/basics";
import { Confirm } from "../../ui/Dialog";
import { ProjectSelect, SelectFilter, TextFilter, TypeSelect } from "../../ui/filters";
import { Listing } from "../../ui/Listing";
import { State } from "../../ui/State";
import { type Column, since } from "../../ui/Table";
import { useComplain, useToast } from "../../ui/Toasts";

type Verb = "requeue" | "discard";
const CLASSES = ["error", "network", "blocked", "timeout", "crash", "lost", "invalid"];
const NAMES = { type: "task_type", project: "project_id", error: "error_class", reason: "reason" };

function selection(search: URLSearchParams): Record<string, string> {
  const found: Record<string, string> = {};
  for (const [short, name] of Object.entries(NAMES)) {
    const value = search.get(short);
    if (value) found[name] = value;
  }
  return found;
}

async function carryOut(verb: Verb, body: Record<string, unknown>): Promise<[number, number]> {
  let [changed, refused] = [0, 0];
  let cursor: string | null | undefined;
  do {
    const reply = (await call("post", `/api/v1/dead-letters:${verb}`, {
      body: { ...body, ...(cursor ? { cursor } : {}) } as never,
    })) as BulkReply;
    changed += reply.changed;
    refused += reply.refused_count;
    cursor = reply.next_cursor;
  } while (cursor);
  return [changed, refused];
}

export default function DeadLetters() {
  const t = useT();
  const word = useWord();
  const toast = useToast();
  const complain = useComplain();
  const { operates } = useVisitor();
  const [search] = useSearch();
  const filter = useMemo(() => selection(search), [search]);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [asked, setAsked] = useState<Verb | null>(null);
  const found = usePages<DeadLetter>(
    ["dead-letters", filter],
    (cursor) =>
      call("get", "/api/v1/dead-letters", {
        query: { ...filter, limit: 200, ...(cursor ? { cursor } : {}) } as never,
      }),
    10_000,
  );

  async function order(verb: Verb): Promise<void> {
    const body = chosen.size > 0 ? { ids: [...chosen] } : { filter };
    try {
      const [changed, refused] = await carryOut(verb, body);
      toast({
        tone: refused ? "bad" : "ok",
        text: t("bulk.done", { changed: count(changed), refused: count(refused) }),
      });
      setChosen(new Set());
    } catch (error) {
      complain(error);
    }
    await queryClient.invalidateQueries({ queryKey: ["dead-letters"] });
  }

  function toggle(id: string): void {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    setChosen(next);
  }

  const columns: Column<DeadLetter>[] = [
    ...(operates
      ? [
          {
            title: t("bulk.title"),
            bare: true,
            cell: (letter: DeadLetter) => (
              <input
                type="checkbox"
                aria-label={t("tasks.pick", { id: shortId(letter.id) })}
                checked={chosen.has(letter.id)}
                onChange={() => toggle(letter.id)}
              />
            ),
          },
        ]
      : []),
    { title: t("tasks.state"), cell: (letter) => <State family="task" name={letter.status} /> },
    {
      title: t("palette.task"),
      cell: (letter) => (
        <Link className="mono" to={`/tasks/${encodeURIComponent(letter.id)}`} title={letter.id}>
          {shortId(letter.id)}
        </Link>
      ),
    },
    { title: t("tasks.type"), cell: (letter) => letter.task_type },
    {
      title: t("dead.error"),
      cell: (letter) =>
        letter.error_class ? <Chip tone="bad">{word("errorClass", letter.error_class)}</Chip> : "–",
    },
    {
      title: t("dead.message"),
      cell: (letter) => (
        <div className="dead-message">
          <div className="breaks">{letter.message}</div>
          <div className="muted small breaks">{letter.reason}</div>
        </div>
      ),
    },
    {
      title: t("tasks.tries"),
      right: true,
      cell: (letter) => count(letter.retry_count + letter.loss_count),
    },
    since(t("dead.ended"), (letter) => letter.completed_at),
  ];

  const meant = chosen.size > 0 ? t("bulk.some", { n: count(chosen.size) }) : t("bulk.allMatching");
  return (
    <>
      <PageHead title={<h1>{t("nav.dead")}</h1>}>
        {operates && (found.data?.length ?? 0) > 0 && (
          <>
            <Button icon="retry" onClick={() => setAsked("requeue")}>
              {chosen.size > 0
                ? t("dead.requeueSome", { n: count(chosen.size) })
                : t("dead.requeueAll")}
            </Button>
            <Button look="danger" onClick={() => setAsked("discard")}>
              {chosen.size > 0
                ? t("dead.discardSome", { n: count(chosen.size) })
                : t("dead.discardAll")}
            </Button>
          </>
        )}
      </PageHead>
      <search className="filters">
        <TypeSelect />
        <SelectFilter name="error" label={t("dead.error")} values={CLASSES} />
        <ProjectSelect />
        <TextFilter type="search" name="reason" label={t("dead.reason")} />
      </search>
      <Card flush>
        <Listing
          of={found}
          label={t("nav.dead")}
          columns={columns}
          rowKey={(letter) => letter.id}
          filters={Object.keys(NAMES)}
          empty={
            <Empty icon="check" title={t("dead.emptyTitle")} command="crawlfleet dead-letters list">
              {t("dead.emptyText")}
            </Empty>
          }
        />
      </Card>
      {asked && (
        <Confirm
          title={`${t(`dead.${asked}`)}: ${meant}`}
          text={t(`dead.${asked}.text`)}
          verb={t(`dead.${asked}`)}
          danger={asked === "discard"}
          onConfirm={() => order(asked)}
          onClose={() => setAsked(null)}
        />
      )}
    </>
  );
}
