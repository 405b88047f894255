/** What both pages about schedules show. */
import { useState } from "react";
import { call } from "../../api/client";
import { queryClient } from "../../api/queries";
import { useVisitor } from "../../app/session";
import type { FiringView, ScheduleView } from "../../generated/api";
import { useT } from "../../i18n";
import { dayIn, ownZone, timeIn } from "../../lib/calendar";
import { interval } from "../../lib/format";
import { Link, navigate } from "../../lib/router";
import { Ago, Button } from "../../ui/basics";
import { Confirm } from "../../ui/Dialog";
import { State } from "../../ui/State";
import { useComplain, useToast } from "../../ui/Toasts";

/** When it is due, as its rule says it. */
export function Rule({ schedule }: { schedule: ScheduleView }) {
  const t = useT();
  if (schedule.every_s) return <>{t("schedules.every", { span: interval(schedule.every_s) })}</>;
  return (
    <>
      <code>{schedule.cron}</code>
      <div className="muted small">{schedule.time_zone}</div>
    </>
  );
}

/** An instant on the clocks of a zone, and how far away it is. */
export function Instant({ at, zone }: { at: string | null | undefined; zone: string }) {
  if (!at) return <span className="muted">–</span>;
  const when = Date.parse(at);
  const isOwn = zone === ownZone();
  return (
    <>
      <Ago at={at} />
      <div className="muted small nowrap">
        {dayIn(zone, when)} {timeIn(zone, when)}
        {!isOwn && ` ${zone}`}
      </div>
    </>
  );
}

/** The page of what a firing started: a task, or the run of a workflow. */
export function startedPath(firing: FiringView): string {
  if (firing.run_id) return `/runs/${encodeURIComponent(firing.run_id)}`;
  return firing.task_id ? `/tasks/${encodeURIComponent(firing.task_id)}` : "";
}

/** What became of a due instant. */
export function Outcome({ firing }: { firing: FiringView | null | undefined }) {
  const t = useT();
  if (!firing) return <span className="muted">{t("schedules.never")}</span>;
  return (
    <>
      <State family="firing" name={firing.outcome} />
      <div className="muted small">
        {startedPath(firing) ? (
          <Link to={startedPath(firing)}>
            <Ago at={firing.at} />
          </Link>
        ) : (
          <Ago at={firing.at} />
        )}
      </div>
    </>
  );
}

type Verb = "pause" | "resume" | "remove";

export function ScheduleActions({ schedule, brief }: { schedule: ScheduleView; brief?: boolean }) {
  const t = useT();
  const toast = useToast();
  const complain = useComplain();
  const { operates } = useVisitor();
  const [removing, setRemoving] = useState(false);
  if (!operates) return null;
  const path = { schedule_id: schedule.id };
  const { name } = schedule;
  const size = brief ? { size: "small" as const } : {};
  const renew = () => queryClient.invalidateQueries({ queryKey: ["schedules"] });

  async function order(verb: Verb): Promise<void> {
    try {
      await call("post", `/api/v1/schedules/{schedule_id}:${verb}`, { path });
      toast({ tone: "ok", text: t(`schedules.${verb}.done`, { name }) });
      if (verb === "remove") navigate("/schedules");
    } catch (error) {
      complain(error);
    }
    await renew();
  }

  async function run(): Promise<void> {
    try {
      const fired = await call("post", "/api/v1/schedules/{schedule_id}:run", { path, body: {} });
      toast({ tone: "ok", text: t("schedules.run.done", { name }) });
      const to = startedPath(fired);
      if (to && !brief) navigate(to);
    } catch (error) {
      complain(error);
    }
    await renew();
  }

  const verb = schedule.status === "paused" ? "resume" : "pause";
  return (
    <span className="row tight end nowrap">
      <Button
        {...size}
        icon="play"
        onClick={() => void run()}
        aria-label={`${t("schedules.run")}: ${name}`}
      >
        {t("schedules.run")}
      </Button>
      {schedule.status !== "over" && (
        <Button
          {...size}
          onClick={() => void order(verb)}
          aria-label={`${t(`schedules.${verb}`)}: ${name}`}
        >
          {t(`schedules.${verb}`)}
        </Button>
      )}
      {!brief && (
        <>
          <Link className="button" to={`/schedules/${encodeURIComponent(schedule.id)}?tab=edit`}>
            {t("clusters.change")}
          </Link>
          <Button look="danger" onClick={() => setRemoving(true)}>
            {t("bundles.remove")}
          </Button>
        </>
      )}
      {removing && (
        <Confirm
          title={t("schedules.remove.ask", { name })}
          text={t("schedules.remove.text")}
          verb={t("bundles.remove")}
          danger
          onConfirm={() => order("remove")}
          onClose={() => setRemoving(false)}
        />
      )}
    </span>
  );
}
