/** Dialogs that make, change and silence rules. */
import { call } from "../../api/client";
import { queryClient } from "../../api/queries";
import { useVisitor } from "../../app/session";
import type { AlertView } from "../../generated/api";
import { useT, useWord } from "../../i18n";
import {
  hasWindow,
  isShare,
  limitOf,
  patchOf,
  requestOf,
  SEVERITIES,
  SOURCES,
} from "../../lib/alerts";
import { interval, shortId } from "../../lib/format";
import { type Ask, FormDialog } from "../../ui/FormDialog";
import { useProjectAsk } from "../../ui/projectAsk";
import { useToast } from "../../ui/Toasts";

const SPANS = [3600, 4 * 3600, 86_400, 7 * 86_400];

const renew = () => queryClient.invalidateQueries({ queryKey: ["alerts"] });

/** The fields that a new rule and a changed one have in common. */
function useAsks(alert?: AlertView): Ask[] {
  const t = useT();
  const word = useWord();
  const [direction, limit] = alert ? limitOf(alert) : (["above", ""] as const);
  const text = (value: number | null | undefined) =>
    value === null || value === undefined ? "" : String(value);
  return [
    {
      name: "direction",
      label: t("alerts.when"),
      value: direction,
      options: [
        ["above", t("alerts.above")],
        ["below", t("alerts.below")],
      ],
    },
    {
      name: "limit",
      label: t("alerts.limit"),
      type: "number",
      required: true,
      value: String(limit),
      ...(!alert || isShare(alert.source) ? { hint: t("alerts.shareHint") } : {}),
    },
    {
      name: "clear_at",
      label: t("alerts.clearAt"),
      hint: t("alerts.clearAtHint"),
      type: "number",
      value: text(alert?.clear_at),
    },
    {
      name: "for_s",
      label: t("alerts.for"),
      hint: t("alerts.forHint"),
      type: "number",
      value: text(alert?.for_s ?? 0),
    },
    {
      name: "clear_s",
      label: t("alerts.clear"),
      type: "number",
      value: text(alert?.clear_s ?? 0),
    },
    ...(!alert || hasWindow(alert.source)
      ? [
          {
            name: "window_s",
            label: t("alerts.window"),
            hint: t("alerts.windowHint"),
            type: "number" as const,
            value: text(alert?.window_s ?? 300),
          },
        ]
      : []),
    {
      name: "severity",
      label: t("alerts.severity"),
      value: alert?.severity ?? "warning",
      options: SEVERITIES.map((each): [string, string] => [each, word("alertSeverity", each)]),
    },
    { name: "description", label: t("common.description"), value: alert?.description ?? "" },
  ];
}

export function Change({ alert, onClose }: { alert: AlertView; onClose: () => void }) {
  const t = useT();
  const toast = useToast();
  const asks = useAsks(alert);
  return (
    <FormDialog
      title={t("alerts.changeOf", { name: alert.name })}
      verb={t("common.save")}
      asks={asks}
      onClose={onClose}
      onSubmit={async (values) => {
        await call("patch", "/api/v1/alerts/{alert_id}", {
          path: { alert_id: alert.id },
          body: patchOf(alert, values),
        });
        await renew();
        toast({ tone: "ok", text: t("alerts.saved", { name: alert.name }) });
        onClose();
      }}
    />
  );
}

export function Make({ onClose }: { onClose: () => void }) {
  const t = useT();
  const word = useWord();
  const toast = useToast();
  const { seesFleet } = useVisitor();
  const ofProject = useProjectAsk(t("alerts.projectHint"));
  const asks = useAsks();
  // A key of one project can watch what belongs to that alone.
  const sources = seesFleet ? SOURCES : SOURCES.filter(hasWindow);
  return (
    <FormDialog
      title={t("alerts.make")}
      verb={t("alerts.make")}
      onClose={onClose}
      onSubmit={async (values) => {
        const made = await call("post", "/api/v1/alerts", { body: requestOf(values) });
        await renew();
        toast({ tone: "ok", text: t("alerts.saved", { name: made.name }) });
        onClose();
      }}
      asks={[
        { name: "name", label: t("common.name"), hint: t("clusters.idHint"), required: true },
        {
          name: "source",
          label: t("alerts.source"),
          options: sources.map((each): [string, string] => [each, word("alertSource", each)]),
        },
        { name: "event", label: t("alerts.event"), hint: t("alerts.eventHint") },
        ...ofProject,
        ...asks,
      ]}
    />
  );
}

export function Silence({ alert, onClose }: { alert: AlertView; onClose: () => void }) {
  const t = useT();
  const toast = useToast();
  return (
    <FormDialog
      title={t("alerts.silenceOf", { name: alert.name })}
      verb={t("alerts.silence")}
      onClose={onClose}
      onSubmit={async (values) => {
        await call("post", "/api/v1/alerts/{alert_id}:silence", {
          path: { alert_id: alert.id },
          body: {
            for_s: Number(values.for_s),
            subject: values.subject ?? "",
            reason: values.reason ?? "",
          },
        });
        await renew();
        toast({ tone: "ok", text: t("alerts.silence.done", { name: alert.name }) });
        onClose();
      }}
      asks={[
        {
          name: "for_s",
          label: t("alerts.silenceFor"),
          options: SPANS.map((each): [string, string] => [String(each), interval(each)]),
        },
        ...(alert.subjects.length > 0
          ? [
              {
                name: "subject",
                label: t("alerts.subject"),
                options: [
                  ["", t("alerts.allOfIt")],
                  ...alert.subjects.map((each): [string, string] => [each, shortId(each)]),
                ] as [string, string][],
              },
            ]
          : []),
        { name: "reason", label: t("alerts.why"), hint: t("alerts.whyHint") },
      ]}
    />
  );
}
