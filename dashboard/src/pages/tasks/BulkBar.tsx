import { useState } from "react";
import { call } from "../../api/client";
import type { BulkReply } from "../../generated/api";
import { useT } from "../../i18n";
import { count } from "../../lib/format";
import { selectionOf, type TaskFilter } from "../../lib/taskFilter";
import { Button } from "../../ui/basics";
import { ConfirmOrder, type Verb } from "../../ui/ConfirmOrder";
import { useComplain, useToast } from "../../ui/Toasts";

const VERBS: Verb[] = ["cancel", "retry", "reprioritise", "pause", "resume"];

interface BulkBarProps {
  ids: ReadonlySet<string>;
  all: boolean;
  filter: TaskFilter;
  total: number | null;
  describe: (state: string) => string;
  onAll: () => void;
  onDone: () => void;
}

interface Outcome {
  changed: number;
  refused: number;
}

/** Carry an order out for all that is meant, portion by portion. */
async function carryOut(verb: Verb, props: BulkBarProps, priority: number): Promise<Outcome> {
  const outcome: Outcome = { changed: 0, refused: 0 };
  const more = verb === "reprioritise" ? { priority } : {};
  const send = async (body: object): Promise<BulkReply> => {
    const reply = (await call("post", `/api/v1/tasks:${verb}`, {
      body: { ...body, ...more } as never,
    })) as BulkReply;
    outcome.changed += reply.changed;
    outcome.refused += reply.refused_count;
    return reply;
  };
  if (props.all) {
    const filter = selectionOf(props.filter);
    let cursor: string | null | undefined;
    do {
      cursor = (await send({ filter, ...(cursor ? { cursor } : {}) })).next_cursor;
    } while (cursor);
    return outcome;
  }
  const ids = [...props.ids];
  for (let at = 0; at < ids.length; at += 10_000) await send({ ids: ids.slice(at, at + 10_000) });
  return outcome;
}

export function BulkBar(props: BulkBarProps) {
  const t = useT();
  const toast = useToast();
  const complain = useComplain();
  const [asked, setAsked] = useState<Verb | null>(null);
  const filtered = Object.keys(props.filter).length > 0;
  const many = props.all
    ? props.total === null
      ? t("bulk.allMatching")
      : t("bulk.allTotal", { n: count(props.total) })
    : t("bulk.some", { n: count(props.ids.size) });

  async function confirm(verb: Verb, priority: number): Promise<void> {
    try {
      const { changed, refused } = await carryOut(verb, props, priority);
      toast({
        tone: refused ? "bad" : "ok",
        text: t("bulk.done", { changed: count(changed), refused: count(refused) }),
      });
      props.onDone();
    } catch (error) {
      complain(error);
    }
  }

  return (
    <section className="bulk" aria-label={t("bulk.title")}>
      <span className="strong">{many}</span>
      {!props.all && filtered && (
        <Button size="small" look="plain" onClick={props.onAll}>
          {t("bulk.chooseAll")}
        </Button>
      )}
      <span className="grow" />
      {VERBS.map((verb) => (
        <Button
          key={verb}
          size="small"
          {...(verb === "cancel" ? { look: "danger" as const } : {})}
          onClick={() => setAsked(verb)}
        >
          {t(`order.${verb}`)}
        </Button>
      ))}
      <Button size="small" look="plain" icon="close" onClick={props.onDone}>
        {t("bulk.clear")}
      </Button>
      {asked && (
        <ConfirmOrder
          verb={asked}
          title={`${t(`order.${asked}`)}: ${many}`}
          priority={8}
          onConfirm={(priority) => confirm(asked, priority)}
          onClose={() => setAsked(null)}
        />
      )}
    </section>
  );
}
