import { useT } from "../../i18n";
import { ownZone, zoneNames } from "../../lib/calendar";
import { type Draft, UNITS } from "../../lib/scheduleDraft";
import { Field, Segments } from "../../ui/basics";

interface RuleFieldsProps {
  draft: Draft;
  wrong: Record<string, string>;
  /** A schedule keeps its name. */
  isNew: boolean;
  onChange: (changes: Partial<Draft>) => void;
}

interface TextProps extends RuleFieldsProps {
  name: "name" | "description" | "cron" | "every" | "grace" | "most" | "jitter";
  label: string;
  hint?: string;
  field?: string;
  number?: boolean;
  required?: boolean;
  className?: string;
}

function Text({ draft, wrong, onChange, name, label, hint, field, ...rest }: TextProps) {
  return (
    <Field
      label={rest.required ? `${label} *` : label}
      hint={hint}
      wrong={wrong[field ?? name]}
      {...(rest.className ? { className: rest.className } : {})}
    >
      {(id, note) => (
        <input
          id={id}
          aria-describedby={note}
          className={`input ${name === "cron" ? "mono" : ""}`}
          type={rest.number ? "number" : "text"}
          step="any"
          min={0}
          required={rest.required}
          value={draft[name]}
          onChange={(event) => onChange({ [name]: event.target.value })}
        />
      )}
    </Field>
  );
}

function Zone({ draft, wrong, onChange }: RuleFieldsProps) {
  const t = useT();
  const own = ownZone();
  return (
    <Field
      label={t("schedules.zone")}
      wrong={wrong.time_zone}
      hint={draft.zone === own ? t("schedules.zoneHint") : t("schedules.yours", { zone: own })}
    >
      {(id, note) => (
        <>
          <input
            id={id}
            aria-describedby={note}
            className="input"
            list={`${id}-list`}
            value={draft.zone}
            onChange={(event) => onChange({ zone: event.target.value })}
          />
          <datalist id={`${id}-list`}>
            {zoneNames().map((zone) => (
              <option key={zone} value={zone} />
            ))}
          </datalist>
        </>
      )}
    </Field>
  );
}

/** When something is due, and what happens when that cannot be kept. */
export function RuleFields(props: RuleFieldsProps) {
  const t = useT();
  const { draft, wrong, isNew, onChange } = props;
  return (
    <div className="stack">
      <div className="two">
        {isNew && (
          <Text
            {...props}
            name="name"
            label={t("common.name")}
            hint={t("clusters.idHint")}
            required
          />
        )}
        <Text {...props} name="description" label={t("common.description")} />
      </div>
      <Segments
        label={t("schedules.rule")}
        value={draft.kind}
        options={[
          ["cron", t("schedules.byCron")],
          ["every", t("schedules.byInterval")],
        ]}
        onChange={(kind) => onChange({ kind })}
      />
      <div className="two">
        {draft.kind === "cron" ? (
          <>
            <Text
              {...props}
              name="cron"
              label={t("schedules.cron")}
              hint={t("schedules.cronHint")}
              required
            />
            <Zone {...props} />
          </>
        ) : (
          <>
            <Text
              {...props}
              name="every"
              field="every_s"
              label={t("schedules.interval")}
              number
              required
            />
            <Field label={t("schedules.unit")}>
              {(id) => (
                <select
                  id={id}
                  className="select"
                  value={draft.unit}
                  onChange={(event) => onChange({ unit: event.target.value })}
                >
                  {UNITS.map((unit) => (
                    <option key={unit} value={unit}>
                      {t(`schedules.unit.${unit}`)}
                    </option>
                  ))}
                </select>
              )}
            </Field>
          </>
        )}
      </div>
      <details className="group">
        <summary>{t("schedules.late")}</summary>
        <div className="two">
          <Text
            {...props}
            name="most"
            field="max_instances"
            label={t("schedules.most")}
            hint={t("schedules.mostHint")}
            number
          />
          <Field label={t("schedules.overlap")} wrong={wrong.overlap}>
            {(id) => (
              <select
                id={id}
                className="select"
                value={draft.overlap}
                onChange={(event) =>
                  onChange({ overlap: event.target.value === "queue" ? "queue" : "skip" })
                }
              >
                <option value="skip">{t("schedules.overlap.skip")}</option>
                <option value="queue">{t("schedules.overlap.queue")}</option>
              </select>
            )}
          </Field>
          <Text
            {...props}
            name="grace"
            field="misfire_grace_s"
            label={t("schedules.grace")}
            hint={t("schedules.graceHint")}
            number
          />
          <Text
            {...props}
            name="jitter"
            field="jitter_s"
            label={t("schedules.jitter")}
            hint={t("schedules.jitterHint")}
            number
          />
          <label className="check">
            <input
              type="checkbox"
              checked={draft.coalesce}
              onChange={(event) => onChange({ coalesce: event.target.checked })}
            />
            {t("schedules.coalesce")}
          </label>
        </div>
      </details>
    </div>
  );
}
