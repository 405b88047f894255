import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useCallback, useMemo, useState } from "react";
import { call, problemsOf } from "../../api/client";
import { queryClient, taskTypes } from "../../api/queries";
import type { ScheduleView, TaskTypeView } from "../../generated/api";
import { useT, useWords } from "../../i18n";
import { ownZone } from "../../lib/calendar";
import { navigate } from "../../lib/router";
import { type Draft, draftOf, newDraft, rule } from "../../lib/scheduleDraft";
import type { Values } from "../../lib/schema";
import type { TaskRequest } from "../../lib/snippets";
import { Button, Card, Loaded } from "../../ui/basics";
import { Json } from "../../ui/Json";
import { useComplain, useToast } from "../../ui/Toasts";
import { TaskFields, unplaced } from "../submit/TaskFields";
import { sortedTypes, TypeChoice } from "../submit/TypeChoice";
import { type Glossary, glossary } from "../submit/words";
import { Preview } from "./Preview";
import { RuleFields } from "./RuleFields";

interface EditorProps {
  /** The one that is changed; a new one is made where there is none. */
  schedule?: ScheduleView;
}

/** What is wrong with the task, as its own form names the fields. */
function ofTask(wrong: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(wrong).flatMap(([field, said]) =>
      field.startsWith("task.") ? [[field.slice("task.".length), said]] : [],
    ),
  );
}

const RULES = new Set([
  "name",
  "description",
  "cron",
  "every_s",
  "time_zone",
  "misfire_grace_s",
  "max_instances",
  "overlap",
  "jitter_s",
]);

function Form(props: EditorProps & { types: readonly TaskTypeView[]; words: Glossary }) {
  const t = useT();
  const toast = useToast();
  const complain = useComplain();
  const { schedule, words } = props;
  const types = useMemo(() => sortedTypes(props.types), [props.types]);
  const [draft, setDraft] = useState<Draft>(schedule ? draftOf(schedule) : newDraft(ownZone()));
  const begins = (schedule?.task ?? {}) as Partial<TaskRequest>;
  const [typeName, setTypeName] = useState(begins.task_type ?? types[0]?.name ?? "");
  const [task, setTask] = useState<TaskRequest>({ task_type: typeName });
  const [wrong, setWrong] = useState<Record<string, string>>({});
  const [busy, setBusy] = useState(false);
  const type = types.find((each) => each.name === typeName) ?? types[0];
  const changeDraft = useCallback(
    (changes: Partial<Draft>) => setDraft((before) => ({ ...before, ...changes })),
    [],
  );
  if (!type) return null;
  const { task_type, parameters, ...more } = begins;
  const same = type.name === task_type;

  async function save(event: FormEvent): Promise<void> {
    event.preventDefault();
    setBusy(true);
    setWrong({});
    try {
      // What runs a workflow goes on to: only its rule can be changed here.
      const what = schedule?.workflow ? {} : { task: { ...task, ...ownProject(schedule) } };
      const body = { ...rule(draft), ...what };
      const kept = schedule
        ? await call("patch", "/api/v1/schedules/{schedule_id}", {
            path: { schedule_id: schedule.id },
            body: body as never,
          })
        : await call("post", "/api/v1/schedules", {
            body: { ...body, name: draft.name } as never,
          });
      await queryClient.invalidateQueries({ queryKey: ["schedules"] });
      toast({ tone: "ok", text: t("schedules.kept", { name: kept.name }) });
      navigate(`/schedules/${encodeURIComponent(kept.id)}`);
    } catch (error) {
      const found = problemsOf(error);
      setWrong(found);
      if (Object.keys(found).length === 0) complain(error);
      setBusy(false);
    }
  }

  const others = [
    ...unplaced(type, ofTask(wrong)),
    ...Object.entries(wrong).filter(([field]) => !field.startsWith("task.") && !RULES.has(field)),
  ];
  return (
    <form className="grid" onSubmit={(event) => void save(event)}>
      <div className="span-7 stack">
        <Card title={t("schedules.when")}>
          <RuleFields draft={draft} wrong={wrong} isNew={!schedule} onChange={changeDraft} />
        </Card>
        {schedule?.workflow ? (
          <Card title={t("schedules.what")}>
            <Json value={schedule.workflow} label={t("schedules.what")} />
          </Card>
        ) : (
          <>
            <Card title={t("schedules.what")}>
              <TypeChoice types={types} words={words} value={type} onChange={setTypeName} />
            </Card>
            <TaskFields
              key={type.name}
              type={type}
              words={words}
              parameters={same ? ((parameters ?? {}) as Values) : {}}
              more={same ? more : {}}
              wrong={ofTask(wrong)}
              onRequest={setTask}
            />
          </>
        )}
      </div>
      <div className="span-5 stack">
        <Card title={t("schedules.preview")} className="stays">
          <div className="stack">
            <Preview draft={draft} />
            {others.map(([field, message]) => (
              <div key={field} className="notice bad" role="alert">
                <span className="breaks">
                  <b>{field}</b> {message}
                </span>
              </div>
            ))}
            <Button type="submit" look="primary" disabled={busy}>
              {schedule ? t("common.save") : t("schedules.make")}
            </Button>
          </div>
        </Card>
      </div>
    </form>
  );
}

/** A schedule stays in its project. */
function ownProject(schedule: ScheduleView | undefined): { project_id?: string } {
  return schedule ? { project_id: schedule.project_id } : {};
}

export function Editor({ schedule }: EditorProps) {
  const { language } = useWords();
  const types = useQuery(taskTypes);
  const words = useQuery(glossary(language));
  return (
    <Loaded of={types} rows={8}>
      {({ items }) => (
        <Loaded of={words} rows={8}>
          {(said) => <Form types={items} words={said} {...(schedule ? { schedule } : {})} />}
        </Loaded>
      )}
    </Loaded>
  );
}
