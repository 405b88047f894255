import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useMemo, useState } from "react";
import { call, problemsOf } from "../../api/client";
import { queryClient, run as runQuery, workflowDocument } from "../../api/queries";
import type { WorkflowDocument, WorkflowView } from "../../generated/api";
import { useT } from "../../i18n";
import { navigate, useSearch } from "../../lib/router";
import { fieldsOf, type Values } from "../../lib/schema";
import { givenParameters, parameterSchema } from "../../lib/steps";
import { Button, Card, Field, Loaded } from "../../ui/basics";
import { useComplain, useToast } from "../../ui/Toasts";
import { SchemaForm } from "../submit/SchemaForm";
import type { Glossary } from "../submit/words";

const PREFIX = "parameters.";

/** Parameters are called what the document calls them. */
function glossaryOf(document: WorkflowDocument): Glossary {
  return Object.fromEntries(
    Object.entries(document.parameters ?? {}).map(([name, each]) => [
      `workflow.${name}`,
      {
        label: name,
        ...(each.description ? { hint: each.description } : {}),
        ...("default" in each && each.default !== undefined
          ? {
              placeholder:
                typeof each.default === "string" ? each.default : JSON.stringify(each.default),
            }
          : {}),
      },
    ]),
  );
}

interface FormProps {
  workflow: WorkflowView;
  version: number;
  document: WorkflowDocument;
  begins: Values;
}

function Form({ workflow, version, document, begins }: FormProps) {
  const t = useT();
  const toast = useToast();
  const complain = useComplain();
  const fields = useMemo(() => fieldsOf(parameterSchema(document)), [document]);
  const words = useMemo(() => glossaryOf(document), [document]);
  const [values, setValues] = useState<Values>(begins);
  const [wrong, setWrong] = useState<Record<string, string>>({});
  const [busy, setBusy] = useState(false);

  async function start(event: FormEvent): Promise<void> {
    event.preventDefault();
    setBusy(true);
    setWrong({});
    try {
      const run = await call("post", "/api/v1/workflows/{workflow_id}:start", {
        path: { workflow_id: workflow.id },
        body: { version, parameters: givenParameters(document, values) },
      });
      await queryClient.invalidateQueries({ queryKey: ["runs"] });
      toast({ tone: "ok", text: t("flow.start.done", { name: workflow.name }) });
      navigate(`/runs/${encodeURIComponent(run.id)}`);
    } catch (error) {
      const found = Object.entries(problemsOf(error));
      setWrong(
        Object.fromEntries(
          found.map(([field, said]) => [
            field.startsWith(PREFIX) ? field.slice(PREFIX.length) : field,
            said,
          ]),
        ),
      );
      if (found.length === 0) complain(error);
      setBusy(false);
    }
  }

  const known = new Set(fields.map((field) => field.name));
  const others = Object.entries(wrong).filter(([field]) => !known.has(field));
  return (
    <form className="stack" onSubmit={(event) => void start(event)}>
      {fields.length > 0 ? (
        <SchemaForm
          type="workflow"
          words={words}
          fields={fields}
          values={values}
          wrong={wrong}
          onChange={setValues}
        />
      ) : (
        <p className="muted">{t("flow.noParameters")}</p>
      )}
      {others.length > 0 && (
        <ul className="notice bad stack tight" role="alert">
          {others.map(([field, said]) => (
            <li key={field} className="breaks">
              <b>{field}</b> {said}
            </li>
          ))}
        </ul>
      )}
      <div>
        <Button type="submit" look="primary" icon="play" disabled={busy}>
          {t("flow.start")}
        </Button>
      </div>
    </form>
  );
}

/** A form made from the parameters of the document; with the values of an earlier run, if wanted. */
export function Start({ workflow }: { workflow: WorkflowView }) {
  const t = useT();
  const [search, change] = useSearch();
  const asked = Number(search.get("version"));
  const version = asked >= 1 && asked <= workflow.latest ? asked : workflow.latest;
  const from = search.get("from");
  const earlier = useQuery({ ...runQuery(from ?? ""), enabled: from !== null });
  const found = useQuery(workflowDocument(workflow.id, version));
  const newest = Array.from(
    { length: Math.min(workflow.latest, 50) },
    (_, n) => workflow.latest - n,
  );
  const ready = from === null || earlier.data !== undefined || earlier.error !== null;
  return (
    <Card title={t("flow.start.title")}>
      <div className="stack">
        {workflow.latest > 1 && (
          <Field label={t("flow.version")}>
            {(id) => (
              <select
                id={id}
                className="select auto"
                value={version}
                onChange={(event) => change({ version: event.target.value })}
              >
                {newest.map((each) => (
                  <option key={each} value={each}>
                    {each === workflow.latest ? t("flow.newest", { n: each }) : each}
                  </option>
                ))}
              </select>
            )}
          </Field>
        )}
        <Loaded of={found} rows={4}>
          {({ document }) =>
            document &&
            ready && (
              <Form
                key={version}
                workflow={workflow}
                version={version}
                document={document}
                begins={earlier.data?.parameters ?? {}}
              />
            )
          }
        </Loaded>
      </div>
    </Card>
  );
}
