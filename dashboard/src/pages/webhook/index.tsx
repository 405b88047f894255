import { useQuery } from "@tanstack/react-query";
import { webhook as webhookQuery } from "../../api/queries";
import type { WebhookDetails } from "../../generated/api";
import { useT } from "../../i18n";
import { count } from "../../lib/format";
import { Link, matchPath, usePlace } from "../../lib/router";
import { Ago, Card, Crumbs, Loaded, PageHead } from "../../ui/basics";
import { Mark, State } from "../../ui/State";
import { Wants, WebhookActions } from "../webhooks/parts";
import { Deliveries } from "./Deliveries";

const STATES = ["waiting", "delivered", "dead"] as const;

function Figures({ webhook }: { webhook: WebhookDetails }) {
  const t = useT();
  const { path } = usePlace();
  return (
    <div className="figures">
      {STATES.map((state) => (
        <Link key={state} className="card figure" to={`${path}?status=${state}`}>
          <span className="name state">
            <Mark family="delivery" name={state} /> {t(`delivery.${state}`)}
          </span>
          <span className="value">{count(webhook[state])}</span>
        </Link>
      ))}
    </div>
  );
}

function Shown({ webhook }: { webhook: WebhookDetails }) {
  const t = useT();
  return (
    <>
      <PageHead
        title={
          <>
            <h1 className="breaks">{webhook.name}</h1>
            <State family="other" name={webhook.status} />
          </>
        }
      >
        <WebhookActions webhook={webhook} />
      </PageHead>
      <div className="stack">
        {webhook.is_full && <div className="notice bad">{t("hooks.fullText")}</div>}
        {webhook.status === "paused" && <div className="notice warn">{t("hooks.pausedText")}</div>}
        <Figures webhook={webhook} />
        <div className="grid">
          <div className="span-8">
            <Deliveries webhook={webhook} />
          </div>
          <div className="span-4">
            <Card title={t("tasks.about")}>
              <dl className="facts">
                <dt>{t("hooks.url")}</dt>
                <dd>{webhook.url}</dd>
                <dt>{t("hooks.told")}</dt>
                <dd>
                  <Wants webhook={webhook} />
                </dd>
                {webhook.description && (
                  <>
                    <dt>{t("common.description")}</dt>
                    <dd>{webhook.description}</dd>
                  </>
                )}
                <dt>{t("common.id")}</dt>
                <dd className="mono">{webhook.id}</dd>
                <dt>{t("projects.made")}</dt>
                <dd>
                  <Ago at={webhook.created_at} />
                </dd>
                <dt>{t("flow.cause")}</dt>
                <dd>{webhook.cause || "–"}</dd>
              </dl>
            </Card>
          </div>
        </div>
      </div>
    </>
  );
}

export default function WebhookPage() {
  const t = useT();
  const { path } = usePlace();
  const id = matchPath("/webhooks/{id}", path)?.id ?? "";
  const found = useQuery(webhookQuery(id));
  return (
    <>
      <Crumbs to="/webhooks" parent={t("nav.webhooks")} />
      <Loaded of={found} rows={8}>
        {(webhook) => <Shown webhook={webhook} />}
      </Loaded>
    </>
  );
}
